"""Set operations on patterns with one run of coordinates below each parent. They take time per run, not per entry.

The ends of two runs cut a line into three intervals, and each of these lies inside or outside of either run as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from jsparse.base.limits import check_memory
from jsparse.formats.format import Format
from jsparse.formats.levels import RANGE
from jsparse.formats.progressions import Progressions

__all__ = ["Kept", "Runs", "cut", "has_runs", "runs_of"]


class Kept(NamedTuple):
    """Which entries a set operation keeps: those of the first operand alone, of both, and of the second alone."""

    first: bool
    both: bool
    second: bool


class Runs(NamedTuple):
    """Below each parent the coordinates from start on, and before stop: two arrays (parents,) int64."""

    starts: np.ndarray
    stops: np.ndarray

    def contain(self, parents: np.ndarray, coordinates: np.ndarray) -> np.ndarray:
        """Whether each entry, below a parent and at a coordinate, lies in the parent's run."""
        dtype = coordinates.dtype  # that of the dimension, so starts and stops fit it
        inside = coordinates >= self.starts.astype(dtype, copy=False)[parents]
        inside &= coordinates < self.stops.astype(dtype, copy=False)[parents]
        return inside


def has_runs(format: Format) -> bool:
    """Whether the last level is a range level or a dense one, and all levels above are dense."""
    *above, last = format.levels
    return all(level.kind.is_full for level in above) and (last.kind.is_full or last.kind is RANGE)


def runs_of(shape: Sequence[int], format: Format, arrays: Sequence[np.ndarray]) -> Runs:
    """The runs in the last level of a format that has runs."""
    *above, last = format.levels
    if last.kind is RANGE:
        pointers, starts = (array.astype(np.int64) for array in arrays)
        return Runs(starts, starts + np.diff(pointers))
    parents = prod(shape[level.dim] for level in above)
    check_memory(16 * parents, f"the {parents:,} runs of a dense pattern", "Use a pattern with fewer rows.")
    return Runs(np.zeros(parents, np.int64), np.full(parents, shape[last.dim], np.int64))


def cut(first: Runs, second: Runs, kept: Kept) -> Progressions:
    """The coordinates that a set operation keeps, in up to three runs below each parent."""
    later, earlier = np.maximum(first.starts, second.starts), np.minimum(first.stops, second.stops)
    ends = np.stack(
        [
            np.minimum(first.starts, second.starts),
            np.minimum(later, earlier),
            np.maximum(later, earlier),
            np.maximum(first.stops, second.stops),
        ]
    )
    starts, lengths = ends[:3], np.diff(ends, axis=0)
    in_first, in_second = ((run.starts <= starts) & (starts < run.stops) for run in (first, second))
    stays = np.where(in_first, np.where(in_second, kept.both, kept.first), in_second & kept.second)
    return Progressions(starts, np.where(stays, lengths, 0), (1, 1, 1))
