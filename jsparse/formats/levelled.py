"""The properties that patterns share with types of patterns, and the answers of patterns with known index arrays."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from jsparse.formats.format import Format, digit_format, permutation

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

T = TypeVar("T")


class Levelled:
    """A shape and a format over index arrays, which patterns of other levels may share (`_with_levels`)."""

    __slots__ = ()
    if TYPE_CHECKING:

        @property
        def shape(self) -> tuple[int, ...]: ...
        @property
        def format(self) -> Format: ...
        @property
        def nse(self) -> int: ...

    def _with_levels(self, shape: tuple[int, ...], format: Format) -> Self:
        """The pattern of another shape and format over the same index arrays. They must fit, which is not checked.

        The number of slots follows from the sizes of the trailing dense levels.
        """
        raise NotImplementedError

    @property
    def ndim(self) -> int:
        """The number of dimensions.

        >>> A.pattern.ndim
        2
        """
        return len(self.shape)

    @property
    def _inner_size(self) -> int:
        """The number of slots at each position of the last level that is not a trailing dense one."""
        return prod(self.shape[dim] for dim in self.format.trailing_dims)

    def _slots_below(self, array: int) -> int:
        """Return the number of slots below each position of the level whose pointers are index array `array`."""
        inner = self.format.levels[self.format.arrays[array][0] + 1 :]
        return prod(self.shape[level.dim] for level in inner if level.kind.is_full)

    @property
    def core(self) -> Self:
        """The part of the pattern that loops walk: all levels but the dense ones at the end, with their dimensions.

        Dimension n of the core is the dimension of level n, so a tensor, its logical transposes and its extensions by
        dense levels share one core.

        >>> A.pattern.core == A.T.pattern.core
        True
        """
        levels = self.format.levels[: self.format.ndim - self.format.trailing_dense]
        format = digit_format(levels)
        return self if format == self.format else self._with_levels(tuple(self.shape[x.dim] for x in levels), format)

    def transposed(self, axes: Sequence[int]) -> Self:
        """The pattern of the transposed tensor, over the same arrays. Its dimension d is `axes[d]` in this pattern.

        >>> A.pattern.transposed((1, 0)).format.name
        'csc'

        Raises FormatError if `axes` is not a permutation.
        """
        axes = permutation(axes, self.ndim)
        if axes == tuple(range(self.ndim)):
            return self
        return self._with_levels(tuple(self.shape[axis] for axis in axes), self.format.transposed(axes))

    def extended(self, sizes: Sequence[int]) -> Self:
        """This pattern with added last dimensions of these sizes. Dense levels store them; index arrays are the same.

        >>> A.pattern.extended((8,)).shape
        (1000, 800, 8)

        Raises PatternError for negative sizes, and for 2**62 slots or more.
        """
        return self._with_levels((*self.shape, *sizes), self.format.with_dense(len(sizes)))


class KnownArrays(Levelled):
    """A pattern whose index arrays are known while a program is traced: they are not operands, and have no padding.

    Dynamic patterns answer the same questions (`tensor.dynamic_pattern`), so code that asks these serves both.
    """

    __slots__ = ()
    derived: ClassVar[tuple[()]] = ()  # transposed indices are made on demand
    derived_types: ClassVar[tuple[()]] = ()
    has_parents: ClassVar[bool] = False
    index_leaves: ClassVar[tuple[()]] = ()
    lead: ClassVar[tuple[()]] = ()
    orders: ClassVar[tuple[tuple[int, ...], ...] | None] = None  # every order
    limit: ClassVar[tuple[int, int] | None] = None
    padding: ClassVar[None] = None
    capacity: ClassVar[None] = None
    concrete: ClassVar[bool] = True
    overflowed: ClassVar[bool] = False
    has_overflowed: ClassVar[bool] = False

    @property
    def type(self) -> Self:
        """Everything: a program knows the pattern when it is traced. Of a dynamic pattern it knows only the type."""
        return self

    def operands(self) -> tuple[()]:
        """The operands of the einsum primitive for this pattern: none, because programs contain the index arrays."""
        return ()

    def validate(self) -> None:
        """Do nothing, because index arrays are checked when a pattern is made, and nobody can change them."""

    def in_use(self, values: T, other: complex = 0) -> T:  # there is no padding to replace
        """Return the values, because every slot is in use."""
        return values

    def mask_invalid(self, values: T) -> T:
        """Return the values, which are valid."""
        return values

    def poison(self, x: T) -> T:
        """Return `x`, because the pattern has not overflowed."""
        return x

    def guard_overflow(self, x: T) -> tuple[T, Self]:
        """Return `x` and this pattern, because it has not overflowed."""
        return x, self

    def ordinary(self) -> Self:
        """This pattern, which is never marked as the pattern of a gradient."""
        return self

    def common(self, operands: Iterable[Any]) -> Self:
        """This pattern, for a result of these operands."""
        return self

    def propagate_overflow(self, source: Any) -> Self:
        """This pattern, whose entries are known, so that those of a source were complete."""
        return self
