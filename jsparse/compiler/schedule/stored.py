"""What a schedule may know of the pattern behind a problem: all of it, or only its room."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from jsparse.formats import DynamicType, Format, Pattern

__all__ = ["Stored", "TracedPattern"]


@dataclass(frozen=True, slots=True)
class TracedPattern:
    """A pattern whose index arrays are known at run time only, and its transposed indices that come along.

    Attributes:
        type: the levels and their room.
        derived: the same entries in other storage orders.
    """

    type: DynamicType
    derived: tuple[DynamicType, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each dimension."""
        return self.type.shape

    @property
    def format(self) -> Format:
        """The levels."""
        return self.type.format

    @property
    def nse(self) -> int:
        """The room for entries."""
        return self.type.nse

    @property
    def level_sizes(self) -> tuple[int, ...]:
        """The room of each level."""
        return self.type.capacities

    @property
    def orders(self) -> tuple[tuple[int, ...], ...]:
        """The storage orders that can be walked besides the pattern's own."""
        return tuple(other.format.order for other in self.derived)

    def with_order(self, order: tuple[int, ...]) -> TracedPattern:
        """The pattern in one of `orders`."""
        return TracedPattern(next(other for other in self.derived if other.format.order == order))


Stored: TypeAlias = Pattern | TracedPattern
