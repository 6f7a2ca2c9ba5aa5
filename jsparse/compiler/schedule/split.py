"""Row splitting: whether a parallel loop over segments cuts the long ones.

A static pattern's longest segment decides; a dynamic pattern's segments may have any length.
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
from jsparse.formats.level import Level

__all__ = ["splits"]

CHUNKS = 64  # MAX_CHUNKS of `lower.chunks`
CARRY_BYTES = 1 << 24  # the chunks' carry-outs together, at most


def splits(candidate: Candidate, problem: Problem, patterns: Sequence[Stored]) -> bool:
    """Whether a candidate's loops cut long segments. `problem` is the one that is compiled, on `patterns`."""
    return _can_split(candidate, problem) and _has_segments(patterns[0]) and _may_be_heavy(patterns[0])


def _can_split(candidate: Candidate, problem: Problem) -> bool:
    """Whether the loops have the shape that row splitting needs.

    The outermost loop runs over the target's outermost axis, the others sum in registers, and carry-outs can be added
    to the target. (A narrow float target is then widened, see `compiler.wide_accumulation`.)
    """
    if len(problem.patterns) != 1 or problem.is_assembly or problem.statement.condition is not None or candidate.batch:
        return False
    if candidate.panel or candidate.written_out or candidate.summed or candidate.scatters or len(candidate.head) != 1:
        return False
    target, access = problem.tensors[0], problem.target
    axis = target.axes[0]
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
    return 0 < bytes_ <= CARRY_BYTES


def _adds_up(dtype: str, accumulator: str) -> bool:
    """Whether carry-outs can be added in a target of `dtype`, widened if narrow: floats exactly, integers wrap."""
    return unrounded(dtype) == accumulator or (np.dtype(dtype).kind in "iu" and np.dtype(accumulator).kind in "iu")


def _has_segments(pattern: Stored) -> bool:
    """Whether the entries below one coordinate of the first level are contiguous.

    They are a segment of the second level, or a run of equal coordinates.
    """
    first, second = (*pattern.format.levels, None, None)[:2]
    if first is None or second is None:
        return False
    return _is_run(first, second) or (_is_divisible(first) and second.kind.has_pointers and second.unique)


def _is_divisible(level: Level) -> bool:
    return level.kind.is_full or (level.kind.has_pointers and level.unique)


def _is_run(first: Level, second: Level) -> bool:
    return first.kind.has_pointers and not first.unique and second.kind.is_branchless


def _may_be_heavy(pattern: Stored) -> bool:
    """Whether one segment may have more than half of a chunk's share of entries."""
    return not isinstance(pattern, Pattern) or 2 * CHUNKS * _longest(pattern) > pattern.nse


@remembered(maxsize=64)
def _longest(pattern: Pattern) -> int:
    """The largest number of entries below one coordinate of the first level."""
    if _is_run(*pattern.format.levels[:2]):
        coordinates = pattern.arrays[1]
        ends = np.flatnonzero(np.diff(coordinates)) + 1
        return int(np.diff([0, *ends, len(coordinates)]).max(initial=0))
    pointers = None
    for (level, role), array in zip(pattern.format.arrays, pattern.arrays, strict=True):
        if role == "pointers" and level > 0:
            pointers = array if pointers is None else array[pointers]
    return 0 if pointers is None or len(pointers) < 2 else int(np.diff(pointers).max())
