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
    Parent,
    Present,
    Row,
    Sequence,
    Stmt,
    Where,
    Written,
)
from jsparse.compiler.loops.walk import Walk
from jsparse.compiler.problem import Problem
from jsparse.compiler.schedule.schedule import Schedule
from jsparse.notation.assignment import IndexVar

__all__ = ["assemble_loops"]


def assemble_loops(problem: Problem, schedule: Schedule) -> LoopNest:
    """The loop nest that `schedule` describes. Raises ValueError if levels cannot be walked in its order."""
    return _Assembler(problem, schedule).build()


class _Assembler:
    def __init__(self, problem: Problem, schedule: Schedule) -> None:
        self.problem, self.schedule = problem, schedule
        self.target = problem.assignment.target
        self.walk = Walk(problem, schedule.drivers)
        over = [str(v) for v in self.target.indices if v not in schedule.order]
        if len(over) > 1:
            raise ValueError(f"a row has one index, but {over} are left of {self.target}")
        dtype = problem.accumulator if problem.wants_values else ""
        self.row = Row("row" if over else "acc", dtype, over[0] if over else None)

    def build(self) -> LoopNest:
        return LoopNest(self.problem, False, self._shared(0))

    def _shared(self, place: int) -> Stmt:
        if place == len(self.schedule.order):
            return self._workspace()
        var = self.schedule.order[place]
        met = self.walk.merge(var)
        terms = tuple(tuple(met[n] for n in term.patterns if n in met) for term in self.problem.terms)
        parallel = Parallel("owned", self.schedule.grain) if var == self.schedule.parallel else None
        body = self._shared(place + 1)
        if self.problem.builds_levels and place + 1 < len(self.target.indices):
            body = Parent(self.target, self.schedule.order[: place + 1], body)
        return Forall(var, Merged(terms), body, parallel)

    def _workspace(self) -> Stmt:
        if self.problem.wanted == "bounds":
            return self._terms(Append(self.target))
        value = self.row.access() if self.problem.wants_values else None
        append: Stmt = Append(self.target, value, self._last if self.problem.builds_levels else None)
        if self.row.var is not None:
            append = Forall(self.row.var, Written(self.row.name), append)
        return Where(self.row, self._terms(None), append)

    @property
    def _last(self) -> IndexVar | None:
        """The target's innermost index, as it stores them."""
        return self.row.var or self.schedule.order[-1]

    def _terms(self, innermost: Stmt | None) -> Stmt:
        """The loops of each term, around `innermost`, or else around what adds to the workspace."""
        terms = tuple(Present(n, self._term(n, innermost)) for n in range(len(self.problem.terms)))
        return terms[0] if len(terms) == 1 else Sequence(terms)

    def _term(self, number: int, innermost: Stmt | None) -> Stmt:
        term = self.problem.terms[number]
        walk = self.walk.part(term.patterns)
        loops = [loop for var in self.schedule.own[number] for loop in walk.bind(var)]
        walk.check()
        stmt = innermost or Assign(self.row.access(), True, term.factors, term.coefficient)
        for loop in reversed(loops):
            stmt = Forall(loop.var, loop.domain, stmt)
        return stmt
