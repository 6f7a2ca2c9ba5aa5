"""The scheduler's view of patterns: static ones with their content, dynamic ones with their capacity and orders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from jsparse.base.dataclass import dataclass
from jsparse.compiler.problem import PatternType
from jsparse.formats import DynamicType, Pattern
from jsparse.formats.dynamic import OfDynamicType
from jsparse.formats.levels import Level
from jsparse.formats.relayout import with_order

__all__ = ["DynamicPatternInfo", "Stored", "pattern_type", "stored_as"]


@dataclass(frozen=True, slots=True)
class DynamicPatternInfo(OfDynamicType):
    """The static properties of a dynamic pattern and of its transposed indices.

    Attributes:
        type: the levels and their capacities.
        derived: the types of the transposed indices: the same entries in other storage orders.
    """

    type: DynamicType
    derived: tuple[DynamicType, ...] = ()

    @property
    def level_sizes(self) -> tuple[int, ...]:
        """The capacity of each level."""
        return self.type.capacities

    @property
    def orders(self) -> tuple[tuple[int, ...], ...]:
        """The orders of levels that it is stored in: its own, then its transposed indices'."""
        own = self.format.order
        return tuple(tuple(own.index(dim) for dim in type_.format.order) for type_ in (self.type, *self.derived))

    def with_order(self, order: tuple[int, ...]) -> DynamicPatternInfo:
        """The transposed index that has this storage order."""
        return DynamicPatternInfo(next(other for other in self.derived if other.format.order == order))


Stored: TypeAlias = Pattern | DynamicPatternInfo
"""A pattern as the scheduler sees it."""


def pattern_type(pattern: Stored, batch_axes: int = 0) -> PatternType:
    """The type of a pattern's core: its levels without the dense ones at the end, which are axes of values."""
    count = pattern.format.ndim - pattern.format.trailing_dense
    levels = (Level(level.kind, n, level.unique) for n, level in enumerate(pattern.format.levels[:count]))
    counted = all(level.kind.counts_positions for level in pattern.format.levels)
    capacities = () if counted else pattern.level_sizes[:count]
    dynamic = isinstance(pattern, DynamicPatternInfo)
    return PatternType(tuple(levels), pattern.index_dtype.name, dynamic, batch_axes, capacities=capacities)


def stored_as(pattern: Stored, levels: Sequence[int]) -> Stored:
    """The same entries with the levels in another order: level `levels[n]` becomes level `n`.

    For a dynamic pattern the order must be one of its `orders`.
    """
    if tuple(levels) == tuple(range(len(levels))):
        return pattern
    order = tuple(pattern.format.order[level] for level in levels)
    return with_order(pattern, order) if isinstance(pattern, Pattern) else pattern.with_order(order)
