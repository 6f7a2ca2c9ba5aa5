"""Panels: cache blocking of the reduction dimension.

All segments of a pattern are walked once per panel, each from where it ended in the panel before. The rows in a panel
are first packed into contiguous memory: rows at a stride of a power of two would map to the same few cache sets.
"""

from __future__ import annotations

from collections.abc import Callable

from jsparse.compiler.kernel.algebra import add, block, both, ceil_div, const, less, minimum, mul, sub
from jsparse.compiler.kernel.nodes import (
    Borrow,
    Buffer,
    Compare,
    Declare,
    Expr,
    Extent,
    For,
    If,
    Let,
    Load,
    LocalArray,
    Parallel,
    Set,
    Stmt,
    Store,
    While,
)
from jsparse.compiler.kernel.types import I64, Type
from jsparse.compiler.levels import PositionRange
from jsparse.compiler.loops.domain import LevelIteration, Panels, PositionPanels
from jsparse.compiler.loops.nest import Forall, Pack, children
from jsparse.compiler.loops.nest import Stmt as LoopStmt
from jsparse.compiler.lower.chunks import Partials, in_chunks
from jsparse.compiler.lower.levels import Entry, LevelWalk
from jsparse.compiler.lower.runs import in_run
from jsparse.compiler.lower.scope import Panel, Run, Scope
from jsparse.notation.assignment import Access, IndexVar

__all__ = ["pack", "packed", "panel_entries", "panels", "position_panels"]


def panels(
    loop: Forall, domain: Panels, scope: Scope, body: Callable[[Scope], Stmt], partials: Partials | None
) -> Stmt:
    """The body for each panel. Of a sparse level, borrowed memory holds how many entries of each segment have been
    walked."""
    level, size = _level(loop.body, loop.var, scope), scope.storage.size(loop.var)
    start, stop = scope.fresh("start"), scope.fresh("stop")
    done = None if level is None else Buffer(scope.fresh("done").name, I64, -1, True)
    inner = body(scope.with_panel(loop.var, Panel(domain.size, start, stop, done)))
    step = block(Let(stop, minimum(add(start, const(domain.size)), size)), inner)

    def within(first: Expr, last: Expr) -> Stmt:
        return For(start, first, last, step, domain.size)

    if loop.parallel is not None:
        assert done is None  # each thread would need cursors of its own
        if partials is not None:
            return _reduced(scope, loop.parallel.grain, domain.size, size, partials, within)
        number, first, chunk = scope.fresh("chunk"), scope.fresh("first"), _ceil_to(loop.parallel.grain, domain.size)
        of_chunk = within(first, minimum(add(first, const(chunk)), size))
        return Parallel(number, ceil_div(size, chunk), block(Let(first, mul(number, const(chunk))), of_chunk))
    every = within(const(0), size)
    if level is None or done is None:
        return every
    return Borrow(done, Extent(scope.storage.index_array(level.pattern, level.level, "pointers"), 0), every)


def _reduced(
    scope: Scope, grain: int, panel: int, size: Expr, partials: Partials, loop: Callable[[Expr, Expr], Stmt]
) -> Stmt:
    """The loop over panels in chunks that have their own sums."""

    def of_chunk(first: Expr, stop: Expr) -> Stmt:
        return loop(mul(first, const(panel)), minimum(mul(stop, const(panel)), size))

    return in_chunks(scope, ceil_div(size, panel), -(-grain // panel), of_chunk, partials)


def _ceil_to(number: int, multiple: int) -> int:
    """The least multiple that is not below a number."""
    return -(-number // multiple) * multiple


def _level(stmt: LoopStmt, var: IndexVar, scope: Scope) -> LevelIteration | None:
    """The sparse level whose entries a panel divides; None if the variable's coordinates are dense."""
    if isinstance(stmt, Forall) and stmt.var == var and isinstance(stmt.domain, LevelIteration) and stmt.domain.panel:
        kind = scope.storage.problem.patterns[stmt.domain.pattern].levels[stmt.domain.level].kind
        return None if kind.is_full else stmt.domain
    return next((found for found in (_level(inner, var, scope) for inner in children(stmt)) if found is not None), None)


def panel_entries(
    scope: Scope, domain: LevelIteration, var: str, run: Run | None, body: Callable[[Entry], Stmt]
) -> Stmt:
    """The loop over the entries of the present segment in the present panel."""
    walk, panel = LevelWalk(scope, domain, var), scope.panels[var]
    if walk.kind.is_full or panel.done is None:
        return in_run(scope, run, panel.start, panel.stop, lambda lo, hi: walk.full_loop(lo, hi, body))
    first, stop, prelude = walk.segment.first, walk.segment.stop, walk.segment.prelude
    parent, position = walk.above.first, scope.fresh("p")
    last = add(stop, const(-1))
    one = walk.one(position, lambda entry: body(Entry(entry.coordinate, PositionRange(position))))
    step = block(one, Set(position, add(position, const(1))))

    def entries(_: Expr, end: Expr) -> Stmt:
        return While(both(less(position, end), less(walk.coordinate(minimum(position, last)), panel.stop)), step)

    begin = scope.fresh("begin")
    loop = in_run(scope, run, begin, stop, entries, lambda end: Compare("==", position, end))
    walked = block(Declare(position, begin), loop, Store(panel.done, parent, sub(position, first)))
    return block(*prelude, Let(begin, add(first, Load(panel.done, parent))), If(less(begin, stop), walked))


def position_panels(loop: Forall, domain: PositionPanels, scope: Scope, body: Callable[[Scope], Stmt]) -> Stmt:
    """The body for each panel of positions in the present segment."""
    level = LevelIteration(domain.pattern, domain.level)
    found = LevelWalk(scope, level, loop.var).segment
    start, stop = scope.fresh("start"), scope.fresh("stop")
    inner = body(scope.with_position_bounds(level, start, stop))
    step = block(Let(stop, minimum(add(start, const(domain.size)), found.stop)), inner)
    return block(*found.prelude, For(start, found.first, found.stop, step, domain.size))


def pack(stmt: Pack, scope: Scope, body: Callable[[Scope], Stmt]) -> Stmt:
    """Copy the tile's lanes of the panel's rows, then run the body."""
    (var,) = (str(v) for v in stmt.source.indices if v != scope.tiled)
    panel, source = scope.panels[var], scope.storage.by_name[stmt.source.tensor]
    copy = Buffer(scope.fresh(stmt.name).name, Type(source.type.dtype), -1, True)
    n = scope.fresh(var)
    offset = mul(sub(n, panel.start), const(scope.lanes))
    row = Load(source, scope.with_index(var, n).dense_address(stmt.source), scope.lanes)
    copied = For(n, panel.start, panel.stop, Store(copy, offset, row))
    return block(LocalArray(copy, panel.size * scope.lanes), copied, body(scope.with_pack(stmt.name, copy)))


def packed(access: Access, scope: Scope) -> Expr:
    """The present tile of the packed row at the present coordinate."""
    (var,) = (str(v) for v in access.indices if v != scope.tiled)
    offset = mul(sub(scope.indices[var], scope.panels[var].start), const(scope.lanes))
    return Load(scope.packs[access.tensor], offset, scope.lanes)
