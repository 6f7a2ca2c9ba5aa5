"""Links from selected positions of a level to those of the level above, by the numbers of both in their lists."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["Block", "Link", "Segments"]

FEW = 16  # if at most one position in 16 is looked for, bisection costs less than a pass over all


@dataclass(frozen=True, eq=False)
class Link:
    """A level with one position below each position above, as singletons have.

    Attributes:
        dim: the level's dimension.
        new: the new coordinate of each selected position.
        kept: the numbers of the positions that are selected, among all below those above; None: all are.
    """

    dim: int
    new: np.ndarray
    kept: np.ndarray | None

    def coordinates(self, numbers: np.ndarray | None) -> np.ndarray:
        """The new coordinates of the positions with these numbers; None: of all."""
        return _at(self.new, numbers)

    def parents(self, numbers: np.ndarray | None) -> np.ndarray | None:
        """The number of the position above, for the positions with these numbers; None: for all.

        The result is None if position n is below number n.
        """
        return numbers if self.kept is None else _at(self.kept, numbers)


@dataclass(frozen=True, eq=False)
class Segments(Link):
    """A level with a segment of positions below each position above.

    Attributes:
        counts: the number of positions below each position above, selected or not.
        dtype: that of index arrays.
    """

    counts: np.ndarray
    dtype: np.dtype

    def parents(self, numbers: np.ndarray | None) -> np.ndarray:
        """See `Link`."""
        above = np.repeat(np.arange(len(self.counts), dtype=self.dtype), self.counts)
        return _at(_at(above, self.kept), numbers)

    def pointers(self) -> np.ndarray:
        """The pointers from the positions above to the selected positions. These have to be distinct and in order."""
        pointers = np.zeros(len(self.counts) + 1, self.dtype)
        np.cumsum(self.counts if self.kept is None else self._kept_counts(self.kept), out=pointers[1:])
        return pointers

    def _kept_counts(self, kept: np.ndarray) -> np.ndarray:
        """The number of selected positions below each position above."""
        ends = np.cumsum(self.counts, dtype=np.int64)
        total = int(ends[-1]) if len(ends) else 0
        if FEW * len(kept) < total:
            return _numbers_below(kept, ends)
        mask = np.zeros(total + 1, np.int8)  # one more, where empty segments may begin
        mask[kept] = 1
        if FEW * (total - len(kept)) < total:
            return self.counts - _numbers_below(np.flatnonzero(mask[:-1] == 0), ends)
        counts = np.add.reduceat(mask, ends - self.counts, dtype=self.dtype)
        counts[self.counts == 0] = 0  # reduceat gives them the element where they begin
        return counts


def _numbers_below(positions: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """How many of the positions lie in each of the segments with these ends."""
    return np.bincount(np.searchsorted(ends, positions, "right"), minlength=len(ends))


@dataclass(frozen=True, eq=False)
class Block:
    """A dense level, which has `size` positions below each of `above` positions; new coordinates count them."""

    dim: int
    above: int
    size: int
    dtype: np.dtype

    def coordinates(self, numbers: np.ndarray | None) -> np.ndarray:
        """See `Link`."""
        if self.above == 1:
            return np.arange(self.size, dtype=self.dtype) if numbers is None else numbers
        if numbers is None:
            return np.tile(np.arange(self.size, dtype=self.dtype), self.above)
        return numbers % self.size

    def parents(self, numbers: np.ndarray | None) -> np.ndarray | None:
        """See `Link`."""
        if self.size == 1:
            return numbers
        if numbers is None:
            return np.repeat(np.arange(self.above, dtype=self.dtype), self.size)
        return numbers // self.size


def _at(array: np.ndarray, numbers: np.ndarray | None) -> np.ndarray:
    return array if numbers is None else array.take(numbers)
