"""A plan: the chosen schedule, the problem as it will run, and the candidates' costs."""

from __future__ import annotations

from dataclasses import dataclass

from jsparse.compiler.problem import Problem
from jsparse.compiler.schedule.cost import Cost
from jsparse.compiler.schedule.schedule import Schedule
from jsparse.compiler.schedule.stored import Stored

__all__ = ["Plan"]


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of a kernel.

    Attributes:
        given: the problem before scheduling.
        problem: the problem that is compiled: patterns have the storage order in which loops walk them, and dense
            tensors are stored with the vectorised index innermost.
        schedule: the loops over `problem`.
        patterns: the pattern of each type in `problem.patterns`: the given one or its transposed index.
        cost: the estimated cost of this plan.
        rejected: (loop order, estimated cost) of the other candidates, cheapest first.
    """

    given: Problem
    problem: Problem
    schedule: Schedule
    patterns: tuple[Stored, ...]
    cost: Cost
    rejected: tuple[tuple[str, Cost], ...] = ()
