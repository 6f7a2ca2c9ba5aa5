"""Links from the selected positions of a level to their parents, the selected positions of the level above.

The selected positions of a level are numbered from 0. Arguments `numbers` and `kept` list positions by these numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeAlias

import numpy as np

from jsparse.base.dataclass import dataclass

FEW = 16  # if at most one position in 16 is looked for, bisection costs less than a pass over all


@dataclass(frozen=True, eq=False)
class Segments:
    """The selected positions of a chain of levels, one segment of positions for each parent.

    A chain consists of a compressed level and the singleton levels below it, which have the same positions. A range
    level counts as a chain, too, and so does a singleton level below a level without coordinates.

    Attributes:
        columns: the new coordinates of the selected positions, for each of the chain's dimensions, outermost first.
        pointers: where the segment of each parent begins and ends among the selected positions.
    """

    columns: Mapping[int, np.ndarray]
    pointers: np.ndarray

    def coordinates(self, numbers: np.ndarray | None, dropped: Collection[int]) -> dict[int, np.ndarray]:
        """Return the new coordinates of the positions `numbers` (None: all), except in the dimensions `dropped`."""
        return {dim: _at(column, numbers) for dim, column in self.columns.items() if dim not in dropped}

    def parents(self, numbers: np.ndarray | None) -> np.ndarray:
        """Return the number of the parent of each of the positions `numbers` (None: all positions)."""
        dtype, total = self.pointers.dtype, int(self.pointers[-1])
        if FEW * (total if numbers is None else len(numbers)) < len(self.pointers):
            positions = np.arange(total, dtype=dtype) if numbers is None else numbers
            return (np.searchsorted(self.pointers, positions, "right") - 1).astype(dtype)
        return _at(np.repeat(np.arange(len(self.pointers) - 1, dtype=dtype), np.diff(self.pointers)), numbers)


@dataclass(frozen=True, eq=False)
class DenseBlock:
    """A dense level with `size` selected positions below each of `above` parents. New coordinates start at 0."""

    dim: int
    above: int
    size: int
    dtype: np.dtype

    def coordinates(self, numbers: np.ndarray | None, dropped: Collection[int]) -> dict[int, np.ndarray]:
        """Return the new coordinates. See `Segments.coordinates`."""
        if self.dim in dropped:
            return {}
        if numbers is None:
            return {self.dim: np.tile(np.arange(self.size, dtype=self.dtype), self.above)}
        return {self.dim: numbers if self.above == 1 else numbers % self.size}

    def parents(self, numbers: np.ndarray | None) -> np.ndarray | None:
        """Return the numbers of parents. See `Segments.parents`. None means that position n has the parent n."""
        if self.size == 1:
            return numbers
        if numbers is None:
            return np.repeat(np.arange(self.above, dtype=self.dtype), self.size)
        return numbers // self.size


Link: TypeAlias = Segments | DenseBlock


def select_pointers(pointers: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Return the pointers of a level that keeps only the positions `kept`, which are sorted and may repeat."""
    selected = np.zeros_like(pointers)
    np.cumsum(_count_selected(pointers, kept), out=selected[1:])
    return selected


def _count_selected(pointers: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Return the number of positions in `kept` below each parent. Repeated positions are counted each time."""
    total, counts = int(pointers[-1]), np.diff(pointers)
    if FEW * len(kept) < total:
        return _numbers_below(kept, pointers[1:])
    distinct = bool((kept[1:] > kept[:-1]).all())
    times = np.zeros(total + 1, np.int8) if distinct else np.bincount(kept, minlength=total + 1)
    if distinct:
        times[kept] = 1
    if distinct and FEW * (total - len(kept)) < total:
        return counts - _numbers_below(np.flatnonzero(times[:-1] == 0), pointers[1:])
    remaining = np.add.reduceat(times, pointers[:-1], dtype=pointers.dtype)  # empty segments may begin at `total`
    remaining[counts == 0] = 0  # reduceat gives them the element where they begin
    return remaining


def _numbers_below(positions: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Count the given positions in each segment. Segment n ends before the position `ends[n]`."""
    return np.bincount(np.searchsorted(ends, positions, "right"), minlength=len(ends))


def _at(array: np.ndarray, numbers: np.ndarray | None) -> np.ndarray:
    return array if numbers is None else array.take(numbers)
