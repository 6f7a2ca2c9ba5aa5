"""Panels: cache blocking of the reduction dimension.

All segments of a pattern are walked once per panel, each between bounds that are known before (`panel_bounds`). The
rows in a panel are first packed into contiguous memory: rows at a stride of a power of two would map to the same few
cache sets.
"""

from __future__ import annotations

from collections.abc import Callable

from jsparse.compiler.kernel import nodes as ir
from jsparse.compiler.kernel.algebra import add, block, ceil_div, const, floor_div, minimum, mul, sub
from jsparse.compiler.kernel.types import Type
from jsparse.compiler.loops.domain import LevelIteration, Panels, PositionPanels
from jsparse.compiler.loops.nest import Forall, Pack
from jsparse.compiler.lower.chunks import Partials, in_chunks
from jsparse.compiler.lower.levels import Entry, LevelWalk
from jsparse.compiler.lower.prefetch import prefetches_of_panel
from jsparse.compiler.lower.scope import Panel, Run, Scope
from jsparse.notation.assignment import Access

__all__ = ["pack", "packed", "panel_entries", "panels", "position_panels"]


def panels(
    loop: Forall, domain: Panels, scope: Scope, body: Callable[[Scope], ir.Stmt], partials: Partials | None
) -> ir.Stmt:
    """The body for each panel."""
    size, start, stop, first_bound = scope.storage.size(loop.var), *map(scope.fresh, ("start", "stop", "row"))
    bounds = scope.bounds.get(loop.var)
    inner = body(scope.with_panel(loop.var, Panel(domain.size, start, stop, bounds, first_bound)))
    if bounds is not None:
        inner = block(ir.Let(first_bound, bounds.at(floor_div(start, const(domain.size)), const(0))), inner)
    step = block(ir.Let(stop, minimum(add(start, const(domain.size)), size)), inner)

    def within(first: ir.Expr, last: ir.Expr) -> ir.Stmt:
        return ir.For(start, first, last, step, domain.size)

    if loop.parallel is None:
        return within(const(0), size)
    if partials is not None:
        return _reduced(scope, loop.parallel.grain, domain.size, size, partials, within)
    number, first, chunk = scope.fresh("chunk"), scope.fresh("first"), _ceil_to(loop.parallel.grain, domain.size)
    of_chunk = within(first, minimum(add(first, const(chunk)), size))
    return ir.Parallel(number, ceil_div(size, chunk), block(ir.Let(first, mul(number, const(chunk))), of_chunk))


def _reduced(
    scope: Scope, grain: int, panel: int, size: ir.Expr, partials: Partials, loop: Callable[[ir.Expr, ir.Expr], ir.Stmt]
) -> ir.Stmt:
    """The loop over panels in chunks that have their own sums."""

    def of_chunk(first: ir.Expr, stop: ir.Expr) -> ir.Stmt:
        return loop(mul(first, const(panel)), minimum(mul(stop, const(panel)), size))

    return in_chunks(scope, ceil_div(size, panel), -(-grain // panel), of_chunk, partials)


def _ceil_to(number: int, multiple: int) -> int:
    """The least multiple that is not below a number."""
    return -(-number // multiple) * multiple


def panel_entries(
    scope: Scope, domain: LevelIteration, var: str, run: Run | None, body: Callable[[Entry], ir.Stmt]
) -> ir.Stmt:
    """The loop over the entries of the present segment in the present panel."""
    walk, panel = LevelWalk(scope, domain, var, run=run), scope.panels[var]
    if walk.kind.is_full:
        return walk.full_loop(panel.start, panel.stop, body)
    assert panel.bounds is not None
    segment, first, stop = walk.above.first, scope.fresh("first"), scope.fresh("stop")
    here = add(panel.first_bound, segment)
    return block(
        *([] if walk.kind.has_coordinates else walk.segment.prelude),  # coordinates follow from the segment's start
        ir.Let(first, panel.bounds.load(here)),
        ir.Let(stop, panel.bounds.load(add(here, panel.bounds.segments))),
        walk.stored_loop(first, stop, body),
    )


def position_panels(loop: Forall, domain: PositionPanels, scope: Scope, body: Callable[[Scope], ir.Stmt]) -> ir.Stmt:
    """The body for each panel of positions in the present segment."""
    level = LevelIteration(domain.pattern, domain.level)
    found = LevelWalk(scope, level, loop.var).segment
    start, stop = scope.fresh("start"), scope.fresh("stop")
    inner = body(scope.with_position_bounds(level, start, stop))
    ahead = prefetches_of_panel(loop, domain, stop, scope) if loop.prefetch else []
    step = block(ir.Let(stop, minimum(add(start, const(domain.size)), found.stop)), *ahead, inner)
    return block(*found.prelude, ir.For(start, found.first, found.stop, step, domain.size))


def pack(stmt: Pack, scope: Scope, body: Callable[[Scope], ir.Stmt]) -> ir.Stmt:
    """Copy the tile's lanes of the panel's rows, then run the body."""
    (var,) = (str(v) for v in stmt.source.indices if v != scope.tiled)
    panel, source = scope.panels[var], scope.storage.by_name[stmt.source.tensor]
    copy = ir.Buffer(scope.fresh(stmt.name).name, Type(source.type.dtype), -1, True)
    n = scope.fresh(var)
    offset = mul(sub(n, panel.start), const(scope.lanes))
    row = ir.Load(source, scope.with_index(var, n).dense_address(stmt.source), scope.lanes)
    copied = ir.For(n, panel.start, panel.stop, ir.Store(copy, offset, row))
    return block(ir.LocalArray(copy, panel.size * scope.lanes), copied, body(scope.with_pack(stmt.name, copy)))


def packed(access: Access, scope: Scope) -> ir.Expr:
    """The present tile of the packed row at the present coordinate."""
    (var,) = (str(v) for v in access.indices if v != scope.tiled)
    offset = mul(sub(scope.indices[var], scope.panels[var].start), const(scope.lanes))
    return ir.Load(scope.packs[access.tensor], offset, scope.lanes)
