"""Selectors: which coordinates of one dimension an index selects, and which new coordinate each of them gets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np

from jsparse import _native

__all__ = ["Found", "Listed", "Selector", "Strided", "joint_keys", "matches"]

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
        """The smallest and the largest coordinate that is selected; both are 0 and -1 if none is."""
        if not self.size:
            return 0, -1
        ends = self.start, self.start + (self.size - 1) * self.step
        return min(ends), max(ends)

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
    """The coordinates that an index array lists; the offset in the array is the new coordinate.

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


def matches(keys: np.ndarray, wanted: np.ndarray, extent: int) -> tuple[np.ndarray, np.ndarray]:
    """All pairs (m, n) with `keys[m] == wanted[n]`, sorted by m, then by n. All keys lie in [0, extent)."""
    order = None if (wanted[1:] >= wanted[:-1]).all() else np.argsort(wanted, kind="stable")
    ordered = wanted if order is None else wanted[order]
    if (ordered[1:] == ordered[:-1]).any():
        entries, offsets = _repeated_matches(keys, ordered, extent)
    else:
        entries, offsets = _distinct_matches(keys, ordered, extent)
    return entries, offsets if order is None else order[offsets]


def _distinct_matches(keys: np.ndarray, ordered: np.ndarray, extent: int) -> tuple[np.ndarray, np.ndarray]:
    """`matches` for sorted and distinct numbers."""
    if _is_small(extent, keys, ordered):
        offsets = _native.invert(ordered, extent)[keys]
        entries = np.flatnonzero(offsets >= 0)
        return entries, offsets[entries]
    offsets = np.searchsorted(ordered.astype(keys.dtype, copy=False), keys)
    found = offsets < len(ordered)
    found[found] = ordered[offsets[found]] == keys[found]
    entries = np.flatnonzero(found)
    return entries, offsets[entries]


def _repeated_matches(keys: np.ndarray, ordered: np.ndarray, extent: int) -> tuple[np.ndarray, np.ndarray]:
    """`matches` for sorted numbers that repeat."""
    if _is_small(extent, keys, ordered):
        pointers = _native.compress(np.ascontiguousarray(ordered), extent, np.int64)
        first, last = pointers[keys], pointers[keys + 1]
    else:
        ordered = ordered.astype(keys.dtype, copy=False)
        first, last = np.searchsorted(ordered, keys, "left"), np.searchsorted(ordered, keys, "right")
    counts = last - first
    entries = np.repeat(np.arange(len(keys)), counts)
    return entries, np.arange(len(entries)) + np.repeat(first - np.cumsum(counts) + counts, counts)


def _is_small(extent: int, *arrays: np.ndarray) -> bool:
    """Whether a table of all keys is no larger than the arrays, up to a factor."""
    return extent <= 4 * sum(map(len, arrays)) + 64


def joint_keys(
    entries: Sequence[np.ndarray], points: Sequence[np.ndarray], sizes: Sequence[int]
) -> tuple[np.ndarray, np.ndarray, int]:
    """One integer for each tuple of coordinates, equal for equal tuples: (keys of entries, keys of points, extent)."""
    left, right, extent = entries[0].astype(np.int64), points[0].astype(np.int64), sizes[0]
    for a, b, size in zip(entries[1:], points[1:], sizes[1:], strict=True):
        if extent * size >= 2**62:  # numbers of the tuples, and of the coordinates, are small
            left, right, extent = _numbered(left, right)
            a, b, size = _numbered(a, b)
        left, right, extent = left * size + a, right * size + b, extent * size
    return left, right, extent


def _numbered(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """Distinct small numbers for distinct elements of two arrays, and a bound on the numbers."""
    distinct, numbers = np.unique(np.concatenate([left, right]), return_inverse=True)
    numbers = numbers.reshape(-1)
    return numbers[: len(left)], numbers[len(left) :], max(len(distinct), 1)
