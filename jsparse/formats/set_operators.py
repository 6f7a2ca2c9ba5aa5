"""The operators of patterns: |, &, - and ^, and indexing."""

from __future__ import annotations

from typing import Any, Never, Self

from jsparse.errors import DTypeError, NotYetSupportedError, describe_type
from jsparse.formats.methods import PatternMethods

_INTERNAL = """
    capacity common concrete core derived derived_types excess guard_overflow has_overflowed has_parents identity
    in_use index_leaves is_tangent is_whole last_pointers lead level_sizes limit list_owned living_owner mark
    mask_invalid of_arrays of_blocks of_entries of_gradient on_levels operands orders ordinary owner pad_static
    padding poison propagate_overflow static_part to_stored type with_count with_patterns with_type
""".split()  # noqa: SIM905
"""Attributes of patterns that the package alone uses."""


class SetOperators(PatternMethods):
    """A base class with the operators |, &, - and ^ and with indexing.

    Subclasses define the operators by `_combine`, or by `_plain`. `jsparse.ops.methods` installs indexing.
    """

    __slots__: tuple[str, ...] = ()

    def __iter__(self) -> Never:
        raise DTypeError("A pattern is not iterable: write P[i] for i in range(P.shape[0]), or P.to_coords().")

    def __dir__(self) -> list[str]:
        """The names for tab completion: those of users."""
        return [name for name in super().__dir__() if name not in _INTERNAL]

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
            f"Expected static patterns on both sides of {symbol}, but got {operand!r}, whose entries only the program "
            "knows. Outside jit, use P.to_static(). For tensors, A + B has the entries of either tensor, and A * B "
            "the entries of both."
        )
    raise _unsuitable(symbol, operand)


def _unsuitable(symbol: str, operand: object) -> DTypeError:
    return DTypeError(
        f"Expected patterns on both sides of {symbol}, but got {describe_type(operand)}. The pattern of a "
        "SparseTensor is A.pattern, and jsparse.pattern.from_mask(mask) makes a pattern from a mask."
    )
