"""Assembly of sparse results: the symbolic phase counts each chunk's entries, the numeric phase writes them.

A row of the result, or an entry if shared loops fix all coordinates, is added up in a workspace (`lower.workspaces`)
before it is appended. Both phases run the same loops in the same chunks, because the division into chunks depends on
patterns alone.

Levels are built like the nodes of a tree (the edges of Chou et al., 2018). An item of a level is a coordinate and the
end of the items below it. An item that would have no items below it is never written. A chunk keeps its write positions
in registers: one for the next item of each level, or only one for the next entry if no levels are built.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from jsparse.compiler.dtypes import I64
from jsparse.compiler.kernel import nodes as ir
from jsparse.compiler.kernel.algebra import add, block, cast, const, less, minimum, mul, sub, zero
from jsparse.compiler.loops import nest
from jsparse.compiler.loops.nest import MAX_CHUNKS, Forall
from jsparse.compiler.lower.chunks import Lowerer, Partials
from jsparse.compiler.lower.levels import LevelWalk
from jsparse.compiler.lower.scope import Scope
from jsparse.compiler.lower.workspaces import lower_scatter, new_workspace, with_memory
from jsparse.compiler.output_kind import Coordinates, Count, Write
from jsparse.compiler.problem import Problem

if TYPE_CHECKING:
    from jsparse.compiler.lower.storage import Storage

SMALL = 2**20  # sums of smaller sizes do not exceed 64 bits before loops end
UNBOUNDED = 2**61  # more entries than there is memory for


def listing(loops: nest.LoopNest, storage: Storage, lowerer: Lowerer) -> ir.Stmt:
    """The kernel's body: the loops, with each chunk's write positions in registers."""
    problem, scope, row = loops.problem, Scope(storage), None
    cursors = [scope.fresh("cursor") for _ in range(_depth(problem))]
    for level, cursor in enumerate(cursors):
        scope = scope.with_register(_cursor(problem, level), cursor)
    counts, outer = isinstance(problem.output, Count), scope
    for stmt in nest.statements(loops.body):
        workspace = stmt.workspace if isinstance(stmt, nest.Where) else None
        if isinstance(workspace, nest.SparseWorkspace) and workspace.var is not None:
            scope, row = new_workspace(outer, workspace), workspace

    def with_cursors(chunk: ir.Expr, inner: ir.Stmt) -> ir.Stmt:
        inner = inner if row is None else with_memory(scope, row, inner)
        if counts:  # the loops advance the count of a chunk
            return block(ir.Declare(cursors[-1], zero(I64)), inner, ir.Store(storage.target, chunk, cursors[-1]))
        # Write positions begin at the chunk's start positions in the buffer `starts`. If the kernel also writes it, it
        # stores the chunk's end positions there, and skips a chunk with a negative start position.
        starts = storage.by_name["starts"]
        places = [(cursor, add(const(level * MAX_CHUNKS), chunk)) for level, cursor in enumerate(cursors)]
        begin = [ir.Declare(cursor, scope.load_index(starts, place)) for cursor, place in places]
        if not starts.written:
            return block(*begin, inner)
        end = [ir.Store(starts, place, cursor) for cursor, place in places]
        return block(*begin, ir.If(ir.Compare("<=", const(0), cursors[-1]), block(inner, *end)))

    def lower_stmt(stmt: nest.Stmt, scope: Scope) -> ir.Stmt:
        if isinstance(stmt, nest.Scatter):
            return lower_scatter(stmt, scope, lambda inner: lower_stmt(stmt.body, inner))
        if isinstance(stmt, Forall) and stmt.parallel is not None:
            return lowerer.forall(stmt, scope, Partials(with_cursors, lambda chunks: ir.Block(())))
        return with_cursors(const(0), lowerer.stmt(stmt, scope))

    body = lower_stmt(loops.body, scope)
    if not counts:
        return body
    n = outer.fresh("n")  # all counts are set to zero, because there may be fewer chunks than counts
    return block(ir.For(n, const(0), const(MAX_CHUNKS), ir.Store(storage.target, n, zero(I64))), body)


def _depth(problem: Problem) -> int:
    """The number of write positions of a chunk: one for each level if levels are built, else 1."""
    return len(problem.target.indices) if problem.builds_levels else 1


def _cursor(problem: Problem, level: int) -> str:
    """The name of the register with the write position of a level. The last level's items are the entries."""
    name = problem.target.tensor
    return name if level == _depth(problem) - 1 else f"{name}'s level {level}"


def append(stmt: nest.AppendCoord, scope: Scope) -> ir.Stmt:
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


def reserve(stmt: nest.ReserveUpperBound, scope: Scope) -> ir.Stmt:
    """Advance the count of entries by an upper bound, which is computed from the lengths of segments."""
    cursor = scope.registers[scope.storage.problem.target.tensor]
    before: list[ir.Stmt] = []
    every: list[ir.Expr] = []
    for term in stmt.terms:
        lengths: list[ir.Expr] = []
        for level in term:
            walk = LevelWalk(scope, level, stmt.var)
            if walk.kind.is_full:
                lengths.append(walk.extent())
            else:
                before += walk.segment.prelude
                lengths.append(ir.Binary("max", sub(walk.segment.stop, walk.segment.first), const(0)))
        every.append(reduce(minimum, lengths) if lengths else scope.storage.size(stmt.var))
    size = scope.storage.problem.size[stmt.var]
    if size is not None and size <= SMALL:
        return block(*before, ir.Set(cursor, add(cursor, reduce(add, every))))
    return block(*before, *(ir.Set(cursor, minimum(add(cursor, length), const(UNBOUNDED))) for length in every))


def append_edges(stmt: nest.AppendEdges, scope: Scope, body: ir.Stmt) -> ir.Stmt:
    """Run the body. If it wrote items of the level below, write one coordinate of this level and the items' end."""
    cursor, below = (scope.registers[_cursor(scope.storage.problem, stmt.level + n)] for n in (0, 1))
    # The comparison of the write position before and after makes the items of empty segments vanish, level by level.
    before, ends = scope.fresh("before"), scope.storage.by_name["ends"]
    item = block(
        _coordinate(scope, stmt.level, stmt.indices[-1], cursor),
        ir.Store(ends, add(mul(const(stmt.level), ir.Extent(ends, 1)), cursor), below),
        ir.Set(cursor, add(cursor, const(1))),
    )
    return block(ir.Bind(before, below), body, ir.If(less(before, below), item))


def _coordinate(scope: Scope, row: int, var: str, cursor: ir.Expr) -> ir.Stmt:
    columns = scope.storage.columns
    narrow = cast(scope.indices[var], columns.type.dtype)
    return ir.Store(columns, add(mul(const(row), ir.Extent(columns, 1)), cursor), narrow)
