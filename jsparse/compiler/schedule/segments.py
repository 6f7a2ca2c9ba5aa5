"""Lengths of static patterns' segments: short ones need no blocked sums."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np

from jsparse.base.memo import remembered
from jsparse.compiler.problem import Dense, Problem
from jsparse.compiler.schedule.machine import CACHED_BYTES
from jsparse.compiler.schedule.stored import Stored
from jsparse.formats import Pattern

__all__ = ["SHORT", "longest_segments", "scatters_many", "short_levels"]

SHORT = 64  # a segment of at most this many entries is one block (BLOCK of `loops.blocked_sums`)


def short_levels(problem: Problem, patterns: Sequence[Stored]) -> tuple[tuple[int, int], ...]:
    """The reduced levels, as (pattern, level), whose segments are all short although the index variable's size is not.

    The outermost level is left out. The result is empty for sums that are not computed in blocks. `problem` is the
    compiled problem, on `patterns`.
    """
    if not _sums_floats(problem):
        return ()
    free_vars = problem.free_vars
    found: list[tuple[int, int]] = []
    for n, (names, pattern) in enumerate(zip(problem.level_variables, patterns, strict=True)):
        if not isinstance(pattern, Pattern):
            continue
        for level in range(1, len(names)):
            size = problem.size[names[level]]
            if names[level] in free_vars or (size is not None and size <= SHORT):
                continue
            if 0 <= longest_segments(pattern)[level] <= SHORT:
                found.append((n, level))
    return tuple(found)


def scatters_many(problem: Problem, patterns: Sequence[Stored]) -> bool:
    """Whether an element of the target may get more than `SHORT` terms, and a float64 copy of the target is small.

    Terms are counted for static patterns with one index variable of the target. Any other pattern may add a term for
    each coordinate that is summed.
    """
    # A copy that does not fit the cache costs more time than the sums.
    if not _sums_floats(problem) or 8 * _elements(problem, patterns) > CACHED_BYTES:
        return False
    free_vars = problem.free_vars
    outside = [v for v in problem.assignment.variables() if v not in free_vars]
    most = 1
    for names, pattern in zip(problem.level_variables, patterns, strict=True):
        mine = [level for level, name in enumerate(names) if name in free_vars]
        if len(mine) == 1 and isinstance(pattern, Pattern) and len(set(names)) == len(names):
            most *= most_of_coordinate(pattern, mine[0])
            outside = [v for v in outside if v not in names]
    for v in outside:
        size = problem.size[v]
        if size is None:
            return True
        most *= size
    return most > SHORT


def _elements(problem: Problem, patterns: Sequence[Stored]) -> float:
    """The number of the target's elements; infinity if a size is unknown."""
    target, access = problem.tensors[0], problem.target
    count = 1.0
    for axis in target.axes:
        if isinstance(axis, Dense):
            size = problem.size.get(str(access.indices[axis.dim]))
            count *= inf if size is None else size
        else:
            count *= patterns[axis.pattern].nse
    return count


def _sums_floats(problem: Problem) -> bool:
    return not problem.is_assembly and problem.accumulator == "float32" and problem.statements[0].add == "+"


@remembered(maxsize=64)
def most_of_coordinate(pattern: Pattern, level: int) -> int:
    """The largest number of entries that share a coordinate of one level."""
    coordinates = pattern.to_coords()[pattern.format.order[level]]
    return int(np.unique(coordinates, return_counts=True)[1].max(initial=0))


@remembered(maxsize=64)
def longest_segments(pattern: Pattern) -> tuple[int, ...]:
    """For each level, the length of its longest segment; -1 for levels whose segments are not counted."""
    found: list[int] = []
    arrays = dict(zip(pattern.format.arrays, pattern.arrays, strict=True))
    for n, level in enumerate(pattern.format.levels):
        if level.kind.has_pointers:
            found.append(int(np.diff(arrays[n, "pointers"]).max(initial=0)))
        elif n > 0 and level.kind.is_branchless and pattern.format.levels[n - 1].unique:
            found.append(1)
        elif n == 1 and level.kind.is_branchless:  # below a run of equal coordinates
            above = arrays[0, "coordinates"]
            found.append(int(np.diff([0, *np.flatnonzero(np.diff(above)) + 1, len(above)]).max(initial=0)))
        else:
            found.append(-1)
    return tuple(found)
