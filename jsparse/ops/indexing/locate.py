"""The slots at given coordinates of a static pattern: bisection in every segment, however many entries there are."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import numpy as np

from jsparse.formats import Level, Pattern

__all__ = ["locate"]

Range = tuple[np.ndarray, np.ndarray]
"""(n,) int64: where the positions of each point begin and end in a level. A point without an entry has none."""


def locate(pattern: Pattern, coords: Sequence[np.ndarray]) -> np.ndarray:
    """The slot at each of n points, or -1 where nothing is stored or a coordinate is out of range.

    Args:
        coords: an array (n,) of integers for each dimension.
    """
    points = len(coords[0]) if coords else 1
    first, last = np.zeros(points, np.int64), np.ones(points, np.int64)
    stored = iter(pattern.arrays)
    for level in pattern.format.levels:
        own = list(islice(stored, len(level.kind.arrays)))
        coordinate = np.asarray(coords[level.dim]).astype(np.int64, copy=False)
        first, last = _below(level, own, (first, last), coordinate, pattern.shape[level.dim])
    return np.where(last > first, first, -1)


def _below(level: Level, arrays: list[np.ndarray], above: Range, coordinate: np.ndarray, size: int) -> Range:
    """The positions of each point in one more level."""
    found = (above[1] > above[0]) & (coordinate >= 0) & (coordinate < size)
    parents = np.where(found, above[0], 0)
    if level.kind.is_full:
        positions = np.where(found, parents * size + coordinate, 0)
        return positions, positions + found
    if level.kind.has_pointers:
        pointers = arrays[0] if len(arrays[0]) > 1 else np.zeros(2, np.int64)  # without parents no point has one
        first, last = (pointers[parents + n].astype(np.int64) for n in (0, 1))
    else:
        first, last = above
    last = np.where(found, last, first)
    if level.kind.has_coordinates:
        return _bisected(arrays[-1], first, last, coordinate)
    starts = arrays[1] if len(arrays[1]) else np.zeros(1, np.int64)
    positions = first + coordinate - starts[parents]  # of a run: its coordinates are consecutive
    inside = (positions >= first) & (positions < last)
    return positions, positions + inside


def _bisected(coordinates: np.ndarray, first: np.ndarray, last: np.ndarray, wanted: np.ndarray) -> Range:
    """The positions in [first, last) with the coordinate `wanted`. These parts are sorted."""
    if not len(coordinates):
        return first, first
    if (
        len(first) and (first == first[0]).all() and (last == last[0]).all()
    ):  # one segment: numpy's bisection is quicker
        segment, keys = coordinates[first[0] : last[0]], wanted.astype(coordinates.dtype)
        return first + np.searchsorted(segment, keys, "left"), first + np.searchsorted(segment, keys, "right")
    return _bound(coordinates, first, last, wanted), _bound(coordinates, first, last, wanted + 1)


def _bound(coordinates: np.ndarray, low: np.ndarray, high: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """The first position in [low, high) whose coordinate is `wanted` or larger, or `high`."""
    while (low < high).any():
        middle = (low + high) // 2
        less = (low < high) & (coordinates[np.minimum(middle, len(coordinates) - 1)] < wanted)
        low, high = np.where(less, middle + 1, low), np.where(less, high, np.minimum(middle, high))
    return low
