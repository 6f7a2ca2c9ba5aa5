"""`workspace`: the terms of an assembly add to a row of the result."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from jsparse.base.dataclass import dataclass
from jsparse.compiler.loops.assemble import AssemblyShape, assembly_nest, shape_of
from jsparse.compiler.loops.nest import LoopNest
from jsparse.compiler.problem import Problem
from jsparse.compiler.schedule.summary import Summary, Transformation


@dataclass(frozen=True, slots=True)
class MakeWorkspace(Transformation):
    """Give each term of an assembly its own loop over the target's innermost index, in which the term adds to a row.

    The row is a sparse workspace (Gustavson, 1978; Kjolstad et al., 2019). Without the step, all terms share the loop.

    Attributes:
        loop: the innermost index of the target, whose loop is the last of the shared loops.
    """

    loop: str
    keyword: ClassVar[str] = "workspace"

    def check(self, nest: Summary) -> str | None:
        if not nest.problem.ordered:
            return "only the assembly of a sparse result has a row"
        if nest.first("workspace") is not None:
            return "terms already add to a row"
        if nest.loops[-1:] != (self.loop,):
            return f"{self.loop} is not the innermost of the shared loops {' '.join(nest.loops)}"
        return None

    def loops_after(self, nest: Summary) -> tuple[str, ...]:
        return nest.loops[:-1]

    def apply_to_shape(self, shape: AssemblyShape, problem: Problem) -> AssemblyShape:
        """Return the shape of an assembly after the step: each term adds to a row in its own loop."""
        return replace(shape, row=True, own=tuple((*loops, self.loop) for loops in shape.own))

    def apply(self, nest: LoopNest) -> LoopNest:
        return assembly_nest(nest.problem, self.apply_to_shape(shape_of(nest), nest.problem))
