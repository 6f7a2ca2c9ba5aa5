"""Schedules of programs of several statements, which share the storage of their tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from jsparse.compiler.problem import Problem
from jsparse.compiler.schedule.schedule import Schedule
from jsparse.compiler.schedule.select import plan
from jsparse.compiler.schedule.stored import Stored
from jsparse.compiler.schedule.summary import Transformation
from jsparse.compiler.schedule.transformations.merge_by import MergeBy
from jsparse.compiler.schedule.transformations.specialize import Specialize

__all__ = ["plan_statements"]


def plan_statements(problem: Problem, patterns: Sequence[Stored]) -> tuple[Schedule, ...]:
    """The cheapest schedule of each statement, as patterns and dense tensors are stored."""
    found: list[Schedule] = []
    for number, statement in enumerate(problem.statements):
        own = statement.patterns
        schedule = plan(problem.alone(number), [patterns[n] for n in own], as_stored=True).schedule
        found.append(Schedule(tuple(_renumbered(step, own) for step in schedule.steps)))
    return tuple(found)


def _renumbered(step: Transformation, numbers: Sequence[int]) -> Transformation:
    """The step where pattern n is called `numbers[n]`."""
    if isinstance(step, MergeBy):
        return replace(step, leader=f"P{numbers[step.pattern]}")
    if isinstance(step, Specialize) and step.to == "segments":
        return replace(step, what=f"P{numbers[step.pattern]}.{step.level}")
    return step
