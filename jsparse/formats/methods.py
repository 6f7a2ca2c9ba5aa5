"""The methods of patterns that `jsparse.ops.methods` installs, because they call operations of higher packages.

Type checkers and editors find them in `methods.pyi`, which `python tools/stubs.py` writes.
"""

__all__ = ["PatternMethods"]


class PatternMethods:
    """Base of patterns."""

    __slots__ = ()
