"""`compute_at`: a statement is computed inside a loop of the next one."""

from __future__ import annotations

from typing import ClassVar

from jsparse.base.dataclass import dataclass
from jsparse.compiler.loops.nest import LoopNest
from jsparse.compiler.schedule.summary import Summary
from jsparse.compiler.schedule.transformations.base import LoopStep, first_of


@dataclass(frozen=True, slots=True)
class ComputeAt(LoopStep):
    """Share the loops down to `loop` with the next statement, which runs after this statement in each iteration.

    It is the `compute_at` of Halide (Ragan-Kelley et al., PLDI 2013). Temporaries that only one iteration needs then
    take the memory of one iteration, or of one panel if `loop` is the outer loop of a split. Whether the loops of both
    statements agree is known only when both nests are complete: `loops.fusion` joins them.

    Attributes:
        loop: the name of the innermost loop that is shared.
    """

    keyword: ClassVar[str] = "compute_at"

    def reason(self, nest: Summary) -> str | None:
        if step := first_of(nest, "parallelize", "widen", "compute_at"):
            return f"'{step}' applies to all loops of the statement"
        for name in nest.loops[: nest.loops.index(self.loop) + 1]:
            if name in nest.fusions:
                return f"the loop {name} is fused"
            if nest.outer.get(name, name) in nest.positions:
                return f"the loop {name} runs over positions"
            if nest.vector is not None and nest.outer.get(name) == nest.vector:
                return f"the loop {name} runs over register tiles"
        if len(nest.problem.statements) == nest.number + 1:
            return "no statement follows it"
        return None

    def apply(self, nest: LoopNest) -> LoopNest:
        """Return the nest unchanged: `loops.fusion` joins it to the next statement's nest when both are complete."""
        return nest
