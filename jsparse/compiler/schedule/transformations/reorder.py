"""`reorder`: the order of the loops."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from jsparse.base.dataclass import dataclass
from jsparse.compiler.loops.assemble import AssemblyShape, assembly_nest, shape_of
from jsparse.compiler.loops.canonical import LevelIterators
from jsparse.compiler.loops.chain import chain, loop_name, nest_loops
from jsparse.compiler.loops.domain import Domain, LevelIteration, Panels, PositionPanels, Range, Tiles
from jsparse.compiler.loops.nest import Forall, LoopNest
from jsparse.compiler.problem import Problem
from jsparse.compiler.schedule.layout import line
from jsparse.compiler.schedule.summary import Summary, Transformation
from jsparse.compiler.schedule.transformations.base import first_of, loops_of, structure_reason, with_loops
from jsparse.compiler.schedule.transformations.split import panels_reason


@dataclass(frozen=True, slots=True)
class Reorder(Transformation):
    """Put the loops in this order, outermost first. Lookups in levels move to the loop that binds their variable.

    In the assembly of a sparse result, the step orders either the loops over the target's indices, or the loops that
    one term has inside the shared loops. The target stores its indices in the order of their loops.

    Attributes:
        loops: the names of all loops.
        term: the index of a term of an assembly; None for the shared loops, or if there is no assembly.
    """

    loops: tuple[str, ...]
    term: int | None = None
    keyword: ClassVar[str] = "reorder"

    def __str__(self) -> str:
        return line(self.keyword, *self.loops, *([] if self.term is None else ["in", "term", self.term]))

    @staticmethod
    def parse(words: list[str]) -> Reorder:
        if len(words) > 3 and words[-3:-1] == ["in", "term"]:
            return Reorder(tuple(words[:-3]), int(words[-1]))
        return Reorder(tuple(words))

    def check(self, nest: Summary) -> str | None:
        if self.term is not None:
            if not nest.problem.ordered or not 0 <= self.term < len(nest.problem.terms):
                return f"there is no term {self.term}"
            loops = nest.shape.own[self.term]
            if sorted(self.loops) != sorted(loops):
                return f"the loops of term {self.term} are {' '.join(loops) or 'none'}: name each of them once"
            return None
        if sorted(self.loops) != sorted(nest.loops):
            return f"the loops are {' '.join(nest.loops) or 'none'}: name each of them once"
        if nest.problem.ordered:
            return (
                "a row is made over the last loop: put reorder first" if nest.first("workspace") is not None else None
            )
        reason = structure_reason(nest)
        if reason is not None:
            return f"{reason}: put reorder first"
        if step := first_of(nest, "merge_by", "unroll"):
            return f"'{step}' needs the loops in their present order: put reorder before it"
        divided = nest.first("parallelize")
        if divided is not None and self.loops[0] != divided.loop:
            return f"'{divided}' divides the outermost loop, which would be {self.loops[0]}"
        for var in nest.positions:
            walked = replace(nest, loops=self.loops).level_walked_by(var)
            if walked is None or (walked.level is not None and not walked.level.kind.has_pointers):
                return f"the positions of {var} would not be walked"
        return panels_reason(replace(nest, loops=self.loops))

    def loops_after(self, nest: Summary) -> tuple[str, ...]:
        return self.loops if self.term is None else nest.loops

    def apply_to_shape(self, shape: AssemblyShape, problem: Problem) -> AssemblyShape:
        """Return the shape of an assembly after the step, which orders the shared loops or the loops of one term."""
        if self.term is None:
            return replace(shape, order=self.loops)
        return replace(shape, own=(*shape.own[: self.term], self.loops, *shape.own[self.term + 1 :]))

    def apply(self, nest: LoopNest) -> LoopNest:
        if nest.problem.ordered:
            return assembly_nest(nest.problem, self.apply_to_shape(shape_of(nest), nest.problem))
        loops, leaf = chain(loops_of(nest))
        named = {loop_name(loop, nest.problem): loop for loop in loops if not loop.is_lookup}
        iterators = LevelIterators.of(nest.problem, nest.statement)
        ordered: list[Forall] = []
        for old in (named[name] for name in self.loops):
            if isinstance(old.domain, Tiles | Panels | PositionPanels):
                ordered.append(old)
                continue
            first, *lookups = iterators.bind(*old.variables)
            ordered.append(replace(old, domain=_with_marks_of(first.domain, old.domain)))
            ordered += [Forall(lookup.var, lookup.domain, leaf) for lookup in lookups]
        iterators.check()
        return with_loops(nest, nest_loops(ordered, leaf))


def _with_marks_of(domain: Domain, old: Domain) -> Domain:
    """Return the domain of a loop in its new place, with the panels, positions and lanes that earlier steps made."""
    if not isinstance(old, LevelIteration | Range):
        return old
    if isinstance(domain, LevelIteration):
        by_position = isinstance(old, LevelIteration) and old.by_position
        return replace(domain, panel=old.panel, by_position=by_position)
    return Range(old.panel, old.lanes if isinstance(old, Range) else 0)
