"""The race strategies `split`, `reduced` and `binned`: threads divide long segments, or sums that are scattered.

With the strategy `split`, several threads work on a long segment (merge-path SpMV, Merrill and Garland, 2016). This
module decides whether a parallel loop can divide its segments, and whether a segment may be long. A static pattern's
longest segment is known, and a dynamic pattern's segments may have any length.

With the strategy `reduced`, each chunk of a loop that scatters sums adds to a copy of the whole target. The copies are
added in the order of the chunks. The number of chunks depends on the pattern and the sizes alone. A copy has to be
cleared, written and read, so it pays if a chunk has many more terms than the target has elements.

With the strategy `binned`, chunks of such a loop list the terms for each range of a large target (`lower.bins`). A term
is written and read once more, so this pays from a few threads on. The kernel decides when it runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, prod

import numpy as np

from jsparse.base.memo import memoize
from jsparse.compiler.dtypes import arithmetic_dtype
from jsparse.compiler.loops.fusion import has_copies
from jsparse.compiler.problem import Dense
from jsparse.compiler.schedule.layout import AnyPattern
from jsparse.compiler.schedule.limits import LARGEST_TARGET_COPY
from jsparse.compiler.schedule.summary import Summary
from jsparse.formats import Pattern
from jsparse.formats.levels import Level

CHUNKS = 64  # MAX_CHUNKS of `lower.chunks`
ITEM = 8  # the bytes of an element, at most: sums of float32 may be added up in float64


def split_reason(nest: Summary, loop: str) -> str | None:
    """Why the segments below a loop cannot be divided over threads; None if they can.

    The loop has to run over the target's outermost axis, and the loops inside have to sum in registers. Carry-outs are
    added to the target, so a narrow float target is widened (see `schedule.statements`).
    """
    problem, statement = nest.problem, nest.statement
    if len(statement.patterns) != 1 or statement.condition is not None or nest.batch or problem.derived:
        return "segments are only divided if a single pattern is walked, without a condition and without batch axes"
    if any(var != nest.vector for var in nest.splits) or nest.fusions or nest.is_unrolled or nest.precompute_loops:
        return "segments are only divided if loops are whole, and nothing is summed first"
    names, pattern = problem.level_variables[statement.patterns[0]], problem.patterns[statement.patterns[0]]
    if names[:1] != (loop,) or len(set(names)) < len(names) or not _has_segments(pattern.levels):
        return f"the entries below one coordinate of {loop} are not a segment of a pattern"
    if nest.adds_in_memory or len(nest.head) != 1 or nest.first("promote") is None:
        return "the sums below a segment's loop are not in registers"
    access, target = statement.target, problem.type_of[statement.target.tensor]
    if target.positions is not None or access.indirections() or not target.axes:
        return "carry-outs are only added to a dense target"
    axis = target.axes[0]
    if not isinstance(axis, Dense) or access.indices[axis.dim] != loop:
        return f"{loop} is not the outermost axis of {access}"
    # A narrow target is widened before carry-outs are added. Floats need the same dtype, integers may differ in size.
    accumulator = problem.accumulator_of(statement)
    are_integers = np.dtype(target.dtype).kind in "iu" and np.dtype(accumulator).kind in "iu"
    if arithmetic_dtype(target.dtype) != accumulator and not are_integers:
        return f"carry-outs cannot be added in a target of {target.dtype}"
    others = [problem.size[str(v)] for v in access.indices if v != loop]
    if len(others) != len(access.indices) - 1:
        return f"{loop} is repeated in {access}"
    # Only the first segment of a chunk can have begun in an earlier one. So a chunk has one carry-out: a target's row.
    bytes_ = CHUNKS * np.dtype(target.dtype).itemsize * prod(size or 0 for size in others)
    if not 0 < bytes_ <= nest.cpu.target_copies_bytes:
        return f"the chunks' carry-outs have at most {nest.cpu.target_copies_bytes:,} bytes"
    return None


def _has_segments(levels: Sequence[Level]) -> bool:
    """Whether all entries below one coordinate of the first level are contiguous.

    They are a segment of the second level, or a run of equal coordinates.
    """
    if len(levels) < 2:
        return False
    first, second = levels[:2]
    is_divisible = first.kind.is_full or (first.kind.has_pointers and first.unique)
    return _is_run(first, second) or (is_divisible and second.kind.has_pointers and second.unique)


def _is_run(first: Level, second: Level) -> bool:
    return first.kind.has_pointers and not first.unique and second.kind.is_branchless


def may_be_heavy(pattern: AnyPattern) -> bool:
    """Whether one segment may have more entries than half of an average chunk."""
    if not isinstance(pattern, Pattern):
        return True
    # An average chunk has nse / CHUNKS entries. A shorter segment is left whole (`lower.row_split.HEAVY`).
    return _has_segments(pattern.format.levels) and 2 * CHUNKS * _longest(pattern) > pattern.nse


@memoize(maxsize=64)
def _longest(pattern: Pattern) -> int:
    """The largest number of entries below one coordinate of the first level."""
    if _is_run(*pattern.format.levels[:2]):
        return longest_run(pattern.coordinates(0))
    pointers = None
    for (level, role), array in zip(pattern.format.arrays, pattern.arrays, strict=True):
        if role == "pointers" and level > 0:
            pointers = array if pointers is None else array[pointers]
    return 0 if pointers is None else int(np.diff(pointers).max(initial=0))


def longest_run(coordinates: np.ndarray) -> int:
    """Return the length of the longest run of equal coordinates."""
    ends = np.flatnonzero(np.diff(coordinates)) + 1
    return int(np.diff([0, *ends, len(coordinates)]).max(initial=0))


def count_target_elements(nest: Summary) -> float:
    """Return the number of elements of the target; infinity if a size is only known at run time."""
    sizes = (nest.problem.size[var] for var in nest.statement.target.variables())
    return prod([inf if size is None else float(size) for size in sizes])


def work_of_copies(nest: Summary) -> float:
    """Return the least work of a chunk that pays for a copy of the target."""
    return nest.cpu.target_copy_work * count_target_elements(nest)


def copies_reason(nest: Summary, loop: str) -> str | None:
    """Return why chunks of a loop over a summed variable cannot have copies of the target; None if they can."""
    if not has_copies(nest.problem, nest.statement):
        return f"inside {loop}, a loop runs over the target, and only sums in a dense target have copies for each chunk"
    if nest.loops[0] != loop:
        return f"only the outermost loop has a copy of the target for each chunk: move {loop} outside {nest.loops[0]}"
    if not nest.adds_in_memory or nest.precompute_loops:
        return f"inside {loop}, sums are not added up in the target"
    if ITEM * count_target_elements(nest) > LARGEST_TARGET_COPY:
        return f"a copy of the target for each chunk has at most {LARGEST_TARGET_COPY:,} bytes"
    return None


def bins_reason(nest: Summary, loop: str) -> str | None:
    """Return why chunks of a loop cannot list the terms that they scatter; None if they can."""
    problem, target = nest.problem, nest.problem.type_of[nest.statement.target.tensor]
    if (
        (len(problem.statements) > 1 and not problem.is_sum)
        or nest.batch
        or target.positions is not None
        or problem.derived
    ):
        return "terms are only listed if one statement adds to a dense target, without batch axes"
    if nest.loops[0] != loop or loop in nest.free_vars or not nest.scatters or not nest.adds_in_memory:
        return f"{loop} is not the outermost loop around sums that are scattered"
    if nest.vector is not None or nest.precompute_loops or nest.splits or nest.fusions or nest.is_unrolled:
        return "only whole loops list terms, one by one"
    if target.dtype != problem.accumulator_of(nest.statement):
        return f"terms cannot be added in a target of {target.dtype}"
    return None if count_target_elements(nest) < inf else "the target's size is known only at run time"
