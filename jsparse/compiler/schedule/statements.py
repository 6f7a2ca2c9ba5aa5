"""Schedules of programs of several statements, which share the storage of their tensors, and loops where they can."""

from __future__ import annotations

from collections.abc import Sequence

from jsparse.compiler.problem import Problem
from jsparse.compiler.schedule.cost import CHUNK_WORK
from jsparse.compiler.schedule.plan import Plan
from jsparse.compiler.schedule.schedule import Schedule
from jsparse.compiler.schedule.select import plan
from jsparse.compiler.schedule.sharing import shared_loops
from jsparse.compiler.schedule.stored import Stored
from jsparse.compiler.schedule.transformations.compute_at import ComputeAt
from jsparse.compiler.schedule.transformations.parallelize import Parallelize
from jsparse.compiler.schedule.trip_counts import UNKNOWN
from jsparse.notation.assignment import IndexVar

__all__ = ["plan_statements"]


def plan_statements(problem: Problem, patterns: Sequence[Stored]) -> tuple[Schedule, ...]:
    """The cheapest schedule of each statement, as patterns and dense tensors are stored.

    Where all statements can share loops (`sharing.py`), they do.
    """
    shared = shared_loops(problem)
    plans = [_alone(problem, patterns, number, shared) for number in range(len(problem.statements))]
    found = [
        Schedule(tuple(s.renumbered(own.patterns) for s in p.schedule.steps))
        for p, own in zip(plans, problem.statements, strict=True)
    ]
    if not shared:
        return tuple(found)
    threads = Parallelize(shared[0], "owned", _grain(problem, patterns, shared[0], plans))
    return (*(schedule.then(ComputeAt(shared[-1])) for schedule in found[:-1]), found[-1].then(threads))


def _alone(problem: Problem, patterns: Sequence[Stored], number: int, shared: tuple[IndexVar, ...]) -> Plan:
    own = problem.statements[number].patterns
    return plan(problem.alone(number), [patterns[n] for n in own], as_stored=True, outer=shared)


def _grain(problem: Problem, patterns: Sequence[Stored], var: IndexVar, plans: Sequence[Plan]) -> int:
    """The least number of stored entries (of iterations, in a dense loop) in a chunk that pays for waking a thread."""
    work = max(sum(plan.cost.total for plan in plans), 1.0)
    walked = [p.nse for p, names in zip(patterns, problem.level_variables, strict=True) if var in names]
    whole = max(walked) if walked else problem.size[var] or UNKNOWN
    return max(1, round(whole * CHUNK_WORK / work))
