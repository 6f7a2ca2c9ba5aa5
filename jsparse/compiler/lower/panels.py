"""Panels: cache blocking of the reduction dimension.

All segments of a pattern are walked once per panel, each between bounds that are found before the walk. The rows in a
panel are first packed into contiguous memory: rows at a stride of a power of two would map to the same few cache sets.

The bounds say where the part of each segment that lies in a panel begins and ends:

    bounds[n, s] = the first position of segment s with a coordinate in panel n or in a later panel

One pass over the entries finds the bounds. It runs before the loops over panels, and before any loops over register
tiles around them. No branch of the pass depends on coordinates: the entry at position p, with coordinate v in panel
n = v // size, writes `bounds[n + 1, s] = p + 1`. Coordinates ascend, so the last entry of the panel writes this bound
last. A panel without entries ends where the previous panel ends, so a running maximum over n finds its bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from jsparse.compiler.dtypes import Type
from jsparse.compiler.kernel import nodes as ir
from jsparse.compiler.kernel.algebra import add, block, cast, ceil_div, const, floor_div, minimum, mul, sub
from jsparse.compiler.levels import PositionRange
from jsparse.compiler.loops.domain import LevelIteration, Panels, PositionPanels, Tiles
from jsparse.compiler.loops.nest import Forall, Pack, statements
from jsparse.compiler.loops.nest import Stmt as LoopStmt
from jsparse.compiler.lower.chunks import Partials, in_chunks
from jsparse.compiler.lower.levels import Entry, LevelWalk
from jsparse.compiler.lower.prefetch import prefetches_of_panel
from jsparse.compiler.lower.scope import Bounds, Panel, Scope
from jsparse.notation.assignment import Access

BOUNDS_GRAIN = 256  # segments of a chunk that finds bounds


def with_panel_bounds(loop: Forall, scope: Scope, body: Callable[[Scope], ir.Stmt]) -> ir.Stmt | None:
    """Find the bounds of a level's panels, in borrowed memory, and run the body with the bounds. `loop` is the loop
    over the panels, or a loop over register tiles around it.

    The result is None for all other loops, if the level is dense, and if the bounds are known already.
    """
    inner: LoopStmt = loop
    while isinstance(inner, Forall) and isinstance(inner.domain, Tiles):
        inner = inner.body
    if not (isinstance(inner, Forall) and isinstance(inner.domain, Panels)) or inner.var in scope.bounds:
        return None
    problem, storage, var, size = scope.storage.problem, scope.storage, inner.var, inner.domain.size
    walked = (x.domain for x in statements(inner.body) if isinstance(x, Forall) and x.var == var)
    in_panel = (x for x in walked if isinstance(x, LevelIteration) and x.panel)
    level = next((x for x in in_panel if not problem.patterns[x.pattern].levels[x.level].kind.is_full), None)
    if level is None:
        return None
    pattern, pointers = problem.patterns[level.pattern], storage.index_array(level.pattern, level.level, "pointers")
    memory = ir.Buffer(scope.fresh("bounds").name, Type(pattern.index_dtype), -1, True)
    segments, panels, segment = scope.fresh("segments"), scope.fresh("panels"), scope.fresh("segment")
    bounds = Bounds(memory, segments)

    # In each segment: what the entries write, and then the running maximum (see above).
    here = scope.with_positions(replace(level, level=level.level - 1), PositionRange(segment))
    walk, n = LevelWalk(here, replace(level, panel=False), var), scope.fresh("n")
    positions = walk.segment

    def store_bound(panel: ir.Expr, position: ir.Expr) -> ir.Stmt:
        return ir.Store(memory, bounds.at(panel, segment), cast(position, memory.type.dtype))

    def store_end(entry: Entry) -> ir.Stmt:
        panel = floor_div(entry.coordinate, const(size))
        return store_bound(add(panel, const(1)), add(entry.positions.first, const(1)))

    def bounds_of_segments(first: ir.Expr, stop: ir.Expr) -> ir.Stmt:
        largest = ir.Binary("max", *(bounds.load(bounds.at(x, segment)) for x in (add(n, const(-1)), n)))
        entries = walk.loop_over_positions(positions.first, positions.stop, store_end)
        maxima = ir.For(n, const(1), add(panels, const(1)), store_bound(n, largest))
        start = store_bound(const(0), positions.first)
        return ir.For(segment, first, stop, block(*positions.prelude, start, entries, maxima))

    inside = body(replace(scope, bounds={**scope.bounds, var: bounds}))
    return block(
        ir.Bind(segments, add(ir.Extent(pointers, pattern.batch_axes), const(-1))),
        ir.Bind(panels, ceil_div(storage.size(var), size)),
        ir.Borrow(
            memory,
            mul(add(panels, const(1)), segments),
            block(in_chunks(scope, segments, BOUNDS_GRAIN, bounds_of_segments), inside),
        ),
    )


def panels(
    loop: Forall, domain: Panels, scope: Scope, body: Callable[[Scope], ir.Stmt], partials: Partials | None
) -> ir.Stmt:
    """Run the body for each panel."""
    size, start, stop, first_bound = scope.storage.size(loop.var), *map(scope.fresh, ("start", "stop", "row"))
    bounds = scope.bounds.get(loop.var)
    panel = Panel(domain.size, start, stop, bounds, first_bound)
    inner = body(replace(scope, panels={**scope.panels, loop.var: panel}))
    if bounds is not None:
        inner = block(ir.Bind(first_bound, bounds.at(floor_div(start, const(domain.size)), const(0))), inner)
    step = block(ir.Bind(stop, minimum(add(start, const(domain.size)), size)), inner)

    def within(first: ir.Expr, last: ir.Expr) -> ir.Stmt:
        return ir.For(start, first, last, step, domain.size)

    if loop.parallel is None:
        return within(const(0), size)
    count = -(-loop.parallel.grain // domain.size)  # panels of a chunk, at least
    if partials is not None:  # each chunk has its own sums

        def of_chunk(first: ir.Expr, stop: ir.Expr) -> ir.Stmt:
            return within(mul(first, const(domain.size)), minimum(mul(stop, const(domain.size)), size))

        return in_chunks(scope, ceil_div(size, domain.size), count, of_chunk, partials)
    number, first, length = scope.fresh("chunk"), scope.fresh("first"), count * domain.size
    chunk = within(first, minimum(add(first, const(length)), size))
    return ir.ParallelFor(number, ceil_div(size, length), block(ir.Bind(first, mul(number, const(length))), chunk))


def panel_entries(scope: Scope, domain: LevelIteration, loop: Forall, body: Callable[[Entry], ir.Stmt]) -> ir.Stmt:
    """The loop over the entries of the present segment in the present panel."""
    run = scope.runs[loop.var] if loop.run else None
    walk, panel = LevelWalk(scope, domain, loop.var, run=run), scope.panels[loop.var]
    if walk.kind.is_full:
        return walk.full_loop(panel.start, panel.stop, body)
    assert panel.bounds is not None
    segment, first, stop = walk.above.first, scope.fresh("first"), scope.fresh("stop")
    here = add(panel.first_bound, segment)
    return block(
        *([] if walk.kind.has_coordinates else walk.segment.prelude),  # coordinates follow from the segment's start
        ir.Bind(first, panel.bounds.load(here)),
        ir.Bind(stop, panel.bounds.load(add(here, panel.bounds.segments))),
        walk.loop_over_positions(first, stop, body),
    )


def position_panels(loop: Forall, domain: PositionPanels, scope: Scope, body: Callable[[Scope], ir.Stmt]) -> ir.Stmt:
    """Run the body for each panel of positions in the present segment."""
    level = LevelIteration(domain.pattern, domain.level)
    segment = LevelWalk(scope, level, loop.var).segment
    start, stop = scope.fresh("start"), scope.fresh("stop")
    inner = body(scope.with_position_bounds(level, start, stop))
    ahead = prefetches_of_panel(loop, domain, stop, scope) if loop.prefetch else []
    step = block(ir.Bind(stop, minimum(add(start, const(domain.size)), segment.stop)), *ahead, inner)
    return block(*segment.prelude, ir.For(start, segment.first, segment.stop, step, domain.size))


def pack(stmt: Pack, scope: Scope, body: Callable[[Scope], ir.Stmt]) -> ir.Stmt:
    """Copy the present panel's rows, restricted to the lanes of the present tile; then run the body."""
    (var,) = (str(v) for v in stmt.source.indices if v != scope.tiled)
    panel, source = scope.panels[var], scope.storage.by_name[stmt.source.tensor]
    copy = ir.Buffer(scope.fresh(stmt.name).name, Type(source.type.dtype), -1, True)
    n = scope.fresh(var)
    offset = mul(sub(n, panel.start), const(scope.lanes))
    row = ir.Load(source, scope.with_index(var, n).dense_address(stmt.source), scope.lanes)
    copied = ir.For(n, panel.start, panel.stop, ir.Store(copy, offset, row))
    inner = replace(scope, packs={**scope.packs, stmt.name: copy})
    return block(ir.LocalArray(copy, panel.size * scope.lanes), copied, body(inner))


def load_packed(access: Access, scope: Scope) -> ir.Expr:
    """Load the present tile of the packed row at the present coordinate."""
    (var,) = (str(v) for v in access.indices if v != scope.tiled)
    offset = mul(sub(scope.indices[var], scope.panels[var].start), const(scope.lanes))
    return ir.Load(scope.packs[access.tensor], offset, scope.lanes)
