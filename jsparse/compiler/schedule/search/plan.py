"""A plan: the chosen schedule, the problem as it will run, and the candidates' costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import TypeAlias

from jsparse.base.dataclass import dataclass
from jsparse.base.memo import lazy
from jsparse.compiler.problem import Problem
from jsparse.compiler.schedule.layout import AnyPattern
from jsparse.compiler.schedule.prices.cost import Cost
from jsparse.compiler.schedule.schedule import Schedule
from jsparse.compiler.schedule.search.row_blocks import RowBlocks

Candidates: TypeAlias = tuple[tuple[str, Cost], ...]
"""The loop order and the estimated cost of each candidate, cheapest first."""


@dataclass(frozen=True)
class Plan:
    """The plan of a kernel.

    Attributes:
        given: the problem before scheduling.
        problem: the problem that is compiled. Its patterns have the storage order in which loops walk them, and its
            dense tensors store the vectorised index innermost.
        schedule: the steps that make the loops over `problem`, and the layout.
        patterns: the pattern of each type in `problem.patterns`: the given pattern, its transposed index, or the
            pattern in blocks of rows.
        cost: the estimated cost of this plan.
        find_rejected: a function that prices the candidates that were not chosen. It is called on demand, because the
            choice of the plan needs no prices of candidates that cannot be the cheapest one.
        blocks: the row blocks in which the entries of a relation are stored; None if they are not stored in blocks.
    """

    given: Problem
    problem: Problem
    schedule: Schedule
    patterns: tuple[AnyPattern, ...]
    cost: Cost
    find_rejected: Callable[[], Candidates] = field(default=tuple, compare=False)
    blocks: RowBlocks | None = None

    @lazy
    def alternatives(self) -> Candidates:
        """The candidates that were not chosen."""
        return self.find_rejected()
