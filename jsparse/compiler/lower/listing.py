"""Lists of coordinates: counted chunk by chunk, then written from where each chunk's part begins.

A chunk keeps its place in a register. The same loops run for both, divided alike, since the division depends on the
patterns alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from jsparse.compiler.kernel.algebra import add, block, cast, const, mul, zero
from jsparse.compiler.kernel.nodes import Block, Compare, Declare, Expr, Extent, For, If, Set, Stmt, Store, Var
from jsparse.compiler.kernel.types import I64
from jsparse.compiler.loops.nest import Append, Forall, LoopNest, Row, Where
from jsparse.compiler.loops.nest import Stmt as LoopStmt
from jsparse.compiler.lower.chunks import MAX_CHUNKS, Partials
from jsparse.compiler.lower.rows import new_row, with_memory
from jsparse.compiler.lower.scope import Scope

if TYPE_CHECKING:
    from jsparse.compiler.lower.storage import Storage

__all__ = ["append", "listing"]


class Lowering(Protocol):
    """What lowers the loops."""

    def stmt(self, stmt: LoopStmt, scope: Scope) -> Stmt:
        """Any statement."""

    def forall(self, loop: Forall, scope: Scope, partials: Partials | None) -> Stmt:
        """A loop; its chunks as `partials` says."""


def listing(nest: LoopNest, storage: Storage, lowerer: Lowering) -> Stmt:
    """The kernel's body: the loops, in each chunk of which a register holds the place of the next column."""
    outer = Scope(storage)
    place = outer.fresh("column")
    scope = outer.with_register(nest.problem.assignment.target.tensor, place)
    counts = nest.problem.wanted in ("counts", "bounds")
    row = _row(nest.body)

    if row is not None:
        scope = new_row(scope, row)

    def own(chunk: Expr, loops: Stmt) -> Stmt:
        worked = loops if row is None else with_memory(scope, row, loops)
        if counts:
            return block(Declare(place, zero(I64)), worked, Store(storage.target, chunk, place))
        starts = storage.by_name["starts"]
        start = Declare(place, scope.load_index(starts, chunk))
        if not starts.written:
            return block(start, worked)
        return block(start, If(Compare("<=", const(0), place), block(worked, Store(starts, chunk, place))))

    loop = nest.body
    if isinstance(loop, Forall) and loop.parallel is not None:
        body = lowerer.forall(loop, scope, Partials(own, lambda chunks: Block(())))
    else:
        body = own(const(0), lowerer.stmt(loop, scope))
    return block(_clear(storage, outer.fresh("n")), body) if counts else body


def _row(stmt: LoopStmt) -> Row | None:
    """The row over an index that the nest works in."""
    match stmt:
        case Forall(body=body):
            return _row(body)
        case Where(workspace=Row(var=str()) as row):
            return row
    return None


def _clear(storage: Storage, n: Var) -> Stmt:
    """There may be fewer chunks than there is room for."""
    return For(n, const(0), const(MAX_CHUNKS), Store(storage.target, n, zero(I64)))


def append(stmt: Append, scope: Scope) -> Stmt:
    """Write the coordinates, and the value, at the register's place, unless they are only counted, and move on."""
    storage = scope.storage
    place = scope.registers[stmt.target.tensor]
    stores: list[Stmt] = []
    if storage.problem.wanted in ("coordinates", "entries"):
        columns = storage.columns
        for row, var in enumerate(stmt.target.indices):
            narrow = cast(scope.indices[str(var)], columns.type.dtype)
            stores.append(Store(columns, add(mul(const(row), Extent(columns, 1)), place), narrow))
    if stmt.value is not None:
        value = cast(scope.registers[stmt.value.tensor], storage.target.type.dtype)
        stores.append(Store(storage.target, place, value))
    return block(*stores, Set(place, add(place, const(1))))
