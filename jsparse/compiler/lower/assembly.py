"""Lists of coordinates: counted chunk by chunk, then written from where each chunk's part begins.

A chunk keeps its places in registers: that of the next column, or, where the target's levels are built, those of the
next item of each level. The same loops run for all that may be wanted, divided alike, since the division depends on the
patterns alone.

Levels are built like the nodes of a tree (the edges of Chou et al., 2018): an item of a level is a coordinate and where
the items below it end. Items without anything below are never written.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Protocol

from jsparse.compiler.kernel.algebra import add, block, cast, const, less, minimum, mul, zero
from jsparse.compiler.kernel.nodes import Block, Compare, Declare, Expr, Extent, For, If, Let, Set, Stmt, Store, Var
from jsparse.compiler.kernel.types import I64
from jsparse.compiler.loops.nest import (
    AppendCoord,
    AppendEdges,
    Forall,
    LoopNest,
    ReserveUpperBound,
    SparseWorkspace,
    Where,
)
from jsparse.compiler.loops.nest import Stmt as LoopStmt
from jsparse.compiler.lower.chunks import MAX_CHUNKS, Partials
from jsparse.compiler.lower.levels import LevelWalk
from jsparse.compiler.lower.scope import Scope
from jsparse.compiler.lower.workspaces import new_workspace, with_memory
from jsparse.compiler.problem import Problem

if TYPE_CHECKING:
    from jsparse.compiler.lower.storage import Storage

__all__ = ["append", "append_edges", "listing", "reserve"]


class Lowering(Protocol):
    """What lowers the loops."""

    def stmt(self, stmt: LoopStmt, scope: Scope) -> Stmt:
        """Any statement."""

    def forall(self, loop: Forall, scope: Scope, partials: Partials | None) -> Stmt:
        """A loop; its chunks as `partials` says."""


def listing(nest: LoopNest, storage: Storage, lowerer: Lowering) -> Stmt:
    """The kernel's body: the loops, in each chunk of which registers hold the places of what comes next."""
    scope = outer = Scope(storage)
    places = [outer.fresh("place") for _ in range(_depth(nest.problem))]
    for level, place in enumerate(places):
        scope = scope.with_register(_place(nest.problem, level), place)
    row = _row(nest.body)
    if row is not None:
        scope = new_workspace(scope, row)

    def own(chunk: Expr, loops: Stmt) -> Stmt:
        worked = loops if row is None else with_memory(scope, row, loops)
        return _counted(storage, places, chunk, worked) if _counts(nest) else _placed(scope, places, chunk, worked)

    loop = nest.body
    if isinstance(loop, Forall) and loop.parallel is not None:
        body = lowerer.forall(loop, scope, Partials(own, lambda chunks: Block(())))
    else:
        body = own(const(0), lowerer.stmt(loop, scope))
    return block(_clear(storage, outer.fresh("n")), body) if _counts(nest) else body


def _counts(nest: LoopNest) -> bool:
    return nest.problem.wanted in ("counts", "bounds")


def _counted(storage: Storage, places: list[Var], chunk: Expr, loops: Stmt) -> Stmt:
    """The loops of a chunk whose columns are counted."""
    return block(Declare(places[-1], zero(I64)), loops, Store(storage.target, chunk, places[-1]))


def _placed(scope: Scope, places: list[Var], chunk: Expr, loops: Stmt) -> Stmt:
    """The loops of a chunk that writes from its starts on, which become its ends; if these can be written, a chunk may
    be left out."""
    starts = scope.storage.by_name["starts"]
    at = [add(const(level * MAX_CHUNKS), chunk) for level in range(len(places))]
    begin = [Declare(place, scope.load_index(starts, here)) for place, here in zip(places, at, strict=True)]
    if not starts.written:
        return block(*begin, loops)
    end = [Store(starts, here, place) for place, here in zip(places, at, strict=True)]
    return block(*begin, If(Compare("<=", const(0), places[-1]), block(loops, *end)))


def _depth(problem: Problem) -> int:
    """How many lists are written: one for each level that is built."""
    return len(problem.assignment.target.indices) if problem.builds_levels else 1


def _place(problem: Problem, level: int) -> str:
    """The register that holds the place of a level's next item; of the last level, of the next column."""
    name = problem.assignment.target.tensor
    return name if level == _depth(problem) - 1 else f"{name}'s level {level}"


def _row(stmt: LoopStmt) -> SparseWorkspace | None:
    """The row over an index that the nest works in."""
    match stmt:
        case Forall(body=body) | AppendEdges(body=body):
            return _row(body)
        case Where(workspace=SparseWorkspace(var=str()) as row):
            return row
    return None


def _clear(storage: Storage, n: Var) -> Stmt:
    """There may be fewer chunks than there is room for."""
    return For(n, const(0), const(MAX_CHUNKS), Store(storage.target, n, zero(I64)))


def append(stmt: AppendCoord, scope: Scope) -> Stmt:
    """Write the coordinates, and the value, at the register's place, unless they are only counted, and move on."""
    storage = scope.storage
    place = scope.registers[stmt.target.tensor]
    stores: list[Stmt] = []
    if storage.problem.builds_levels:
        stores.append(_coordinate(scope, len(stmt.target.indices) - 1, str(stmt.last), place))
    elif storage.problem.wanted == "coordinates":
        stores += [_coordinate(scope, row, str(var), place) for row, var in enumerate(stmt.target.indices)]
    if stmt.value is not None:
        value = cast(scope.registers[stmt.value.tensor], storage.target.type.dtype)
        stores.append(Store(storage.target, place, value))
    return block(*stores, Set(place, add(place, const(1))))


def reserve(stmt: ReserveUpperBound, scope: Scope) -> Stmt:
    """Move on by the lengths of segments."""
    place = scope.registers[scope.storage.problem.assignment.target.tensor]
    before: list[Stmt] = []
    every: list[Expr] = []
    for term in stmt.terms:
        lengths: list[Expr] = []
        for level in term:
            prelude, length = LevelWalk(scope, level, stmt.var).length()
            before += prelude
            lengths.append(length)
        every.append(reduce(minimum, lengths) if lengths else scope.storage.size(stmt.var))
    return block(*before, Set(place, add(place, reduce(add, every))))


def append_edges(stmt: AppendEdges, scope: Scope, body: Stmt) -> Stmt:
    """The body; then, if items were written a level below, one more of this level."""
    place, below = (scope.registers[_place(scope.storage.problem, stmt.level + n)] for n in (0, 1))
    before, ends = scope.fresh("before"), scope.storage.by_name["ends"]
    item = block(
        _coordinate(scope, stmt.level, stmt.indices[-1], place),
        Store(ends, add(mul(const(stmt.level), Extent(ends, 1)), place), below),
        Set(place, add(place, const(1))),
    )
    return block(Let(before, below), body, If(less(before, below), item))


def _coordinate(scope: Scope, row: int, var: str, place: Expr) -> Stmt:
    columns = scope.storage.columns
    narrow = cast(scope.indices[var], columns.type.dtype)
    return Store(columns, add(mul(const(row), Extent(columns, 1)), place), narrow)
