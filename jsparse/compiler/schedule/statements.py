"""Schedules of programs of several statements, which share the storage of their tensors, and loops where they can."""

from __future__ import annotations

from collections.abc import Sequence

from jsparse.compiler.loops.chain import outer_name
from jsparse.compiler.problem import Problem
from jsparse.compiler.schedule.blocks import in_blocks
from jsparse.compiler.schedule.cost import CHUNK_WORK
from jsparse.compiler.schedule.plan import Plan
from jsparse.compiler.schedule.schedule import Schedule
from jsparse.compiler.schedule.select import plan
from jsparse.compiler.schedule.sharing import shared_loops
from jsparse.compiler.schedule.stored import Stored
from jsparse.compiler.schedule.transformations.compute_at import ComputeAt
from jsparse.compiler.schedule.transformations.parallelize import Parallelize
from jsparse.compiler.schedule.transformations.unroll_and_jam import UnrollAndJam
from jsparse.compiler.schedule.trip_counts import UNKNOWN
from jsparse.notation.assignment import IndexVar

__all__ = ["plan_statements"]


def plan_statements(problem: Problem, patterns: Sequence[Stored]) -> tuple[Schedule, ...]:
    """The cheapest schedule of each statement, as patterns and dense tensors are stored.

    Where all statements can share loops (`sharing.py`), they do; or panels of the innermost one (`blocks.py`).
    """
    shared = shared_loops(problem)
    plans = [_alone(problem, patterns, number, shared) for number in range(len(problem.statements))]
    found = [
        Schedule(tuple(s.renumbered(own.patterns) for s in p.schedule.steps))
        for p, own in zip(plans, problem.statements, strict=True)
    ]
    if not shared:
        return tuple(found)
    blocks = in_blocks(problem, patterns, found, shared)
    if blocks is None:
        found = [_one_by_one(schedule, shared[-1]) for schedule in found]
    joined = blocks or (*(schedule.then(ComputeAt(shared[-1])) for schedule in found[:-1]), found[-1])
    divided = outer_name(problem, shared[0]) if blocks and len(shared) == 1 else shared[0]
    threads = Parallelize(divided, "owned", _grain(problem, patterns, shared[0], plans, bool(blocks)))
    return (*joined[:-1], joined[-1].then(threads))


def _one_by_one(schedule: Schedule, var: IndexVar) -> Schedule:
    """The schedule where single iterations of a loop are shared."""
    kept = (step for step in schedule.steps if not (isinstance(step, UnrollAndJam) and step.loop == var))
    return Schedule(tuple(kept), schedule.layout)


def _alone(problem: Problem, patterns: Sequence[Stored], number: int, shared: tuple[IndexVar, ...]) -> Plan:
    own = problem.statements[number].patterns
    return plan(problem.alone(number), [patterns[n] for n in own], as_stored=True, outer=shared)


def _grain(problem: Problem, patterns: Sequence[Stored], var: IndexVar, plans: Sequence[Plan], in_blocks: bool) -> int:
    """The least number of stored entries (of iterations, in a dense loop and in one over panels) in a chunk that pays
    for waking a thread."""
    work = max(sum(plan.cost.total for plan in plans), 1.0)
    walked = (
        [] if in_blocks else [p.nse for p, own in zip(patterns, problem.level_variables, strict=True) if var in own]
    )
    whole = max(walked) if walked else problem.size[var] or UNKNOWN
    return max(1, round(whole * CHUNK_WORK / work))
