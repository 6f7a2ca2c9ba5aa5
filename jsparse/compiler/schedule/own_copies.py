"""Copies of small targets: chunks of a loop that scatters sums each add to a copy of the whole target.

The copies are added in the order of the chunks, whose number depends on the pattern and the sizes alone. A copy costs
clearing, writing and reading once more, so it pays where a chunk has many more terms than the target has elements.
"""

from __future__ import annotations

from math import inf

from jsparse.compiler.loops.fusion import has_copies
from jsparse.compiler.schedule.machine import LARGEST_TARGET_COPY
from jsparse.compiler.schedule.summary import Summary

__all__ = ["copied_elements", "copies_reason", "work_of_copies"]

WORTH_A_COPY = 24.0  # the least work of a chunk for each element of its copy, which costs an eighth of that

ITEM = 8  # the bytes of an element, at most: sums of float32 may be added up in float64


def copied_elements(nest: Summary) -> float:
    """The elements of the target; infinity if a size is known at run time only."""
    count = 1.0
    for var in nest.statement.target.variables():
        size = nest.problem.size[var]
        count *= inf if size is None else size
    return count


def work_of_copies(nest: Summary) -> float:
    """The least work of a chunk that has a copy of the target."""
    return WORTH_A_COPY * copied_elements(nest)


def copies_reason(nest: Summary, loop: str) -> str | None:
    """Why chunks of a loop that sums cannot have copies of the target; None if they can."""
    if not has_copies(nest.problem, nest.statement):
        return f"inside of {loop}, a loop runs over the target, and only sums in a dense one have copies for each chunk"
    if nest.loops[0] != loop:
        return f"only the outermost loop has a copy of the target for each chunk: reorder {loop} out of {nest.loops[0]}"
    if not nest.adds_in_memory or nest.summed:
        return f"inside of {loop}, sums are not added up in the target"
    if ITEM * copied_elements(nest) > LARGEST_TARGET_COPY:
        return f"a copy of the target for each chunk has at most {LARGEST_TARGET_COPY:,} bytes"
    return None
