"""The methods of SparseTensor that `jsparse.ops.methods` installs, because they call operations of higher packages.

Type checkers and editors find them in `methods.pyi`, which `python tools/stubs.py` writes.
"""

__all__ = ["TensorMethods"]


class TensorMethods:
    """Base of SparseTensor."""

    __slots__ = ()
