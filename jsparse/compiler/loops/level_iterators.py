"""Iterators over the levels of patterns: they advance as variables are bound one after the other."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from jsparse.base.dataclass import dataclass
from jsparse.compiler.loops.domain import Derivation, Domain, LevelIteration, Range
from jsparse.compiler.problem import Problem
from jsparse.compiler.statement import DerivedVar, Statement
from jsparse.notation.assignment import IndexVar

__all__ = ["LevelIterators", "Loop"]


@dataclass(frozen=True, slots=True)
class Loop:
    """A variable and where its values come from."""

    var: IndexVar
    domain: Domain

    @property
    def is_lookup(self) -> bool:
        """Whether the loop has at most one iteration, because outer loops determine its variable."""
        return isinstance(self.domain, Derivation) or (isinstance(self.domain, LevelIteration) and self.domain.bound)


class LevelIterators:
    """An iterator for each pattern of a problem over its levels, in the order in which they are stored.

    Attributes:
        left: for each pattern, the levels (with their variables) that are not walked yet, outermost first.
        bound: the variables that have a value.
        derived: the variables that get a value when all variables that they derive from have one.
    """

    def __init__(
        self,
        problem: Problem,
        merge_leaders: Collection[tuple[IndexVar, int]] = (),
        patterns: Iterable[int] | None = None,
    ) -> None:
        self.problem, self.merge_leaders = problem, frozenset(merge_leaders)
        names = problem.level_variables
        self.left = {n: list(enumerate(names[n])) for n in (range(len(names)) if patterns is None else patterns)}
        self.bound: set[IndexVar] = set()
        self.derived: tuple[DerivedVar, ...] = ()

    @staticmethod
    def of(
        problem: Problem, statement: Statement, merge_leaders: Collection[tuple[IndexVar, int]] = ()
    ) -> LevelIterators:
        """The iterators over a statement's patterns, with its derived variables."""
        iterators = LevelIterators(problem, merge_leaders, statement.patterns)
        if problem.derived:
            own = problem.variables_of(statement)
            iterators.derived = tuple(derived for derived in problem.derived if derived.var in own)
        return iterators

    def part(self, patterns: Iterable[int]) -> LevelIterators:
        """A copy that continues from here over some of the patterns."""
        iterators = LevelIterators(self.problem, self.merge_leaders, ())
        iterators.left = {n: list(self.left[n]) for n in patterns}
        iterators.bound = set(self.bound)
        return iterators

    def bind(self, *variables: IndexVar) -> list[Loop]:
        """One loop over the variables, then the derived variables that it completes, then lookups in levels of bound
        variables.

        The loop over one variable walks one of the levels that meet it, and the others are looked up. A level that can
        only be searched is preferred to a level that locates by arithmetic, and a full level is walked only if there is
        no other. Of several equally preferred levels, the merge leader's is walked. Without any level, and for several
        variables, the loop runs over every coordinate.
        """
        met = self.met(variables[0]) if len(variables) == 1 else []
        if len(met) > 1:
            met.sort(key=lambda n: (self._is_located(n), (variables[0], n) not in self.merge_leaders))
        loops = [Loop(variables[0], self._next(met[0]) if met else Range())]
        self.bound.update(variables)
        for derived in self.derived:
            if derived.var not in self.bound and self.bound.issuperset(part for _, part in derived.parts):
                loops.append(Loop(derived.var, Derivation(derived)))
                self.bound.add(derived.var)
        return loops + self.lookups()

    def lookups(self) -> list[Loop]:
        """Lookups in the levels of bound variables that come next."""
        found: list[Loop] = []
        for n, levels in self.left.items():
            while levels and levels[0][1] in self.bound:
                found.append(Loop(levels[0][1], self._next(n, bound=True)))
        return found

    def coiterate(self, var: IndexVar, walked: Iterable[int] | None = None) -> dict[int, LevelIteration]:
        """Bind `var` in one loop over all levels that meet it: pattern → level. If there is a merge leader, the loop is
        over its level alone, and the others are looked up. If `walked` is given, the loop is over the levels of these
        patterns."""
        self.bound.add(var)
        if walked is None:
            met = self.met(var)
            walked = [n for n in met if (var, n) in self.merge_leaders] or met
        return {n: self._next(n) for n in walked}

    def check(self) -> None:
        """Raise ValueError unless all levels are walked."""
        if any(self.left.values()):
            raise ValueError(f"the schedule does not visit the levels of {self.problem} in order")

    def met(self, var: IndexVar) -> list[int]:
        """The patterns whose next level is over `var`."""
        return [n for n, levels in self.left.items() if levels and levels[0][1] == var]

    def _next(self, pattern: int, bound: bool = False) -> LevelIteration:
        level, _ = self.left[pattern].pop(0)
        return LevelIteration(pattern, level, bound)

    def _is_located(self, pattern: int) -> int:
        """How the pattern's next level is located. 0: only by a search; 1: by arithmetic, though coordinates may be
        absent; 2: by arithmetic, always."""
        level, _ = self.left[pattern][0]
        kind = self.problem.patterns[pattern].levels[level].kind
        return 2 if kind.is_full else 0 if kind.has_coordinates else 1
