"""`fuse`: two nested loops become one."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from jsparse.base.dataclass import dataclass
from jsparse.compiler.loops.chain import chain, nest_loops
from jsparse.compiler.loops.domain import Fused
from jsparse.compiler.loops.nest import LoopNest
from jsparse.compiler.schedule.summary import Summary, Transformation
from jsparse.compiler.schedule.transformations.base import loops_of, no_loop, structure_reason, with_loops


@dataclass(frozen=True, slots=True)
class Fuse(Transformation):
    """Make one loop of two nested loops over dense index variables: threads then share all pairs of coordinates.

    The new loop is called `i_j`.

    Attributes:
        outer, inner: the names of the loops.
    """

    outer: str
    inner: str
    keyword: ClassVar[str] = "fuse"

    @property
    def name(self) -> str:
        """The name of the fused loop."""
        return f"{self.outer}_{self.inner}"

    def check(self, nest: Summary) -> str | None:
        for name in (self.outer, self.inner):
            if name not in nest.loops:
                return no_loop(name, nest)
            if any(name in names for names in nest.problem.level_variables):
                return f"{name} is an index of a sparse pattern: the race strategy split divides its long segments"
            if name in nest.outer or name in nest.splits or name in nest.fusions or name == nest.vector:
                return f"the loop over {name} is already split or fused"
            if name not in nest.free_vars:
                return f"{name} is summed, and the sums of a fused loop are not cut into blocks"
            if any(name in (part for _, part in derived.parts) for derived in nest.problem.derived):
                return f"a derived index variable depends on {name}"
        if nest.loops.index(self.inner) != nest.loops.index(self.outer) + 1:
            return f"{self.inner} is not the loop directly inside {self.outer}"
        reason = structure_reason(nest, self.outer, self.inner)
        return None if reason is None else f"{reason}: put fuse first"

    def loops_after(self, nest: Summary) -> tuple[str, ...]:
        at = nest.loops.index(self.outer)
        return (*nest.loops[:at], self.name, *nest.loops[at + 2 :])

    def apply(self, nest: LoopNest) -> LoopNest:
        loops, leaf = chain(loops_of(nest))
        at = next(n for n, loop in enumerate(loops) if loop.var == self.outer and not loop.is_lookup)
        fused = replace(loops[at], var=self.name, domain=Fused(self.outer, self.inner))
        return with_loops(nest, nest_loops([*loops[:at], fused, *loops[at + 2 :]], leaf))
