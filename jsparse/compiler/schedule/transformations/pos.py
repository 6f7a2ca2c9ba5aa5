"""`pos`: a loop over coordinates becomes a loop over positions."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from jsparse.base.dataclass import dataclass
from jsparse.compiler.loops.chain import with_loop
from jsparse.compiler.loops.domain import LevelIteration
from jsparse.compiler.loops.nest import Forall, LoopNest
from jsparse.compiler.schedule.layout import line
from jsparse.compiler.schedule.summary import Summary, Transformation
from jsparse.compiler.schedule.transformations.base import no_loop
from jsparse.notation.assignment import IndexVar


@dataclass(frozen=True, slots=True)
class Pos(Transformation):
    """Make a loop over a sparse level iterate over the positions of its segments (Senanayake et al., 2020).

    A later split then divides positions, so that all panels of a segment but the last hold equally many entries.

    Attributes:
        loop: the name of the loop.
    """

    loop: str
    keyword: ClassVar[str] = "pos"

    def __str__(self) -> str:
        return line(self.keyword, self.loop)

    @staticmethod
    def parse(words: list[str]) -> Pos:
        """Read the step from the words that follow its keyword in a line."""
        (loop,) = words
        return Pos(loop)

    def check(self, nest: Summary) -> str | None:
        """Why the step is illegal; None if it is legal."""
        if self.loop not in nest.loops:
            return no_loop(self.loop, nest)
        if self.loop in nest.splits:
            return f"the loop over {self.loop} is split by coordinates already"
        if nest.problem.is_assembly:
            return "the loops of an assembly stay loops over coordinates"
        walked = nest.level_walked_by(self.loop)
        if walked is None:
            return f"no pattern is walked at {self.loop}, so its coordinates are not the positions of one"
        if any(n != walked.pattern and not _is_full(nest, n, self.loop) for n in nest.statement.patterns):
            return f"several patterns meet at {self.loop}, so its coordinates are not the positions of one"
        if nest.problem.level_variables[walked.pattern].count(self.loop) > 1:
            return f"{self.loop} is repeated in P{walked.pattern}"
        if walked.level is not None and not (walked.level.kind.has_pointers and walked.level.unique):
            return f"the level of {self.loop} has no segments of distinct coordinates"
        return None

    def apply(self, nest: LoopNest) -> LoopNest:
        """The nest after the step."""

        def walk_by_position(loop: Forall) -> Forall:
            assert isinstance(loop.domain, LevelIteration)
            return replace(loop, domain=replace(loop.domain, by_position=True))

        return replace(nest, body=with_loop(nest.body, self.loop, nest.problem, walk_by_position))


def _is_full(nest: Summary, pattern: int, var: IndexVar) -> bool:
    """Whether a pattern has every coordinate of a variable, or lacks the variable."""
    levels = zip(nest.problem.level_variables[pattern], nest.problem.patterns[pattern].levels, strict=True)
    return all(level.kind.is_full for name, level in levels if name == var)
