"""Loop nests that assemble a sparse result by appending entries in order.

All terms share the outer loops. These shared loops run over the target's outermost indices, in the order in which the
target will be stored. They visit the coordinates at which any term has entries. Inside the shared loops, each term has
loops of its own, which add to one sparse workspace. The workspace is a row over the target's last index, or a scalar.
After the terms, the workspace's nonzeros are appended to the target.
"""

from __future__ import annotations

from dataclasses import replace

from jsparse.base.dataclass import dataclass
from jsparse.compiler.loops import nest
from jsparse.compiler.loops.blocked_sums import TOTAL
from jsparse.compiler.loops.canonical import LevelIterators, Loop
from jsparse.compiler.loops.chain import loops_over, nest_loops
from jsparse.compiler.loops.domain import Coiteration, LevelIteration, WorkspaceNonzeros
from jsparse.compiler.loops.nest import AppendCoord, Assign, Forall, ReserveUpperBound, Scatter, Stmt, TermGuard, Where
from jsparse.compiler.output_kind import Count
from jsparse.compiler.problem import Problem
from jsparse.compiler.statement import Statement, as_added
from jsparse.notation.assignment import IndexVar

ROW, SCALAR = "row", "acc"


@dataclass(frozen=True, slots=True)
class AssemblyShape:
    """The decisions that determine the loops of an assembly.

    Attributes:
        order: the target's indices in the order in which they are stored.
        row: whether the workspace is a row over the last index. If so, shared loops run over the other indices only.
        own: for each term, the variables of its own loops, inside the shared loops.
        merge_leaders: pairs (variable, pattern). Several patterns of a term meet in a loop over the variable, and the
            loop walks this pattern. The loop is one of the term's own loops. If there is only one term, it may also be
            the last shared loop.
    """

    order: tuple[IndexVar, ...]
    row: bool
    own: tuple[tuple[IndexVar, ...], ...]
    merge_leaders: tuple[tuple[IndexVar, int], ...] = ()

    @property
    def vars_of_shared_loops(self) -> tuple[IndexVar, ...]:
        return self.order[: len(self.order) - self.row]


def canonical_assembly(problem: Problem) -> AssemblyShape:
    """Return the shape with shared loops over all indices of the target, in their order.

    Each term's own loops walk its patterns in the order in which they are stored.
    """
    order = tuple(map(str, problem.target.indices))
    walked = ((v for n in term.patterns for v in problem.level_variables[n]) for term in problem.terms)
    return AssemblyShape(order, False, tuple(tuple(dict.fromkeys(v for v in w if v not in order)) for w in walked))


def assembly_nest(problem: Problem, shape: AssemblyShape) -> nest.LoopNest:
    """The loop nest of an assembly of this shape. Raises ValueError if levels cannot be walked in the shape's order."""
    return nest.LoopNest(problem, _Assembler(problem, shape).build_shared_loops(0))


def shape_of(loops: nest.LoopNest) -> AssemblyShape:
    """The shape of an assembly's loop nest."""
    order, of_terms, leaders = list[IndexVar](), list[tuple[IndexVar, ...]](), list[tuple[IndexVar, int]]()
    iterators, stmt = LevelIterators(loops.problem), loops.body
    while not isinstance(stmt, Where):
        if isinstance(stmt, Forall):
            order.append(stmt.var)
            assert isinstance(stmt.domain, Coiteration)
            walked = dict.fromkeys(level.pattern for term in stmt.domain.terms for level in term)
            if len(walked) < len(iterators.patterns_at(stmt.var)):
                leaders += [(stmt.var, pattern) for pattern in walked]
            iterators.coiterate(stmt.var, walked)
        assert isinstance(stmt, Forall | nest.AppendEdges | Scatter)
        stmt = stmt.body
    assert isinstance(stmt.workspace, nest.SparseWorkspace)
    row = stmt.workspace.var
    terms = stmt.producer.stmts if isinstance(stmt.producer, nest.Sequence) else (stmt.producer,)
    for term in terms:
        assert isinstance(term, TermGuard)
        walks = [x for x in nest.statements(term.body) if isinstance(x, Forall) and not x.is_lookup]
        of_terms.append(tuple(loop.var for loop in walks))
        leaders += [(loop.var, loop.domain.pattern) for loop in walks if isinstance(loop.domain, LevelIteration)]
    every = (*order, *([] if row is None else [row]))
    return AssemblyShape(every, row is not None, tuple(of_terms), tuple(dict.fromkeys(leaders)))


def own_loops(problem: Problem, shape: AssemblyShape, term: int) -> list[Loop]:
    """Return a term's own loops inside the shared loops, including lookups."""
    iterators = LevelIterators(problem, shape.merge_leaders)
    for var in shape.vars_of_shared_loops:
        iterators.coiterate(var)
    part = iterators.part(problem.terms[term].patterns)
    loops = [*part.lookups(), *(loop for var in shape.own[term] for loop in part.bind(var))]
    part.check()
    return loops


class _Assembler:
    def __init__(self, problem: Problem, shape: AssemblyShape) -> None:
        self.problem, self.shape = problem, shape
        self.target, self.dtype = problem.target, problem.accumulator
        self.iterators = LevelIterators(problem, shape.merge_leaders)
        dtype = self.dtype if problem.wants_values else ""
        if dtype == "float32" and problem.monoid.add == "+" and any(shape.own):
            dtype = TOTAL  # a row has no blocks (`block_sums`); float64 rows cost no measurable time
        over = shape.order[-1] if shape.row else None
        self.row = nest.SparseWorkspace(ROW if shape.row else SCALAR, dtype, problem.monoid, over)

    def build_shared_loops(self, depth: int) -> Stmt:
        """Return the shared loops from this depth inward."""
        if depth == len(self.shape.vars_of_shared_loops):
            return self.workspace()
        var = self.shape.order[depth]
        met = self.iterators.coiterate(var)
        terms = tuple(tuple(met[n] for n in term.patterns if n in met) for term in self.problem.terms)
        body = self.build_shared_loops(depth + 1)
        if self.problem.builds_levels and depth + 1 < len(self.shape.order):
            body = nest.AppendEdges(self.target, self.shape.order[: depth + 1], body)
        return Forall(var, Coiteration(terms), body)

    def workspace(self) -> Stmt:
        value = self.row.access() if self.problem.wants_values else None
        last = self.shape.order[-1] if self.shape.order else None
        append: Stmt = AppendCoord(self.target, value, last if self.problem.builds_levels else None)
        if self.row.var is not None:
            append = Forall(self.row.var, WorkspaceNonzeros(self.row.name), append)
        terms = tuple(TermGuard(n, self.term(n, term)) for n, term in enumerate(self.problem.terms))
        return Where(self.row, terms[0] if len(terms) == 1 else nest.Sequence(terms), append)

    def term(self, number: int, term: Statement) -> Stmt:
        """A term's loops around the assignment that adds to the workspace: a value, if values are wanted."""
        value, monoid = term.value if self.problem.wants_values else None, self.problem.monoid
        if value is not None:
            value = as_added(value, monoid, self.problem.type_of[self.target.tensor].dtype, self.dtype)
        assign = Assign(self.row.access(), value, self.dtype, monoid)
        loops = own_loops(self.problem, self.shape, number)
        return nest_loops([Forall(loop.var, loop.domain, assign) for loop in loops], assign)


def with_upper_bounds(loops: nest.LoopNest) -> nest.LoopNest:
    """Replace the counting of entries by an upper bound of their number, if the count need not be exact.

    If the workspace is a row, each term's loop over the row is replaced by the lengths of the segments that the loop
    would walk. If the workspace is a scalar, the innermost shared loop is replaced in this way, unless it is the only
    one. If a term's own loops walk the same segment of the row in every iteration, the segment's length replaces all of
    the term's own loops.
    """
    if loops.problem.output != Count(exact=False):
        return loops
    shape = shape_of(loops)
    row = shape.order[-1] if shape.row else None

    def reserve_bounds(stmt: Stmt) -> Stmt:
        match stmt:
            case Forall(var=var, domain=Coiteration(terms=terms)) if row is None and var == shape.order[-1]:
                is_only = len(shape.order) == 1
                return nest.with_children(stmt, reserve_bounds) if is_only else ReserveUpperBound(var, terms)
            case Forall(var=var) if var == row:
                return ReserveUpperBound(var, (_levels_at_loop(stmt),))
            case TermGuard(body=body) if row is not None:
                walks = (x for x in nest.statements(body) if isinstance(x, Forall) and not x.is_lookup)
                met = next(_levels_at_loop(loop) for loop in walks if loop.var == row)
                fixed = tuple(x for x in met if not loops_over(body, x.pattern, x.level - 1))
                inner = ReserveUpperBound(row, (fixed,)) if fixed else reserve_bounds(body)
                return replace(stmt, body=inner)
            case Scatter(domain=domain, body=body):  # it may be that no coordinate is looked up any more
                inner = reserve_bounds(body)
                return replace(stmt, body=inner) if loops_over(inner, domain.pattern, domain.level) else inner
            case Where(producer=producer):
                return AppendCoord(loops.problem.target) if row is None else reserve_bounds(producer)
            case _:
                return nest.with_children(stmt, reserve_bounds)

    return replace(loops, body=reserve_bounds(loops.body))


def _levels_at_loop(loop: Forall) -> tuple[LevelIteration, ...]:
    """The levels that meet at a loop's variable. The loop walks one of them; lookups directly inside use the others."""
    met: dict[int, LevelIteration] = {}
    stmt: Stmt = loop
    while isinstance(stmt, Forall) and (stmt is loop or stmt.is_lookup):
        if isinstance(stmt.domain, LevelIteration) and stmt.var == loop.var:
            met.setdefault(stmt.domain.pattern, replace(stmt.domain, bound=False, scattered=False))
        stmt = stmt.body
    return tuple(met[n] for n in sorted(met))
