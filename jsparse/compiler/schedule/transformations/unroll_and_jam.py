"""`unroll_and_jam`: several iterations of a loop run at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from jsparse.base.dataclass import dataclass
from jsparse.compiler.loops.nest import LoopNest
from jsparse.compiler.schedule.summary import Summary
from jsparse.compiler.schedule.transformations.base import LoopStep, change_loop, lanes_reason

MOST = 16  # iterations at a time


@dataclass(frozen=True, slots=True)
class UnrollAndJam(LoopStep):
    """Run several iterations of a loop at a time, so that rows read by all of these iterations are loaded once.

    If the iterations add to the same registers, each iteration has its own copy of them, and the copies are added up at
    the end. If the iterations depend on each other in other ways, or have different loops inside, they run one by one
    (`kernel.jam`).

    Attributes:
        loop: the name of the loop.
        copies: the number of iterations that run at a time.
    """

    copies: int
    keyword: ClassVar[str] = "unroll_and_jam"

    def reason(self, nest: Summary) -> str | None:
        if reason := lanes_reason(nest, self.loop):
            return reason
        if not 1 < self.copies <= MOST:
            return f"2 to {MOST} iterations run at a time, not {self.copies}"
        if nest.first("scatter") is not None:
            return f"'{nest.first('scatter')}' has made a map for one iteration at a time"
        if nest.first("unroll_and_jam") is not None or nest.first("unroll") is not None:
            return "a loop is already unrolled"
        if self.loop in nest.outer or self.loop in nest.fusions:
            return f"the loop over {self.loop} is split or fused"
        if self.loop in nest.splits and nest.level_walked_by(self.loop) is not None:
            return f"a panel of {self.loop} has stored entries, which are found one after the other"
        if nest.problem.is_assembly:
            return "the loops of an assembly run one iteration at a time"
        if self.loop in nest.positions:
            return f"the positions of {self.loop} are divided into panels"
        return None

    def apply(self, nest: LoopNest) -> LoopNest:
        return change_loop(nest, self.loop, lambda loop: replace(loop, jam=self.copies))
