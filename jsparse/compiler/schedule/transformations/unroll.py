"""`unroll`: a loop is written out, iteration by iteration.

The search never asks for it, because a walk inside register tiles takes 1.0 to 1.3 times as long as one that is written
out, and LLVM takes about a millisecond for each position.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import ClassVar

from jsparse.base.dataclass import dataclass
from jsparse.compiler.loops.nest import LoopNest
from jsparse.compiler.schedule.limits import WRITTEN_OUT
from jsparse.compiler.schedule.summary import Summary
from jsparse.compiler.schedule.transformations.base import LoopStep, change_loop, lanes_reason


@dataclass(frozen=True, slots=True)
class Unroll(LoopStep):
    """Write out all iterations of a loop, with constants in place of its coordinates and its positions.

    To write out a loop over a level, the entries of its pattern must be known (`specialize pattern`), and the loops
    over the levels above must be written out, too. Dense loops need a known size.

    Attributes:
        loop: the name of the loop.
    """

    keyword: ClassVar[str] = "unroll"

    def reason(self, nest: Summary) -> str | None:
        if reason := lanes_reason(nest, self.loop):
            return reason
        if nest.problem.is_assembly:
            return "the loops of an assembly cannot be written out"
        if self.loop in nest.splits or self.loop in nest.outer or self.loop in nest.fusions:
            return f"the loop over {self.loop} is split or fused"
        if any(self.loop == step.loop for step in (*nest.steps_with("unroll"), *nest.steps_with("parallelize"))):
            return f"the loop over {self.loop} is already divided or written out"
        if nest.first("unroll_and_jam") is not None:
            return f"'{nest.first('unroll_and_jam')}' already unrolls a loop"
        return self._level_reason(nest) or self._count_reason(nest)

    def _level_reason(self, nest: Summary) -> str | None:
        constant = {step.pattern for step in nest.steps_with("specialize") if step.to == "pattern"}
        written = {step.loop for step in nest.steps_with("unroll")}
        for n in nest.statement.patterns:
            names = nest.problem.level_variables[n]
            if self.loop not in names:
                continue
            if n not in constant:
                return f"the entries of P{n} are not constants: specialize the pattern first"
            above = [v for v in names if v in nest.order and nest.order.index(v) < nest.order.index(self.loop)]
            if not written.issuperset(above):
                return f"unroll {next(v for v in above if v not in written)} first, because its level is above"
        return None

    def _count_reason(self, nest: Summary) -> str | None:
        names = {self.loop, *(step.loop for step in nest.steps_with("unroll"))}
        sizes = [nest.problem.size[v] for v in names if v not in nest.walk]
        if None in sizes:
            return f"the size of {self.loop} is known only at run time"
        if prod(size or 0 for size in sizes) > WRITTEN_OUT:
            return f"at most {WRITTEN_OUT} iterations are written out"
        return None

    def apply(self, nest: LoopNest) -> LoopNest:
        return change_loop(nest, self.loop, lambda loop: replace(loop, unroll=True))
