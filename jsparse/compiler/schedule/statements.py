"""Schedules of programs of several statements, which share the storage of their tensors."""

from __future__ import annotations

from collections.abc import Sequence

from jsparse.compiler.problem import Problem
from jsparse.compiler.schedule.schedule import Schedule
from jsparse.compiler.schedule.select import plan
from jsparse.compiler.schedule.stored import Stored

__all__ = ["plan_statements"]


def plan_statements(problem: Problem, patterns: Sequence[Stored]) -> tuple[Schedule, ...]:
    """The cheapest schedule of each statement, as patterns and dense tensors are stored."""
    found: list[Schedule] = []
    for number, statement in enumerate(problem.statements):
        own = statement.patterns
        schedule = plan(problem.alone(number), [patterns[n] for n in own], as_stored=True).schedule
        found.append(Schedule(tuple(step.renumbered(own) for step in schedule.steps)))
    return tuple(found)
