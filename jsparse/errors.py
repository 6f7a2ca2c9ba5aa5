"""The one root of everything jsparse raises on purpose."""

__all__ = [
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
]


class JsparseError(Exception):
    """Root of jsparse's errors. A message says what was expected, what came, in which expression, and what to do."""


class ConfigError(JsparseError, ValueError):
    """A setting of `jsparse.config` is unknown, or has no such value."""


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
