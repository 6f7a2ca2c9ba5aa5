"""Position loops in lanes: whether the innermost reduction over stored entries works on several at a time."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from jsparse.base.memo import remembered
from jsparse.compiler.problem import Positions, Problem
from jsparse.compiler.schedule.cost import saved_by_lanes
from jsparse.compiler.schedule.stored import Stored
from jsparse.compiler.schedule.summary import Summary
from jsparse.compiler.schedule.transformations.vectorize import Vectorize
from jsparse.compiler.schedule.trip_counts import UNKNOWN
from jsparse.formats import Pattern
from jsparse.notation.assignment import IndexVar

__all__ = ["POSITION_LANES", "position_lanes"]

POSITION_LANES = 8  # more lanes save no time: an addition then waits for loads, not for the previous addition
WIDE_LANES = 16  # positions at a time where values are stored: functions of them take many instructions
WIDE_STEPS = 4.0  # the mean number of steps of 8 lanes per segment from which on 16 lanes are used
FEWEST = 4  # the fewest coordinates of a dense index whose sums are folded together
LEAST = 0.05  # the multiply-adds to save for each entry: the code for lanes takes LLVM some 10 ms


def position_lanes(nest: Summary, patterns: Sequence[Stored]) -> Vectorize | None:
    """The step that works on several positions of the innermost reduction at a time; None if it does not pay.

    It pays if segments are long enough (`cost.saved_by_lanes`).

    Args:
        nest: the nest after all other decisions, over the problem that is compiled, on `patterns`.
    """
    if nest.problem.is_assembly or not nest.order:
        return None
    joint = _joint_coordinates(nest)
    if joint is not None:
        return joint
    loop = nest.summed[-1] if nest.sums_entries_first else _innermost(nest)
    step = Vectorize(loop, POSITION_LANES)
    if step.check(nest) is not None:
        return None
    walked = nest.walked(loop)
    assert walked is not None
    number, level = walked.pattern, len(walked.above)
    steps, segments = _steps(nest.problem, patterns[number], number, level)
    if loop in nest.free_vars:
        wide = Vectorize(loop, WIDE_LANES)
        if steps > segments:
            return wide if steps >= WIDE_STEPS * segments else step
        # Without lanes, each entry of a dynamic pattern takes a branch, and its results are cleared before (`Clear`).
        return None if isinstance(patterns[number], Pattern) else step
    saved = saved_by_lanes(steps, segments, POSITION_LANES, _gathers(nest.problem, loop))
    return step if saved > LEAST * patterns[number].nse else None


def _joint_coordinates(nest: Summary) -> Vectorize | None:
    """The step that folds the sums at several coordinates of a dense index together; None if there is no such index.

    The heads of a sampled product are such an index.
    """
    name = next((name for name in reversed(nest.loops) if name not in nest.outer), None)
    if name is None or nest.walked(name) is not None or not nest.folds_lanes_at(name):
        return None
    size = nest.problem.size[name] or 0
    if size < FEWEST:
        return None
    step = Vectorize(name, min(POSITION_LANES, 1 << (size.bit_length() - 1)))
    return step if step.check(nest) is None else None


def _innermost(nest: Summary) -> str:
    """The innermost loop, or the one whose iterations fold sums in lanes."""
    folds = (name for name in nest.walk if name in nest.loops and nest.folds_lanes_at(name))
    return next(folds, nest.order[-1])


def _gathers(problem: Problem, var: IndexVar) -> bool:
    """Whether a dense tensor is read at the coordinates of `var`."""
    types = problem.type_of
    reads = (access for access in problem.statement.reads if var in access.variables())
    return any(not any(isinstance(axis, Positions) for axis in types[access.tensor].axes) for access in reads)


def _steps(problem: Problem, pattern: Stored, number: int, level: int) -> tuple[float, float]:
    """The number of steps with full lanes in a level's segments, and the number of segments with any such step.

    Segments of unknown length are assumed to have average length, with half of the lanes filled in the rest.
    """
    kind, sizes = pattern.format.levels[level].kind, pattern.level_sizes
    if isinstance(pattern, Pattern) and kind.has_pointers:
        return _counted(pattern)[level]
    above = sizes[level - 1] if level else 1
    if kind.is_branchless:  # the segments are runs of equal coordinates
        above = min(above, prod(problem.size[name] or UNKNOWN for name in problem.level_variables[number][:level]))
    steps = max(sizes[level] / POSITION_LANES - above / 2, 0.0)
    return steps, min(steps, above)


@remembered(maxsize=64)
def _counted(pattern: Pattern) -> tuple[tuple[int, int], ...]:
    """For each level, the steps with full lanes and the segments with any such step; (0, 0) without pointers."""
    arrays = dict(zip(pattern.format.arrays, pattern.arrays, strict=True))
    found: list[tuple[int, int]] = []
    for n, level in enumerate(pattern.format.levels):
        steps = np.diff(arrays[n, "pointers"]) // POSITION_LANES if level.kind.has_pointers else np.zeros(0, np.int64)
        found.append((int(steps.sum()), int(np.count_nonzero(steps))))
    return tuple(found)
