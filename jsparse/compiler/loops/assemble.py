"""Loop nests that assemble a sparse result, its entries in order: problem + schedule → loop nest.

The shared loops run over the target's outermost indices, in the order in which it is to be stored, wherever any term
has entries. Inside, the loops of each term add to one sparse workspace: a row over the remaining index, or a scalar.
Then the workspace's nonzeros are appended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from jsparse.compiler.loops.blocked_sums import TOTAL
from jsparse.compiler.loops.domain import Coiteration, WorkspaceNonzeros
from jsparse.compiler.loops.level_iterators import LevelIterators, Loop
from jsparse.compiler.loops.nest import (
    AppendCoord,
    AppendEdges,
    Assign,
    Forall,
    LoopNest,
    Parallel,
    ReserveUpperBound,
    Sequence,
    SparseWorkspace,
    Stmt,
    TermGuard,
    Where,
)
from jsparse.compiler.output import Count
from jsparse.compiler.problem import Problem
from jsparse.compiler.scalar import Scalar
from jsparse.compiler.schedule.schedule import Schedule
from jsparse.compiler.statement import Statement, as_added
from jsparse.notation.assignment import IndexVar

__all__ = ["assemble_loops"]


def assemble_loops(problem: Problem, schedule: Schedule) -> LoopNest:
    """The loop nest that `schedule` describes. Raises ValueError if levels cannot be walked in its order."""
    return _Assembler(problem, schedule).build()


class _Assembler:
    def __init__(self, problem: Problem, schedule: Schedule) -> None:
        self.problem, self.schedule = problem, schedule
        self.target, self.dtype = problem.target, problem.accumulator
        self.iterators = LevelIterators(problem, schedule.merge_leaders)
        over = [str(v) for v in self.target.indices if v not in schedule.order]
        if len(over) > 1:
            raise ValueError(f"a row has one index, but {over} are left of {self.target}")
        dtype = self.dtype if problem.wants_values else ""
        if dtype == "float32" and problem.monoid.add == "+" and any(schedule.own):
            dtype = TOTAL  # a row has no blocks (`blocked_sums`); float64 rows cost no measurable time
        self.row = SparseWorkspace("row" if over else "acc", dtype, problem.monoid, over[0] if over else None)

    def build(self) -> LoopNest:
        return LoopNest(self.problem, self._shared(0))

    def _shared(self, depth: int) -> Stmt:
        if depth == len(self.schedule.order):
            return self._reserved() if self._bounds else self._workspace()
        var = self.schedule.order[depth]
        met = self.iterators.coiterate(var)
        terms = tuple(tuple(met[n] for n in term.patterns if n in met) for term in self.problem.terms)
        if self._bounds and depth + 1 == len(self.target.indices) > 1:
            return ReserveUpperBound(var, terms)
        parallel = Parallel("owned", self.schedule.grain) if var == self.schedule.parallel else None
        body = self._shared(depth + 1)
        if self.problem.builds_levels and depth + 1 < len(self.target.indices):
            body = AppendEdges(self.target, self.schedule.order[: depth + 1], body)
        return Forall(var, Coiteration(terms), body, parallel)

    @property
    def _bounds(self) -> bool:
        return self.problem.output == Count(exact=False)

    def _reserved(self) -> Stmt:
        """An upper bound of the row's nonzeros: for each term, the entries of the row's index that its loops reach."""
        if self.row.var is None:
            return AppendCoord(self.target)
        row = self.row.var
        return self._each(lambda n: self._above(n, row))

    def _above(self, number: int, row: IndexVar) -> Stmt:
        """A term's loops around that over the row."""
        iterators = self.iterators.part(self.problem.terms[number].patterns)
        own = self.schedule.own[number]
        outer = [loop for var in own[: own.index(row)] for loop in iterators.bind(var)]
        return self._nested(outer, ReserveUpperBound(row, (tuple(iterators.coiterate(row).values()),)))

    def _workspace(self) -> Stmt:
        value = self.row.access() if self.problem.wants_values else None
        append: Stmt = AppendCoord(self.target, value, self._last if self.problem.builds_levels else None)
        if self.row.var is not None:
            append = Forall(self.row.var, WorkspaceNonzeros(self.row.name), append)
        return Where(self.row, self._each(self._term), append)

    @property
    def _last(self) -> IndexVar | None:
        """The target's innermost index, as it stores them."""
        return self.row.var or self.schedule.order[-1]

    def _each(self, stmt: Callable[[int], Stmt]) -> Stmt:
        """`stmt` of each term, guarded by the term's presence."""
        terms = tuple(TermGuard(n, stmt(n)) for n in range(len(self.problem.terms)))
        return terms[0] if len(terms) == 1 else Sequence(terms)

    def _term(self, number: int) -> Stmt:
        """A term's loops around the assignment that adds to the workspace."""
        term = self.problem.terms[number]
        iterators = self.iterators.part(term.patterns)
        loops = [loop for var in self.schedule.own[number] for loop in iterators.bind(var)]
        iterators.check()
        return self._nested(loops, Assign(self.row.access(), self._value(term), self.dtype, self.problem.monoid))

    def _value(self, term: Statement) -> Scalar | None:
        """What a term adds; None if no values are wanted."""
        if term.value is None or not self.problem.wants_values:
            return None
        return as_added(term.value, self.problem.monoid, self.problem.type_of[self.target.tensor].dtype, self.dtype)

    def _nested(self, loops: Iterable[Loop], stmt: Stmt) -> Stmt:
        for loop in reversed(list(loops)):
            stmt = Forall(loop.var, loop.domain, stmt, None, 0 if loop.filters else self.schedule.prefetch)
        return stmt
