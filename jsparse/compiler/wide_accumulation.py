"""Plans that round a narrow result once: sums in memory are accumulated in the dtype of arithmetic.

A kernel that adds to a float16 or bfloat16 target in memory would round at each addition: a sum of ones in bfloat16
stops at 256. Such a target has the dtype of arithmetic in the kernel, and is narrowed after the kernel.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from jsparse.compiler.dtypes import unrounded
from jsparse.compiler.loops.nest import assignments
from jsparse.compiler.problem import Problem
from jsparse.compiler.schedule import Plan, Schedule, build_loops, plan
from jsparse.compiler.schedule.layout import Stored
from jsparse.compiler.schedule.statements import plan_statements

__all__ = ["narrow_sums", "wide_accumulation_plan", "wide_accumulation_schedules", "with_unrounded"]


def wide_accumulation_plan(problem: Problem, patterns: Sequence[Stored], schedule: Schedule | None = None) -> Plan:
    """The cheapest plan of one statement that rounds a narrow float once, with the steps of `schedule` if there is one.

    If the cheapest plan accumulates a narrow float in memory, it is the cheapest plan for a target in the dtype of
    arithmetic. The caller then narrows the result.
    """
    chosen = plan(problem, patterns, schedule=schedule)
    narrow = narrow_sums(chosen.problem, chosen.schedule)
    return plan(with_unrounded(problem, narrow), patterns, schedule=schedule) if narrow else chosen


def wide_accumulation_schedules(problem: Problem, patterns: Sequence[Stored]) -> tuple[Problem, tuple[Schedule, ...]]:
    """The cheapest schedules of a program of statements, and the problem that they are for: narrow results that are
    sums in memory have the dtype of arithmetic there. The caller then narrows these results."""
    schedules = plan_statements(problem, patterns)
    narrow = narrow_sums(problem, *schedules)
    while narrow:  # wider targets may have other cheapest schedules, which may add to another target in memory
        problem = with_unrounded(problem, narrow)
        schedules = plan_statements(problem, patterns)
        narrow = narrow_sums(problem, *schedules)
    return problem, schedules


def narrow_sums(problem: Problem, *schedules: Schedule) -> frozenset[str]:
    """The targets in a narrow float that are rounded before their sums are complete."""
    narrow = frozenset(t.name for t in problem.results if unrounded(t.dtype) != t.dtype)
    if not narrow:
        return narrow
    parallel = [schedule.found("parallelize") for schedule in schedules]
    if any(step is not None and step.race == "split" for step in parallel):  # carry-outs are added to the target
        return narrow
    sums = assignments(build_loops(problem, *schedules).body)
    return narrow.intersection(a.target.tensor for a in sums if a.accumulate)


def with_unrounded(problem: Problem, names: Collection[str]) -> Problem:
    """The problem in which these tensors have the dtype of arithmetic."""
    return replace(
        problem,
        tensors=tuple(replace(t, dtype=unrounded(t.dtype)) if t.name in names else t for t in problem.tensors),
    )
