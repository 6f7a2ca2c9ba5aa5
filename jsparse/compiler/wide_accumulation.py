"""Plans that round a narrow result once: sums in memory are accumulated in the dtype of arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from jsparse.compiler.dtypes import unrounded
from jsparse.compiler.problem import Problem
from jsparse.compiler.schedule import Plan, Schedule, build_loops, plan
from jsparse.compiler.schedule.stored import Stored

__all__ = ["accumulates_wide", "unrounded_target", "wide_accumulation_plan"]


def wide_accumulation_plan(problem: Problem, patterns: Sequence[Stored], schedule: Schedule | None = None) -> Plan:
    """The cheapest plan that rounds a narrow float once, with the steps of `schedule` if there is one.

    If the cheapest plan accumulates a narrow float in memory, it is the cheapest plan for a target in the dtype of
    arithmetic. The caller then narrows the result.
    """
    chosen = plan(problem, patterns, schedule=schedule)
    return chosen if accumulates_wide(chosen) else plan(unrounded_target(problem), patterns, schedule=schedule)


def accumulates_wide(chosen: Plan) -> bool:
    """Whether a plan rounds to the target's dtype only when sums are complete."""
    target = chosen.problem.tensors[0]
    if unrounded(target.dtype) == target.dtype:
        return True
    parallel = chosen.schedule.found("parallelize")
    if parallel is not None and parallel.race == "split":
        return False
    return not build_loops(chosen.problem, chosen.schedule).adds_in_memory


def unrounded_target(problem: Problem) -> Problem:
    """The problem with a target in the dtype of arithmetic."""
    target, *factors = problem.tensors
    return replace(problem, tensors=(replace(target, dtype=unrounded(target.dtype)), *factors))
