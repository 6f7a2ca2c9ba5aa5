"""Changes of schedules, and questions to them, by the keywords of their steps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from jsparse.compiler.problem import Problem
from jsparse.compiler.schedule import Plan, Schedule
from jsparse.compiler.schedule.summary import Summary
from jsparse.compiler.schedule.transformations.specialize import Specialize
from jsparse.compiler.schedule.transformations.unroll import Unroll

__all__ = [
    "changed",
    "has_panels",
    "lanes_of",
    "order_of",
    "race_of",
    "steps_of",
    "summary_of",
    "with_grain",
    "without",
    "without_content",
]


def changed(schedule: Schedule, keyword: str, **fields: Any) -> Schedule:
    """The schedule with these fields in all steps of that keyword."""
    steps = (replace(step, **fields) if step.keyword == keyword else step for step in schedule.steps)
    return Schedule(tuple(steps), schedule.layout)


def without(schedule: Schedule, *keywords: str) -> Schedule:
    """The schedule without the steps of these keywords."""
    return Schedule(tuple(step for step in schedule.steps if step.keyword not in keywords), schedule.layout)


def with_grain(schedule: Schedule, grain: int) -> Schedule:
    """The schedule with at least `grain` entries in a chunk."""
    return changed(schedule, "parallelize", grain=int(grain))


def without_content(schedule: Schedule) -> Schedule:
    """The schedule without steps that know something of the entries of patterns."""
    known = (isinstance(s, Unroll) or (isinstance(s, Specialize) and s.to != "threads") for s in schedule.steps)
    steps = (step for step, knows in zip(schedule.steps, known, strict=True) if not knows)
    return Schedule(tuple(steps), schedule.layout)


def steps_of(schedule: Schedule) -> Schedule:
    """The steps alone, which are what a recipe has: the storage orders are in its problem."""
    return Schedule(schedule.steps)


def summary_of(problem: Problem, schedule: Schedule) -> Summary:
    """The summary of the nest after all steps."""
    nest = Summary.canonical(problem)
    for step in schedule.steps:
        nest = nest.then(step)
    return nest


def order_of(plan: Plan) -> tuple[str, ...]:
    """The variables in the order in which loops bind them, that in lanes last."""
    return summary_of(plan.problem, plan.schedule).order


def lanes_of(plan: Plan) -> int:
    """The lanes of a register tile; 0 if nothing runs in lanes."""
    return summary_of(plan.problem, plan.schedule).lanes


def race_of(plan: Plan) -> str | None:
    """The race strategy of the parallel loop, if there is one."""
    step = plan.schedule.found("parallelize")
    return None if step is None else step.race


def has_panels(plan: Plan) -> bool:
    """Whether rows are copied panel by panel."""
    return plan.schedule.found("cache_read") is not None
