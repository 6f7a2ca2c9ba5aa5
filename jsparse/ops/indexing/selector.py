"""Selectors: the coordinates of one dimension that an index selects, and the new coordinate of each of them."""

from __future__ import annotations

from functools import cached_property
from typing import TypeAlias

import numpy as np

from jsparse.base.dataclass import dataclass
from jsparse.ops.indexing.matches import matches

Found: TypeAlias = tuple[np.ndarray | None, np.ndarray]
"""The numbers of the entries that are selected (None: all of them), and their new coordinates."""


@dataclass(frozen=True)
class Strided:
    """The coordinates `start + n * step` for n from 0 to `size - 1`; n is the new coordinate.

    `extent` is the size of the dimension. A slice is strided, and so is an integer, with a size of 1.
    """

    start: int
    step: int
    size: int
    extent: int

    @staticmethod
    def whole(extent: int) -> Strided:
        """The selector of all coordinates."""
        return Strided(0, 1, extent, extent)

    @property
    def is_whole(self) -> bool:
        """Whether every coordinate stays as it is."""
        return self.size == self.extent and self.step > 0

    @property
    def increases(self) -> bool:
        """Whether larger coordinates get larger new ones, and none is selected twice."""
        return self.step > 0 or self.size <= 1

    @property
    def bounds(self) -> tuple[int, int]:
        """The smallest and the largest coordinate that is selected; (0, -1) if none is."""
        if not self.size:
            return 0, -1
        ends = self.start, self.start + (self.size - 1) * self.step
        return min(ends), max(ends)

    @property
    def triple(self) -> tuple[int, int, int]:
        """The triple (start, step, size), with small numbers in place of a start or step that does not matter."""
        return self.start if self.size else 0, self.step if self.size > 1 else 1, self.size

    def coordinates(self, dtype: np.dtype) -> np.ndarray:
        """(size,) the coordinates, by new coordinate."""
        return np.arange(self.size, dtype=dtype) * dtype.type(self.step) + dtype.type(self.start)

    def find(self, coordinates: np.ndarray) -> Found:
        """Find which entries with these coordinates are selected."""
        if self.is_whole:
            return None, coordinates
        low, high = self.bounds
        inside = (coordinates >= low) & (coordinates <= high)
        if abs(self.step) > 1:
            inside &= (coordinates - low) % abs(self.step) == 0
        kept = np.flatnonzero(inside)
        moved = coordinates[kept] - coordinates.dtype.type(self.start)
        return kept, moved if self.step == 1 else moved // self.step


@dataclass(frozen=True, eq=False)
class Listed:
    """The coordinates that an index table lists; the offset in the table is the new coordinate.

    Attributes:
        listed: (size,) int64, from 0 to `extent - 1`, in any order, with repeats.
        extent: the size of the dimension.
    """

    listed: np.ndarray
    extent: int

    @property
    def size(self) -> int:
        """The number of new coordinates."""
        return len(self.listed)

    @property
    def is_whole(self) -> bool:
        """Whether every coordinate stays as it is, as far as that is known at no cost."""
        return False

    @cached_property
    def increases(self) -> bool:
        """Whether larger coordinates get larger new ones, and none is selected twice."""
        return bool((self.listed[1:] > self.listed[:-1]).all())

    def coordinates(self, dtype: np.dtype) -> np.ndarray:
        """(size,) the coordinates, by new coordinate."""
        return self.listed.astype(dtype, copy=False)

    def find(self, coordinates: np.ndarray) -> Found:
        """Find which entries with these coordinates are selected. An entry is selected as often as it is listed."""
        entries, new = matches(coordinates, self.listed, self.extent)
        return entries, new.astype(coordinates.dtype, copy=False)


Selector: TypeAlias = Strided | Listed
