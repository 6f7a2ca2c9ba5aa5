"""Coordinate maps: functions from the coordinates of an entry to its coordinates in the result."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import ModuleType
from typing import Any, ClassVar

from jsparse.base.dataclass import dataclass

Rows = Sequence[Any]
"""The coordinates of n entries: an integer array (n,) for each dimension, or None if a block has the dimension."""


class CoordinateMap(ABC):
    """A function of coordinates. Maps are immutable and hashable, because compiled programs are cached by them.

    Attributes:
        drops: whether the map gives negative coordinates to some entries. The result does not have these entries.
    """

    drops: ClassVar[bool] = False

    @abstractmethod
    def __call__(self, rows: Rows, xnp: ModuleType) -> Rows:
        """Map the coordinates of n entries.

        Args:
            rows: the coordinates. In padding they are out of range, and what the map returns there does not matter.
            xnp: numpy or jax.numpy, whichever the arrays belong to.

        Returns an array (n,) for each dimension of the result. Arrays (n, c) or (n, 1) copy each entry c times.
        """

    @property
    def largest(self) -> int:
        """The largest number that the map computes besides coordinates. If it does not fit int32, int64 is used."""
        return 0


@dataclass(frozen=True)
class Composed(CoordinateMap):
    """Applies several maps one after the other, the first one first."""

    maps: tuple[CoordinateMap, ...]

    def __call__(self, rows: Rows, xnp: ModuleType) -> Rows:
        for one in self.maps:
            rows = one(rows, xnp)
        return rows

    @property
    def largest(self) -> int:
        """The largest intermediate number of any map."""
        return max(one.largest for one in self.maps)


@dataclass(frozen=True)
class Offset(CoordinateMap):
    """Adds an offset to the coordinates of each dimension. A dimension whose offset is None keeps its coordinates."""

    offsets: tuple[int | None, ...]

    @staticmethod
    def along(axis: int, ndim: int, start: int) -> Offset:
        """The map that adds `start` along one axis."""
        return Offset(tuple(start if dim == axis else None for dim in range(ndim)))

    def __call__(self, rows: Rows, xnp: ModuleType) -> Rows:
        return [row if by is None else row + by for row, by in zip(rows, self.offsets, strict=True)]
