"""The operators of patterns: |, &, - and ^, and indexing."""

from __future__ import annotations

from typing import Any, Never, Self

from jsparse.errors import DTypeError, NotYetSupportedError
from jsparse.formats.methods import PatternMethods


class SetOperators(PatternMethods):
    """A base class with the operators |, &, - and ^ and with indexing.

    Subclasses define the operators by `_combine`, or by `_plain`. `jsparse.ops.methods` installs indexing.
    """

    __slots__ = ()

    def __iter__(self) -> Never:
        raise DTypeError("A pattern is not iterable: write P[i] for i in range(P.shape[0]), or P.to_coords().")

    def _plain(self) -> Any:
        """The pattern in a plain format on which the operators act."""
        return self

    def _combine(self, symbol: str, other: Any) -> Self:
        raise NotImplementedError

    def _apply_symbol(self, symbol: str, other: Any) -> Self:
        return self._plain()._combine(symbol, other._plain() if isinstance(other, SetOperators) else other)

    def __or__(self, other: Self) -> Self:
        return self._apply_symbol("|", other)

    def __and__(self, other: Self) -> Self:
        return self._apply_symbol("&", other)

    def __sub__(self, other: Self) -> Self:
        return self._apply_symbol("-", other)

    def __xor__(self, other: Self) -> Self:
        return self._apply_symbol("^", other)

    def __ror__(self, other: object) -> Self:
        raise _unsuitable("|", other)

    def __rand__(self, other: object) -> Self:
        raise _unsuitable("&", other)

    def __rsub__(self, other: object) -> Self:
        raise _unsuitable("-", other)

    def __rxor__(self, other: object) -> Self:
        raise _unsuitable("^", other)


def check_static(symbol: str, operand: object, kind: type) -> None:
    """Raise an error unless an operand of the operator `symbol` is an instance of `kind`, the class of static patterns.

    Raises NotYetSupportedError for a dynamic pattern, DTypeError for other objects.
    """
    if isinstance(operand, kind):
        return
    if isinstance(operand, SetOperators):
        raise NotYetSupportedError(
            f"Expected static patterns at both sides of {symbol}, but got {operand!r}, whose entries only the program "
            "knows. Outside jit take P.to_static(). Of tensors, A + B has the entries of both, and A * B those that "
            "both have."
        )
    raise _unsuitable(symbol, operand)


def _unsuitable(symbol: str, operand: object) -> DTypeError:
    return DTypeError(
        f"Expected patterns at both sides of {symbol}, but got a {type(operand).__name__}. Take the pattern of a "
        "SparseTensor by A.pattern, and make one of a mask by jsparse.pattern.from_mask(mask)."
    )
