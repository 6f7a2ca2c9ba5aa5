"""`prefetch`: memory that later entries read is requested ahead."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from jsparse.base.dataclass import dataclass
from jsparse.compiler.loops.domain import LevelIteration, PositionPanels
from jsparse.compiler.loops.nest import Forall, LoopNest
from jsparse.compiler.schedule.summary import Summary, Transformation
from jsparse.compiler.schedule.transformations.base import change_loop, lanes_reason, no_loop

FARTHEST = 1 << 10


@dataclass(frozen=True, slots=True)
class Prefetch(Transformation):
    """Request the rows for the stored entry that the loop reaches `distance` entries later (see `lower.prefetch`).

    Attributes:
        loop: the name of a loop over stored entries, or of a loop over panels of their positions.
        distance: the number of entries; for a loop over panels it is 1, and the rows for the next panel are requested.
    """

    loop: str
    distance: int
    keyword: ClassVar[str] = "prefetch"
    keeps_loops = True

    def check(self, nest: Summary) -> str | None:
        of_terms = nest.shape.own if nest.problem.ordered else ()
        if not any(self.loop in loops for loops in (nest.loops, *of_terms)):
            return no_loop(self.loop, nest)
        if reason := lanes_reason(nest, self.loop):
            return reason
        if any(step.loop == self.loop for step in nest.steps_with("prefetch")):
            return f"the loop over {self.loop} already prefetches"
        if not 0 < self.distance <= FARTHEST:
            return f"entries can be requested 1 to {FARTHEST:,} ahead, not {self.distance}"
        if nest.outer.get(self.loop) in nest.positions:
            return None if self.distance == 1 else f"the next panel is requested, not {self.distance} ahead"
        if not any(self.loop in names for names in nest.problem.level_variables):
            return f"{self.loop} is not an index of a sparse pattern"
        if self.loop in nest.splits:
            return f"the loop over {self.loop} is divided into panels, whose rows are read repeatedly"
        return None

    def apply(self, nest: LoopNest) -> LoopNest:
        def set_distance(loop: Forall) -> Forall:
            walks = isinstance(loop.domain, LevelIteration | PositionPanels)
            return replace(loop, prefetch=self.distance) if walks else loop

        return change_loop(nest, self.loop, set_distance)
