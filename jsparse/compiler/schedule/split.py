"""Whether a loop over segments, which threads share, cuts the long ones.

A pattern that is known is asked for its longest segment; of any other, segments may be of any length.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jsparse.base.memo import remembered
from jsparse.compiler.dtypes import unrounded
from jsparse.compiler.problem import Dense, Problem
from jsparse.compiler.schedule.candidate import Candidate
from jsparse.compiler.schedule.stored import Stored
from jsparse.formats import Pattern
from jsparse.formats.level import Level, LevelKind

__all__ = ["splits"]

CHUNKS = 64  # MAX_CHUNKS of `lower.chunks`
PARTS_BYTES = 1 << 24  # of what is kept apart


def splits(candidate: Candidate, problem: Problem, patterns: Sequence[Stored]) -> bool:
    """Whether segments are cut in the loops of a candidate; `problem` is the one that runs, on `patterns`."""
    return _can_split(candidate, problem) and _has_segments(patterns[0]) and _may_be_heavy(patterns[0])


def _can_split(candidate: Candidate, problem: Problem) -> bool:
    """Whether one loop over the target's outermost axis stands around all others, which sum in registers what is stored
    once, and can be added to. (A target of narrow floats is unrounded then, see `compiler.wide_accumulation`.)"""
    if len(problem.patterns) != 1 or problem.lists or problem.mask is not None or candidate.lead:
        return False
    if candidate.panel or candidate.written_out or candidate.summed or candidate.scatters or len(candidate.head) != 1:
        return False
    target = problem.tensors[0]
    access, axis = problem.assignment.target, target.axes[0]
    if target.positions is not None or access.nested() or not _adds_up(target.dtype, problem.accumulator):
        return False
    if not isinstance(axis, Dense) or access.indices[axis.dim] != candidate.walk[0]:
        return False
    others = [problem.size[str(v)] for v in access.indices if v != candidate.walk[0]]
    if len(others) != len(access.indices) - 1 or len(set(problem.level_variables[0])) < len(problem.level_variables[0]):
        return False
    bytes_ = CHUNKS * np.dtype(target.dtype).itemsize
    for size in others:
        bytes_ *= 0 if size is None else size
    return 0 < bytes_ <= PARTS_BYTES


def _adds_up(dtype: str, accumulator: str) -> bool:
    """Whether sums of a dtype can be added in another: floats without a loss, integers since they wrap."""
    return unrounded(dtype) == accumulator or (np.dtype(dtype).kind in "iu" and np.dtype(accumulator).kind in "iu")


def _has_segments(pattern: Stored) -> bool:
    """Whether entries below one coordinate of the first level stand side by side: in a segment of the second level, or
    as a run of equal coordinates."""
    first, second = (*pattern.format.levels, None, None)[:2]
    if first is None or second is None:
        return False
    return _is_run(first, second) or (_is_divisible(first) and second.kind is LevelKind.COMPRESSED and second.unique)


def _is_divisible(level: Level) -> bool:
    return level.kind is LevelKind.DENSE or (level.kind is LevelKind.COMPRESSED and level.unique)


def _is_run(first: Level, second: Level) -> bool:
    return first.kind is LevelKind.COMPRESSED and not first.unique and second.kind is LevelKind.SINGLETON


def _may_be_heavy(pattern: Stored) -> bool:
    """Whether one segment may have more than half of what a chunk should have."""
    return not isinstance(pattern, Pattern) or 2 * CHUNKS * _longest(pattern) > pattern.nse


@remembered(maxsize=64)
def _longest(pattern: Pattern) -> int:
    """The most entries below one coordinate of the first level."""
    if _is_run(*pattern.format.levels[:2]):
        coordinates = pattern.arrays[1]
        ends = np.flatnonzero(np.diff(coordinates)) + 1
        return int(np.diff([0, *ends, len(coordinates)]).max(initial=0))
    pointers = None
    for (level, role), array in zip(pattern.format.arrays, pattern.arrays, strict=True):
        if role == "pointers" and level > 0:
            pointers = array if pointers is None else array[pointers]
    return 0 if pointers is None or len(pointers) < 2 else int(np.diff(pointers).max())
