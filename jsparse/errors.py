"""The one root of everything jsparse raises on purpose."""

from collections.abc import Callable

__all__ = [
    "CacheError",
    "CacheWarning",
    "ConfigError",
    "DTypeError",
    "FormatError",
    "JsparseError",
    "LeafError",
    "LinearityError",
    "NotYetSupportedError",
    "PatternError",
    "SemiringError",
    "ShapeError",
    "SubscriptError",
    "pointed",
    "represented",
    "shortened",
]

LONGEST = 600  # characters of a message
LINE = 100  # characters of a text that are shown around a place in it


def represented(x: object, limit: int = 80) -> str:
    """What Python shows of any object, shortened; its type if it shows nothing."""
    return shortened(_shown(repr, x), limit)


def shortened(text: object, limit: int = 80) -> str:
    """The text, or that of an object, in at most `limit` characters: of a longer one the beginning and the end."""
    shown = text if isinstance(text, str) else _shown(str, text)
    if len(shown) <= limit:
        return shown
    behind = limit // 3
    return f"{shown[: limit - behind - 3]}...{shown[len(shown) - behind :]}"


def _shown(show: Callable[[object], str], x: object) -> str:
    try:
        return show(x)
    except Exception:  # of whoever wrote its class; and integers of thousands of digits have no text
        return f"a {type(x).__name__}"


def pointed(text: str, start: int, length: int = 1) -> str:
    """The text, or of a long one what surrounds the place, on a line of its own, and carets below the place."""
    first = max(0, min(start - LINE // 2, len(text) - LINE))
    before, behind = "..." * (first > 0), "..." * (first + LINE < len(text))
    line = "".join(character if character.isprintable() else " " for character in text[first : first + LINE])
    carets = "^" * max(min(length, first + LINE - start), 1)
    return f"    {before}{line}{behind}\n    {' ' * (start - first + len(before))}{carets}"


class JsparseError(Exception):
    """Root of jsparse's errors. A message says what was expected, what came, in which expression, and what to do.

    What it shows of what came is shortened where it is written; that no message is longer than a screen, whatever it
    shows, is seen to here.
    """

    def __init__(self, *args: object) -> None:
        super().__init__(*(shortened(part, LONGEST) if isinstance(part, str) else part for part in args))


class ConfigError(JsparseError, ValueError):
    """A setting of `jsparse.config` is unknown, or has no such value."""


class CacheError(JsparseError, OSError):
    """The folder of compiled kernels cannot be emptied or read as it was asked for."""


class CacheWarning(RuntimeWarning):
    """Compiled kernels are kept in memory only, since their folder cannot be used. It is given once a process."""


class SubscriptError(JsparseError, ValueError):
    """The text of an einsum, of an expression or of a format does not follow its grammar."""


class ShapeError(JsparseError, ValueError):
    """Ranks or sizes do not agree."""


class FormatError(JsparseError, ValueError):
    """A format is unknown, inconsistent, or cannot hold what it was asked to hold."""


class PatternError(JsparseError, ValueError):
    """Coordinates or pointers do not describe a tensor."""


class LeafError(PatternError, ShapeError):
    """A leaf of a tensor is missing, or is not of the shape and the dtype that the tensor's pattern asks for."""


class SemiringError(JsparseError, ValueError):
    """A semiring is unknown, or has no meaning for the values."""


class LinearityError(JsparseError, ValueError):
    """A function that is transposed is not linear in its arguments."""


class DTypeError(JsparseError, TypeError):
    """A dtype is unsupported, or dtypes do not agree."""


class NotYetSupportedError(JsparseError, NotImplementedError):
    """A valid request that this version does not serve; the message names what serves instead."""
