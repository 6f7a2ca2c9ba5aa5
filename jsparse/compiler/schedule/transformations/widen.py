"""`widen`: sums in memory are added up in float64."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from jsparse.base.dataclass import dataclass
from jsparse.compiler.loops.nest import LoopNest, Widened
from jsparse.compiler.schedule.summary import Summary, Transformation
from jsparse.compiler.schedule.transformations.base import loops_of


@dataclass(frozen=True, slots=True)
class Widen(Transformation):
    """Accumulate long scattered sums in a float64 copy of the target, and round each sum once."""

    keyword: ClassVar[str] = "widen"
    keeps_loops = True

    def __str__(self) -> str:
        return self.keyword

    @staticmethod
    def parse(words: list[str]) -> Widen:
        """Read the step from the words that follow its keyword in a line."""
        return Widen(*words)

    def check(self, nest: Summary) -> str | None:
        """Why the step is illegal; None if it is legal."""
        if nest.first("widen") is not None:
            return "the target is added up in float64 already"
        if nest.problem.is_assembly or nest.problem.monoid_of(nest.statement).add != "+":
            return "only sums in memory are added up in a copy"
        if nest.problem.accumulator_of(nest.statement) != "float32":
            return "only sums of float32 are added up in float64"
        if not nest.adds_in_memory:
            return "no sum is added up in memory"
        return None

    def apply(self, nest: LoopNest) -> LoopNest:
        """The nest after the step."""
        target = nest.statement.target
        return replace(nest, body=Widened(target, nest.problem.type_of[target.tensor].dtype, loops_of(nest)))
