"""A sum of products whose entries come out in order: problem + schedule → loop nest.

The shared loops run over the target's outermost indices, in the order in which it is to be stored, wherever any term
has entries. Inside, every term adds to one workspace, by loops of its own: a row over the index that is left, or a
scalar. Then what was written is appended.
"""

from __future__ import annotations

from jsparse.compiler.loops.nest import (
    Append,
    Assign,
    Forall,
    LoopNest,
    Merged,
    Parallel,
    Present,
    Range,
    Row,
    Sequence,
    Stmt,
    Stored,
    Where,
    Written,
)
from jsparse.compiler.problem import Problem
from jsparse.compiler.schedule.schedule import Schedule
from jsparse.formats.level import LevelKind
from jsparse.notation.assignment import IndexVar

__all__ = ["assemble_loops"]


def assemble_loops(problem: Problem, schedule: Schedule) -> LoopNest:
    """The loop nest that `schedule` describes. Raises ValueError if levels cannot be walked in its order."""
    return _Assembler(problem, schedule).build()


class _Assembler:
    def __init__(self, problem: Problem, schedule: Schedule) -> None:
        self.problem, self.schedule = problem, schedule
        self.target = problem.assignment.target
        self.left = [list(enumerate(names)) for names in problem.level_variables]
        over = [str(v) for v in self.target.indices if v not in schedule.order]
        if len(over) > 1:
            raise ValueError(f"a row has one index, but {over} are left of {self.target}")
        dtype = problem.type_of[self.target.tensor].dtype if problem.wants_values else ""
        self.row = Row("row" if over else "acc", dtype, over[0] if over else None)

    def build(self) -> LoopNest:
        body = self._shared(0)
        if any(self.left):
            raise ValueError(f"the schedule does not visit the levels of {self.problem} in order")
        return LoopNest(self.problem, False, body)

    def _shared(self, place: int) -> Stmt:
        if place == len(self.schedule.order):
            return self._workspace()
        var = self.schedule.order[place]
        met: dict[int, Stored] = {}
        for n, levels in enumerate(self.left):
            if levels and levels[0][1] == var:
                met[n] = Stored(n, levels.pop(0)[0])
        terms = tuple(tuple(met[n] for n in term.patterns if n in met) for term in self.problem.terms)
        parallel = Parallel("owned", self.schedule.grain) if var == self.schedule.parallel else None
        return Forall(var, Merged(terms), self._shared(place + 1), parallel)

    def _workspace(self) -> Stmt:
        if self.problem.wanted == "bounds":
            return self._terms(Append(self.target))
        value = self.row.access() if self.problem.wants_values else None
        append: Stmt = Append(self.target, value)
        if self.row.var is not None:
            append = Forall(self.row.var, Written(self.row.name), append)
        return Where(self.row, self._terms(None), append)

    def _terms(self, innermost: Stmt | None) -> Stmt:
        """The loops of each term, around `innermost`, or else around what adds to the workspace."""
        shared, self.left = self.left, []
        terms = tuple(Present(n, self._term(n, shared, innermost)) for n in range(len(self.problem.terms)))
        return terms[0] if len(terms) == 1 else Sequence(terms)

    def _term(self, number: int, shared: list[list[tuple[int, IndexVar]]], innermost: Stmt | None) -> Stmt:
        term = self.problem.terms[number]
        left = {n: list(shared[n]) for n in term.patterns}
        bound = set(self.schedule.order)
        loops: list[tuple[IndexVar, Stored | Range]] = []
        drivers = {(var, pattern) for var, pattern in self.schedule.drivers if pattern in term.patterns}
        for var in self.schedule.own[number]:
            loops += self._bind(var, left, bound, drivers)
        self.left += left.values()
        stmt = innermost or Assign(self.row.access(), True, term.factors, term.coefficient)
        for var, domain in reversed(loops):
            stmt = Forall(var, domain, stmt)
        return stmt

    def _bind(
        self,
        var: IndexVar,
        left: dict[int, list[tuple[int, IndexVar]]],
        bound: set[IndexVar],
        drivers: set[tuple[IndexVar, int]],
    ) -> list[tuple[IndexVar, Stored | Range]]:
        """One loop over `var`, then lookups in all levels whose variable is bound."""
        ready = [n for n, levels in left.items() if levels and levels[0][1] == var]
        ready.sort(key=lambda n: (self._dense(n, left[n][0][0]), (var, n) not in drivers))
        loops: list[tuple[IndexVar, Stored | Range]] = [(var, Range())]
        if ready:
            loops = [(var, Stored(ready[0], left[ready[0]].pop(0)[0]))]
        bound.add(var)
        for n, levels in left.items():
            while levels and levels[0][1] in bound:
                level, name = levels.pop(0)
                loops.append((name, Stored(n, level, bound=True)))
        return loops

    def _dense(self, pattern: int, level: int) -> bool:
        return self.problem.patterns[pattern].levels[level].kind is LevelKind.DENSE
