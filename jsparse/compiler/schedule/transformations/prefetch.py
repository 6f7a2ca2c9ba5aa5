"""`prefetch`: memory that later entries read is requested ahead."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from jsparse.base.dataclass import dataclass
from jsparse.compiler.loops.chain import with_loop
from jsparse.compiler.loops.domain import LevelIteration, PositionPanels
from jsparse.compiler.loops.nest import Forall, LoopNest
from jsparse.compiler.schedule.layout import line
from jsparse.compiler.schedule.summary import Summary, Transformation
from jsparse.compiler.schedule.transformations.base import lanes_reason, no_loop

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

    def __str__(self) -> str:
        return line(self.keyword, self.loop, self.distance)

    @staticmethod
    def parse(words: list[str]) -> Prefetch:
        """Read the step from the words that follow its keyword in a line."""
        loop, distance = words
        return Prefetch(loop, int(distance))

    def check(self, nest: Summary) -> str | None:
        """Why the step is illegal; None if it is legal."""
        own = {v for term in nest.shape.own for v in term} if nest.problem.ordered else set[str]()
        if self.loop not in nest.loops and self.loop not in own:
            return no_loop(self.loop, nest)
        if lanes_reason(nest, self.loop) is not None:
            return lanes_reason(nest, self.loop)
        if any(step.loop == self.loop for step in nest.steps_with("prefetch")):
            return f"the loop over {self.loop} prefetches already"
        if not 0 < self.distance <= FARTHEST:
            return f"entries are requested 1 to {FARTHEST:,} ahead, not {self.distance}"
        if nest.outer.get(self.loop) in nest.positions:
            return None if self.distance == 1 else f"the next panel is requested, not {self.distance} ahead"
        if not any(self.loop in names for names in nest.problem.level_variables):
            return f"{self.loop} is no index of a sparse pattern"
        if self.loop in nest.splits:
            return f"the loop over {self.loop} is divided into panels, whose rows are read again and again"
        return None

    def apply(self, nest: LoopNest) -> LoopNest:
        """The nest after the step."""

        def set_distance(loop: Forall) -> Forall:
            walks = isinstance(loop.domain, LevelIteration | PositionPanels)
            return replace(loop, prefetch=self.distance) if walks else loop

        return replace(nest, body=with_loop(nest.body, self.loop, nest.problem, set_distance))
