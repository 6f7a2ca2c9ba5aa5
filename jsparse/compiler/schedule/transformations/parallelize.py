"""`parallelize`: the iterations of a loop are divided over threads."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Literal, cast, get_args

from jsparse.base.dataclass import dataclass
from jsparse.compiler.loops.nest import Forall, LoopNest, Parallel, Stmt, Where, Workspace, with_children
from jsparse.compiler.schedule.layout import line
from jsparse.compiler.schedule.races import bins_reason, copies_reason, split_reason
from jsparse.compiler.schedule.summary import Summary
from jsparse.compiler.schedule.transformations.base import LoopStep, change_loop
from jsparse.compiler.schedule.transformations.split import may_be_full
from jsparse.formats.validate import LARGEST_SIZE

Race = Literal["owned", "split", "reduced", "binned"]


@dataclass(frozen=True, slots=True)
class Parallelize(LoopStep):
    """Divide a loop over threads. Chunks and results do not depend on the number of threads.

    Attributes:
        loop: the name of the loop.
        race: how chunks write the target. `owned`: each iteration owns a part of the target. `split`: each iteration
            owns a part, but several chunks share a long segment. A chunk's part of a segment that began in an earlier
            chunk is added to the target at the end. `reduced`: each chunk has its own sum, or its own copy of a small
            target. The sums or copies are added in the order of the chunks. If several statements share the loop, only
            targets of statements that sum its variable have copies. `binned`: where there are threads enough, each
            chunk lists its terms by ranges of a large target, and each range adds its terms in the order of the loop.
        grain: the least number of stored entries (or iterations) in a chunk; if 0, the scheduler chooses it.
    """

    race: Race = "owned"
    grain: int = 0
    keyword: ClassVar[str] = "parallelize"
    keeps_loops = True

    def __str__(self) -> str:
        return line(self.keyword, self.loop, self.race, *([self.grain] if self.grain else []))

    @staticmethod
    def parse(words: list[str]) -> Parallelize:
        loop, *options = words
        race = options.pop(0) if options and not options[0].isdecimal() else "owned"
        if race not in get_args(Race):
            raise ValueError(f"expected a race strategy, one of {', '.join(get_args(Race))}, but got {race!r}")
        return Parallelize(loop, cast(Race, race), *map(int, options))

    def reason(self, nest: Summary) -> str | None:
        if nest.first("parallelize") is not None:
            return f"'{nest.first('parallelize')}' already divides the work"
        if not 0 <= self.grain <= LARGEST_SIZE:
            return f"a chunk has at least one entry and at most 2**62, not {self.grain}"
        if nest.problem.is_assembly:
            if self.race != "owned":
                return "the chunks of an assembly own their entries"
            return None if nest.loops[0] == self.loop else f"only the outermost loop, {nest.loops[0]}, is divided"
        # The loops of a sum that is computed first do not count as loops around the others.
        before = list(nest.loops[: nest.loops.index(self.loop)])
        if self.loop not in nest.precompute_loops:
            before = [name for name in before if name not in nest.precompute_loops]
        if any(name != nest.tile_loop for name in before):
            return f"only the outermost loop is divided over threads: move {self.loop} outside {before[0]}"
        if self.race == "reduced":
            return self._reason_against_own_sums(nest)
        if self.race == "binned":
            return bins_reason(nest, self.loop)
        if before:
            return f"each tile of {nest.vector} would divide {self.loop} again: move {self.loop} outside {before[0]}"
        owners = [v for v in nest.variables_of(self.loop) if v not in nest.free_vars]
        if owners:
            return f"the iterations of {self.loop} do not own parts of {nest.statement.target}: it lacks {owners[0]}"
        walked = nest.level_walked_by(nest.outer[self.loop]) if self.loop in nest.outer else None
        if walked is not None and not may_be_full(walked):
            return f"{self.loop} continues segments from panel to panel, one after the other"
        return split_reason(nest, self.loop) if self.race == "split" else None

    def _reason_against_own_sums(self, nest: Summary) -> str | None:
        """Why chunks cannot have sums of their own; None if they can. If statements share the loop, this is checked
        later, when their nests are joined (`loops.fusion`)."""
        if len(nest.problem.statements) > 1:
            return None
        if self.loop in nest.outer or self.loop in nest.fusions or self.loop in nest.splits:
            return "chunks of panels and of fused loops do not have separate sums"
        if self.loop in nest.free_vars:
            return f"{self.loop} is an index of the target: its iterations own their parts"
        if nest.precompute_loops[:1] == (self.loop,):
            return None
        inside = nest.loops[nest.loops.index(self.loop) :]
        if any(not nest.free_vars.isdisjoint(nest.variables_of(name)) for name in inside):
            return copies_reason(nest, self.loop)
        return None if nest.first("promote") is not None else "promote the sum to registers first"

    def apply(self, nest: LoopNest) -> LoopNest:
        parallel = Parallel(self.race, max(self.grain, 1))
        nest = change_loop(nest, self.loop, lambda loop: replace(loop, parallel=parallel))
        return replace(nest, body=_clear_checked_flags(nest.body)) if self.race == "reduced" else nest


def _clear_checked_flags(stmt: Stmt) -> Stmt:
    """Clear the flag `checked` of workspaces around the divided loop: a sum is used even if no chunk has added to it.

    A sum inside of the loop belongs to one iteration, which still leaves it out if it has no terms.
    """
    if isinstance(stmt, Forall) and stmt.parallel is not None:
        return stmt
    if isinstance(stmt, Where) and isinstance(stmt.workspace, Workspace):
        stmt = replace(stmt, workspace=replace(stmt.workspace, checked=False))
    return with_children(stmt, _clear_checked_flags)
