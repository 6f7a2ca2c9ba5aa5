"""`pos`: a loop over coordinates becomes a loop over positions."""

from __future__ import annotations

from typing import ClassVar

from jsparse.base.dataclass import dataclass
from jsparse.compiler.loops.nest import LoopNest
from jsparse.compiler.schedule.summary import Summary
from jsparse.compiler.schedule.transformations.base import LoopStep, change_domain


@dataclass(frozen=True, slots=True)
class Pos(LoopStep):
    """Make a loop over a sparse level iterate over the positions of its segments (Senanayake et al., 2020).

    A later split then divides positions, so that all panels of a segment but the last hold equally many entries.

    Attributes:
        loop: the name of the loop.
    """

    keyword: ClassVar[str] = "pos"

    def reason(self, nest: Summary) -> str | None:
        if self.loop in nest.splits:
            return f"the loop over {self.loop} is already split by coordinates"
        if nest.problem.is_assembly:
            return "the loops of an assembly always run over coordinates"
        walked = nest.level_walked_by(self.loop)
        if walked is None:
            return f"{self.loop} walks no pattern, so its coordinates are not positions of a pattern"
        for n in nest.statement.patterns:
            levels = zip(nest.problem.level_variables[n], nest.problem.patterns[n].levels, strict=True)
            # A full level is not an obstacle, because coordinates are located in it by arithmetic.
            if n != walked.pattern and not all(level.kind.is_full for name, level in levels if name == self.loop):
                return f"several patterns meet at {self.loop}, so its coordinates are not positions of a single pattern"
        if nest.problem.level_variables[walked.pattern].count(self.loop) > 1:
            return f"{self.loop} is repeated in P{walked.pattern}"
        if walked.level is not None and not (walked.level.kind.has_pointers and walked.level.unique):
            return f"the level of {self.loop} has no segments of distinct coordinates"
        return None

    def apply(self, nest: LoopNest) -> LoopNest:
        return change_domain(nest, self.loop, by_position=True)
