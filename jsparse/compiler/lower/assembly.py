"""Assembly of sparse results: the symbolic phase counts each chunk's entries, the numeric phase writes them.

Both phases run the same loops in the same chunks, because the division into chunks depends on patterns alone.

Levels are built like the nodes of a tree (the edges of Chou et al., 2018). An item of a level is a coordinate and the
end of the items below it. An item that would have no items below it is never written. A chunk keeps its write positions
in registers: one for the next item of each level, or only one for the next entry if no levels are built.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Protocol

from jsparse.compiler.dtypes import I64
from jsparse.compiler.kernel import nodes as ir
from jsparse.compiler.kernel.algebra import add, block, cast, const, less, minimum, mul, zero
from jsparse.compiler.loops.nest import (
    MAX_CHUNKS,
    AppendCoord,
    AppendEdges,
    Forall,
    LoopNest,
    ReserveUpperBound,
    Scatter,
    SparseWorkspace,
    Where,
)
from jsparse.compiler.loops.nest import Stmt as LoopStmt
from jsparse.compiler.lower.chunks import Partials
from jsparse.compiler.lower.levels import LevelWalk
from jsparse.compiler.lower.scope import Scope
from jsparse.compiler.lower.workspaces import lower_scatter, new_workspace, with_memory
from jsparse.compiler.output_kind import Coordinates, Count, Write
from jsparse.compiler.problem import Problem

if TYPE_CHECKING:
    from jsparse.compiler.lower.storage import Storage

SMALL = 2**20  # sums of smaller sizes do not exceed 64 bits before loops end
UNBOUNDED = 2**61  # more entries than there is memory for


class Lowering(Protocol):
    """The interface of the object that lowers loop nests: the methods that this module calls."""

    def stmt(self, stmt: LoopStmt, scope: Scope) -> ir.Stmt:
        """Lower any statement."""

    def forall(self, loop: Forall, scope: Scope, partials: Partials | None) -> ir.Stmt:
        """Lower a loop. If the loop is divided into chunks, `partials` adds code around the loops of each chunk."""


def listing(nest: LoopNest, storage: Storage, lowerer: Lowering) -> ir.Stmt:
    """The kernel's body: the loops, with each chunk's write positions in registers."""
    scope = outer = Scope(storage)
    cursors = [outer.fresh("cursor") for _ in range(_depth(nest.problem))]
    for level, cursor in enumerate(cursors):
        scope = scope.with_register(_cursor(nest.problem, level), cursor)
    row = _row(nest.body)
    if row is not None:
        scope = new_workspace(scope, row)

    def own(chunk: ir.Expr, loops: ir.Stmt) -> ir.Stmt:
        worked = loops if row is None else with_memory(scope, row, loops)
        return (
            _count_entries(storage, cursors, chunk, worked)
            if _counts(nest)
            else _write_entries(scope, cursors, chunk, worked)
        )

    def lower_stmt(stmt: LoopStmt, scope: Scope) -> ir.Stmt:
        if isinstance(stmt, Scatter):
            return lower_scatter(stmt, scope, lambda inner: lower_stmt(stmt.body, inner))
        if isinstance(stmt, Forall) and stmt.parallel is not None:
            return lowerer.forall(stmt, scope, Partials(own, lambda chunks: ir.Block(())))
        return own(const(0), lowerer.stmt(stmt, scope))

    body = lower_stmt(nest.body, scope)
    return block(_clear(storage, outer.fresh("n")), body) if _counts(nest) else body


def _counts(nest: LoopNest) -> bool:
    return isinstance(nest.problem.output, Count)


def _count_entries(storage: Storage, cursors: list[ir.Var], chunk: ir.Expr, loops: ir.Stmt) -> ir.Stmt:
    """Set a chunk's count of entries to zero, run the loops, which advance the count, and store the count."""
    return block(ir.Declare(cursors[-1], zero(I64)), loops, ir.Store(storage.target, chunk, cursors[-1]))


def _write_entries(scope: Scope, cursors: list[ir.Var], chunk: ir.Expr, loops: ir.Stmt) -> ir.Stmt:
    """Return a chunk's loops, whose write positions begin at the chunk's start positions in the buffer `starts`.

    If the kernel also writes `starts`, it stores the chunk's end positions there, and skips a chunk with a negative
    start position.
    """
    starts = scope.storage.by_name["starts"]
    at = [add(const(level * MAX_CHUNKS), chunk) for level in range(len(cursors))]
    begin = [ir.Declare(cursor, scope.load_index(starts, here)) for cursor, here in zip(cursors, at, strict=True)]
    if not starts.written:
        return block(*begin, loops)
    end = [ir.Store(starts, here, cursor) for cursor, here in zip(cursors, at, strict=True)]
    return block(*begin, ir.If(ir.Compare("<=", const(0), cursors[-1]), block(loops, *end)))


def _depth(problem: Problem) -> int:
    """The number of write positions of a chunk: one for each level if levels are built, else 1."""
    return len(problem.target.indices) if problem.builds_levels else 1


def _cursor(problem: Problem, level: int) -> str:
    """The name of the register with the write position of a level. The last level's items are the entries."""
    name = problem.target.tensor
    return name if level == _depth(problem) - 1 else f"{name}'s level {level}"


def _row(stmt: LoopStmt) -> SparseWorkspace | None:
    """The nest's sparse workspace over an index, if it has one."""
    match stmt:
        case Forall(body=body) | AppendEdges(body=body) | Scatter(body=body):
            return _row(body)
        case Where(workspace=SparseWorkspace(var=str()) as row):
            return row
    return None


def _clear(storage: Storage, n: ir.Var) -> ir.Stmt:
    """Set all `MAX_CHUNKS` counts to zero, because there may be fewer chunks than counts."""
    return ir.For(n, const(0), const(MAX_CHUNKS), ir.Store(storage.target, n, zero(I64)))


def append(stmt: AppendCoord, scope: Scope) -> ir.Stmt:
    """Write the coordinates and the value, unless entries are only counted, and advance the write position."""
    storage = scope.storage
    cursor = scope.registers[stmt.target.tensor]
    stores: list[ir.Stmt] = []
    if storage.problem.builds_levels:
        stores.append(_coordinate(scope, len(stmt.target.indices) - 1, str(stmt.last), cursor))
    elif storage.problem.output == Write(Coordinates.COLUMNS):
        stores += [_coordinate(scope, row, str(var), cursor) for row, var in enumerate(stmt.target.indices)]
    if stmt.value is not None:
        value = cast(scope.registers[stmt.value.tensor], storage.target.type.dtype)
        stores.append(ir.Store(storage.target, cursor, value))
    return block(*stores, ir.Set(cursor, add(cursor, const(1))))


def reserve(stmt: ReserveUpperBound, scope: Scope) -> ir.Stmt:
    """Advance the count of entries by an upper bound, which is computed from the lengths of segments."""
    cursor = scope.registers[scope.storage.problem.target.tensor]
    before: list[ir.Stmt] = []
    every: list[ir.Expr] = []
    for term in stmt.terms:
        lengths: list[ir.Expr] = []
        for level in term:
            prelude, length = LevelWalk(scope, level, stmt.var).length()
            before += prelude
            lengths.append(length)
        every.append(reduce(minimum, lengths) if lengths else scope.storage.size(stmt.var))
    size = scope.storage.problem.size[stmt.var]
    if size is not None and size <= SMALL:
        return block(*before, ir.Set(cursor, add(cursor, reduce(add, every))))
    return block(*before, *(ir.Set(cursor, minimum(add(cursor, length), const(UNBOUNDED))) for length in every))


def append_edges(stmt: AppendEdges, scope: Scope, body: ir.Stmt) -> ir.Stmt:
    """Run the body. If it wrote items of the level below, write one coordinate of this level and the items' end."""
    cursor, below = (scope.registers[_cursor(scope.storage.problem, stmt.level + n)] for n in (0, 1))
    before, ends = scope.fresh("before"), scope.storage.by_name["ends"]
    item = block(
        _coordinate(scope, stmt.level, stmt.indices[-1], cursor),
        ir.Store(ends, add(mul(const(stmt.level), ir.Extent(ends, 1)), cursor), below),
        ir.Set(cursor, add(cursor, const(1))),
    )
    return block(ir.Let(before, below), body, ir.If(less(before, below), item))


def _coordinate(scope: Scope, row: int, var: str, cursor: ir.Expr) -> ir.Stmt:
    columns = scope.storage.columns
    narrow = cast(scope.indices[var], columns.type.dtype)
    return ir.Store(columns, add(mul(const(row), ir.Extent(columns, 1)), cursor), narrow)
