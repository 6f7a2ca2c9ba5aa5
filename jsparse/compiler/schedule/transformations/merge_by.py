"""`merge_by`: how a loop finds the coordinates that several patterns share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, cast

from jsparse.base.dataclass import dataclass
from jsparse.compiler.loops.assemble import AssemblyShape, assembly_nest, shape_of
from jsparse.compiler.loops.chain import nest_loops
from jsparse.compiler.loops.domain import LevelIteration
from jsparse.compiler.loops.nest import Forall, LoopNest, Stmt, with_children
from jsparse.compiler.problem import Problem
from jsparse.compiler.schedule.layout import pattern_numbers
from jsparse.compiler.schedule.summary import Summary, Transformation
from jsparse.notation.assignment import IndexVar


@dataclass(frozen=True, slots=True)
class MergeBy(Transformation):
    """Walk the level of one pattern, and locate each of its coordinates in the levels of the other patterns.

    Attributes:
        loop: the name of the loop at which several patterns meet.
        leader: the pattern that is walked, as in `P0`.
    """

    loop: str
    leader: str
    keyword: ClassVar[str] = "merge_by"

    @staticmethod
    def parse(words: list[str]) -> MergeBy:
        loop, leader = words
        if len(pattern_numbers(leader)) != 1:
            raise ValueError(f"expected a pattern, as in P0, but got {leader!r}")
        return MergeBy(loop, leader)

    @property
    def pattern(self) -> int:
        """The index of the leading pattern; -1 if `leader` names no pattern."""
        numbers = pattern_numbers(self.leader)
        return numbers[0] if len(numbers) == 1 else -1

    def check(self, nest: Summary) -> str | None:
        names = nest.problem.level_variables
        terms = (term for term in nest.problem.terms or (nest.statement,) if self.pattern in term.patterns)
        walking = {n for term in terms for n in term.patterns if self.loop in names[n]}
        if self.pattern not in walking:
            return f"{self.leader} has no level of {self.loop}"
        if self.loop in nest.splits or self.loop in nest.positions:
            return f"the loop over {self.loop} is already divided by the entries of one pattern"
        if nest.first("scatter") is not None:
            return f"'{nest.first('scatter')}' applies to the lookups as they are: put merge_by before it"
        # A lookup is a search (0), arithmetic (1), or arithmetic that always finds a coordinate (2).
        kinds = {n: nest.problem.patterns[n].levels[names[n].index(self.loop)].kind for n in walking}
        located = {n: 2 if kind.is_full else 0 if kind.has_coordinates else 1 for n, kind in kinds.items()}
        if not nest.concordant and located[self.pattern] > min(located.values()):
            return (
                f"{self.leader} locates a coordinate of {self.loop} by arithmetic, so another pattern has to be walked"
            )
        return None

    def renumber(self, numbers: Sequence[int], names: Mapping[str, str] | None = None) -> MergeBy:
        return replace(self, leader=f"P{numbers[self.pattern]}")

    def apply_to_shape(self, shape: AssemblyShape, problem: Problem) -> AssemblyShape:
        """Return the shape of an assembly after this step. The step replaces a merge leader."""
        beside = {n for term in problem.terms if self.pattern in term.patterns for n in term.patterns}
        others = ((v, n) for v, n in shape.merge_leaders if v != self.loop or n not in beside)
        return replace(shape, merge_leaders=(*others, (self.loop, self.pattern)))

    def apply(self, nest: LoopNest) -> LoopNest:
        if nest.problem.ordered:
            return assembly_nest(nest.problem, self.apply_to_shape(shape_of(nest), nest.problem))
        return replace(nest, body=_exchange_leader(nest.body, self.loop, self.pattern))


def _exchange_leader(stmt: Stmt, var: IndexVar, leader: int) -> Stmt:
    """Exchange two levels in a statement: walk the leader's level, and look up the level that was walked."""
    walks = isinstance(stmt, Forall) and stmt.var == var and not stmt.is_lookup
    if not (walks and isinstance(stmt, Forall) and isinstance(stmt.domain, LevelIteration)):
        return with_children(stmt, lambda inner: _exchange_leader(inner, var, leader))
    lookups: list[tuple[tuple[int, int], Forall]] = []  # each with its place: derived variables, then levels in order
    inner = stmt.body
    while isinstance(inner, Forall) and inner.is_lookup:
        level = inner.domain
        lookups.append(((level.pattern, level.level) if isinstance(level, LevelIteration) else (-1, 0), inner))
        inner = inner.body
    led = next((entry for entry in lookups if entry[0][0] == leader and entry[1].var == var), None)
    if stmt.domain.pattern == leader or led is None:
        return stmt
    lookups.remove(led)
    lookups.append(((stmt.domain.pattern, stmt.domain.level), Forall(var, replace(stmt.domain, bound=True), inner)))
    body = nest_loops([loop for _, loop in sorted(lookups, key=lambda entry: entry[0])], inner)
    return replace(stmt, domain=replace(cast(LevelIteration, led[1].domain), bound=False), body=body)
