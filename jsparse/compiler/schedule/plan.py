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
    """How a problem is run.

    Attributes:
        given: the problem as it was stated.
        problem: the problem as it runs: patterns re-ordered so that the loops walk them as they are stored, dense
            tensors stored so that the vectorised index is innermost.
        schedule: the loops over `problem`.
        patterns: the pattern behind each of `problem.patterns`; a transposed index where the order differs.
        cost: the estimate for this plan.
        rejected: (loop order, estimate) of the other candidates, best first.
    """

    given: Problem
    problem: Problem
    schedule: Schedule
    patterns: tuple[Stored, ...]
    cost: Cost
    rejected: tuple[tuple[str, Cost], ...] = ()
