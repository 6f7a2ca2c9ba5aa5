"""All errors that jsparse raises on purpose, with one base class, and helpers that format their messages."""

from collections.abc import Callable

__all__ = [
    "CacheError",
    "CacheWarning",
    "ConfigError",
    "DTypeError",
    "DeletedArrayError",
    "FileFormatError",
    "FormatError",
    "IntegerRangeError",
    "JsparseError",
    "LeafError",
    "LinearityError",
    "NotYetSupportedError",
    "PatternError",
    "ScheduleError",
    "SemiringError",
    "ShapeError",
    "SubscriptError",
    "describe_type",
    "point_at",
    "short_repr",
    "shorten",
]

LONGEST = 600  # the maximum number of characters of a message
LINE = 100  # the characters of a long text that a message shows around an error in it


def short_repr(x: object, limit: int = 80) -> str:
    """Return the shortened `repr` of an object, or the name of its type if `repr` fails."""
    return shorten(_text_of(repr, x), limit)


def describe_type(x: object) -> str:
    """Return the name of an object's type with its article, as in "a list" and "an int"."""
    name = type(x).__name__
    return f"an {name}" if name[0] in "aeioAEIO" or name == "ndarray" else f"a {name}"


def shorten(text: object, limit: int = 80) -> str:
    """Shorten a text, or the `str` of an object, to at most `limit` characters, by leaving out the middle."""
    shown = text if isinstance(text, str) else _text_of(str, text)
    if len(shown) <= limit:
        return shown
    behind = limit // 3
    return f"{shown[: limit - behind - 3]}...{shown[len(shown) - behind :]}"


def _text_of(show: Callable[[object], str], x: object) -> str:
    try:
        return show(x)
    except Exception:  # a foreign class may raise anything, and int has no text above a number of digits
        return describe_type(x)


def point_at(text: str, start: int, length: int = 1) -> str:
    """A line with the text, cut around `start` if it is long, and a line with carets below the error."""
    first = max(0, min(start - LINE // 2, len(text) - LINE))
    before, behind = "..." * (first > 0), "..." * (first + LINE < len(text))
    line = "".join(character if character.isprintable() else " " for character in text[first : first + LINE])
    carets = "^" * max(min(length, first + LINE - start), 1)
    return f"    {before}{line}{behind}\n    {' ' * (start - first + len(before))}{carets}"


class JsparseError(Exception):
    """The base class of jsparse's errors. A message says what was expected, what came instead, where, and what to do.

        >>> try:
        ...     A @ jnp.ones(3)
        ... except jsparse.JsparseError as error:
        ...     print(error)
        Expected the last dimension of the left operand of @ ...

    Messages shorten the values that they quote. This class also keeps the whole message shorter than a screen.
    """

    def __init__(self, *args: object) -> None:
        super().__init__(*(shorten(part, LONGEST) if isinstance(part, str) else part for part in args))


class ConfigError(JsparseError, ValueError):
    """A setting of `jsparse.config` is unknown, or cannot have the value that you gave it.

    >>> jsparse.config.bounds = "off"
    Traceback (most recent call last):
    ConfigError: Expected config.bounds to be 'clamp' or 'check', but got 'off'.
    """


class CacheError(JsparseError, OSError):
    """A call that should empty or examine the folder of compiled kernels cannot do so.

    >>> try:
    ...     jsparse.clear_cache(disk=False)
    ... except jsparse.CacheError as error:
    ...     print("remove the folder by hand:", error)
    """


class CacheWarning(RuntimeWarning):
    """Compiled kernels are kept in memory only, because their folder cannot be used. A process warns once.

    >>> warnings.simplefilter("error", jsparse.CacheWarning)  # a job that must not compile kernels again fails early
    """


class SubscriptError(JsparseError, ValueError):
    """The text of an einsum, of an expression or of a format does not follow its grammar.

    >>> jsparse.einsum("ij,j->>i", A, x)
    Traceback (most recent call last):
    SubscriptError: ...
    """


class ShapeError(JsparseError, ValueError):
    """Ranks or sizes do not agree.

    >>> A @ jnp.ones(3)
    Traceback (most recent call last):
    ShapeError: ...
    """


class FormatError(JsparseError, ValueError):
    """A format is unknown or inconsistent, or cannot store the tensor.

    >>> A.asformat("rsc")
    Traceback (most recent call last):
    FormatError: ...
    """


class FileFormatError(JsparseError, ValueError):
    """A file of a tensor is damaged, or does not follow its format.

    The message names the file and, for a text file, the line.

    >>> Path("graph.mtx").write_text("3 3 1")
    5
    >>> jsparse.load("graph.mtx")
    Traceback (most recent call last):
    FileFormatError: ...
    """


class PatternError(JsparseError, ValueError):
    """Coordinates or pointers do not describe a tensor, or a tensor has more entries than its capacity.

    >>> A.dynamic(nse=1)
    Traceback (most recent call last):
    PatternError: ...
    """


class LeafError(PatternError, ShapeError):
    """A leaf of a tensor is missing, or does not have the shape and dtype that the tensor's pattern requires.

    >>> shorter = jax.tree.map(lambda leaf: leaf[1:], A)
    >>> shorter @ x
    Traceback (most recent call last):
    LeafError: ...
    """


class DeletedArrayError(LeafError, RuntimeError):
    """The memory of an array is gone: it was deleted, or donated to a compiled function.

    >>> state = jsparse.eye(3)
    >>> new = jax.jit(lambda state: 2 * state, donate_argnums=0)(state)
    >>> state.todense()
    Traceback (most recent call last):
    DeletedArrayError: ...
    """


class SemiringError(JsparseError, ValueError):
    """A semiring is unknown, or not defined for the values.

    >>> jsparse.einsum("ij,j->i", A, x, semiring="or_and")
    Traceback (most recent call last):
    SemiringError: ...
    """


class ScheduleError(JsparseError, ValueError):
    """A line in the text of a schedule is not a step, or a step is illegal on the loops to which it is applied.

    >>> jsparse.einsum("ij,j->i", A, x, schedule=jsparse.Schedule().vectorize("k"))
    Traceback (most recent call last):
    ScheduleError: ...
    """


class ShardingError(JsparseError, ValueError):
    """Devices cannot divide an operation in the way that the shardings of its operands ask for.

    >>> jsparse.einsum("ij->ji", A, out_sharding=jax.P("x"))  # stored values are whole on each device
    Traceback (most recent call last):
    ShardingError: ...
    """


class LinearityError(JsparseError, ValueError):
    """A function cannot be transposed, because it is not linear in its arguments.

    >>> jax.linear_transpose(lambda x: jsparse.einsum("ij,j->i", A, x, semiring="min_plus"), x)(b)
    Traceback (most recent call last):
    LinearityError: ...
    """


class DTypeError(JsparseError, TypeError):
    """A dtype is unsupported, or dtypes do not agree.

    >>> A & A  # of floats
    Traceback (most recent call last):
    DTypeError: ...
    """


class IntegerRangeError(DTypeError, OverflowError):
    """An integer is out of the range of the dtype to which it is converted.

    >>> jsparse.asarray([[1, 300]], dtype="int8")
    Traceback (most recent call last):
    IntegerRangeError: ...
    """


class NotYetSupportedError(JsparseError, NotImplementedError):
    """A request is valid, but not supported by this version. The message names an alternative.

    >>> A.reshape(800, 1000, order="A")
    Traceback (most recent call last):
    NotYetSupportedError: ...
    """
