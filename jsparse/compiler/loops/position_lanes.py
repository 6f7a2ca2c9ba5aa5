"""Position loops in lanes.

A loop over stored entries whose body adds to a scalar waits for each addition before the next one. In lanes, several
consecutive positions are worked on at a time, with an accumulator for each (`LevelIteration.lanes`):

    acc = 0                          acc = 0
      ∀ j ∈ P0.1               →       ∀ j ∈ P0.1, 8 at a time in lanes
        acc += A[i, j] * x[j]            acc += A[i, j] * x[j]

Values on the pattern are contiguous, and so are coordinates. Elements that a coordinate locates are gathered. Whatever
else is read is the same in all lanes. A body that stores a value on the pattern stores one for each lane at a time.
"""

from __future__ import annotations

from jsparse.compiler.loops.domain import LevelIteration
from jsparse.compiler.loops.nest import Assign, Forall
from jsparse.compiler.problem import Positions, Problem
from jsparse.notation.assignment import Access, IndexVar

__all__ = ["lies_innermost", "runs_in_position_lanes"]


def runs_in_position_lanes(loop: Forall, problem: Problem, vector: IndexVar | None = None) -> bool:
    """Whether a loop's positions can be worked on in lanes.

    The loop walks segments of stored entries, each coordinate once, and not a segment that goes on in another panel.
    Its body is one assignment, which adds to a scalar workspace or stores a value on the pattern. It reads no index
    from a table, and no tile in lanes.
    """
    domain, assign = loop.domain, loop.body
    if not isinstance(domain, LevelIteration) or not isinstance(assign, Assign):
        return False
    pattern = problem.patterns[domain.pattern]
    kind = pattern.levels[domain.level].kind
    segments = not (kind.is_full or pattern.is_single(domain.level) or pattern.repeats(domain.level))
    if not segments or domain.bound or domain.panel or loop.unroll:
        return False
    if loop.jam > 1 or loop.prefetch or (loop.parallel is not None and loop.parallel.mode != "reduced"):
        return False
    into = assign.target
    scalar = assign.accumulate and not into.indices and into.tensor not in problem.type_of
    stores = not assign.accumulate and lies_innermost(problem, into, domain.pattern)
    return (scalar or stores) and not any(access.nested() or vector in access.variables() for access in assign.reads)


def lies_innermost(problem: Problem, target: Access, pattern: int) -> bool:
    """Whether a tensor has one element at each position of a pattern, in the order of positions."""
    type_ = problem.type_of.get(target.tensor)
    last = type_.axes[-1:] if type_ is not None else ()
    return any(isinstance(axis, Positions) and axis.pattern == pattern for axis in last)
