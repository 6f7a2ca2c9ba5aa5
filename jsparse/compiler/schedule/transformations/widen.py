"""`widen`: sums in memory are added up in float64."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from jsparse.base.dataclass import dataclass
from jsparse.compiler.loops.nest import LoopNest, Widened
from jsparse.compiler.schedule.summary import Summary, Transformation
from jsparse.compiler.schedule.transformations.base import loops_of

MOST_TERMS = 64  # terms of a block; a byte counts them


@dataclass(frozen=True, slots=True)
class Widen(Transformation):
    """Accumulate long scattered sums in a float64 copy of the target, and round each sum once.

    Attributes:
        block: 0, or the number of terms of an element after which their sum is added to the copy. Until then they are
            added up in the target, in float32.
    """

    block: int = 0
    keyword: ClassVar[str] = "widen"
    keeps_loops = True

    def check(self, nest: Summary) -> str | None:
        if nest.first("widen") is not None:
            return "the target is already added up in float64"
        if not 0 <= self.block <= MOST_TERMS:
            return f"blocks have 1 to {MOST_TERMS} terms, not {self.block}"
        if nest.problem.is_assembly or nest.problem.monoid_of(nest.statement).add != "+":
            return "only sums in memory can be added up in a copy"
        if nest.problem.accumulator_of(nest.statement) != "float32":
            return "only sums of float32 can be added up in float64"
        if not nest.adds_in_memory:
            return "no sum is added up in memory"
        return None

    def apply(self, nest: LoopNest) -> LoopNest:
        target = nest.statement.target
        dtype, loops = nest.problem.type_of[target.tensor].dtype, loops_of(nest)
        return replace(nest, body=Widened(target, dtype, loops, self.block, nest.problem.adds(nest.statement)))
