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

from jsparse.base.dataclass import dataclass
from jsparse.compiler.dtypes import I64, Type
from jsparse.compiler.kernel import nodes as ir
from jsparse.compiler.kernel.algebra import add, block, cast, ceil_div, const, floor_div, minimum, mul, sub
from jsparse.compiler.levels import PositionRange
from jsparse.compiler.loops.domain import LevelIteration, Panels, PositionPanels, Tiles
from jsparse.compiler.loops.nest import Forall, Pack, children
from jsparse.compiler.loops.nest import Stmt as LoopStmt
from jsparse.compiler.lower.chunks import Partials, in_chunks
from jsparse.compiler.lower.levels import Entry, LevelWalk
from jsparse.compiler.lower.prefetch import prefetches_of_panel
from jsparse.compiler.lower.scope import Bounds, Panel, Run, Scope
from jsparse.notation.assignment import Access, IndexVar

BOUNDS_GRAIN = 256  # segments of a chunk that finds bounds


@dataclass(frozen=True, slots=True)
class Divided:
    """A sparse level whose variable a loop divides into panels of `size` coordinates."""

    var: IndexVar
    level: LevelIteration
    size: int


def find_divided_level(loop: LoopStmt, scope: Scope) -> Divided | None:
    """Return the level that a loop over panels divides. `loop` is the loop over panels, or a loop over register tiles
    around it.

    The result is None for all other loops, and if the level of the variable is dense.
    """
    while isinstance(loop, Forall) and isinstance(loop.domain, Tiles):
        loop = loop.body
    if not (isinstance(loop, Forall) and isinstance(loop.domain, Panels)):
        return None
    level = _find_level_below(loop.body, loop.var, scope)
    return None if level is None else Divided(loop.var, level, loop.domain.size)


def _find_level_below(stmt: LoopStmt, var: IndexVar, scope: Scope) -> LevelIteration | None:
    """Find a loop in `stmt` over the entries in a panel of the variable. Return its level, or None if it is dense or if
    there is no such loop."""
    if isinstance(stmt, Forall) and stmt.var == var and isinstance(stmt.domain, LevelIteration) and stmt.domain.panel:
        kind = scope.storage.problem.patterns[stmt.domain.pattern].levels[stmt.domain.level].kind
        return None if kind.is_full else stmt.domain
    return next(
        (found for found in (_find_level_below(inner, var, scope) for inner in children(stmt)) if found is not None),
        None,
    )


def with_panel_bounds(scope: Scope, divided: Divided, body: Callable[[Scope], ir.Stmt]) -> ir.Stmt:
    """Find the bounds of the level's panels, in borrowed memory, and run the body with the bounds."""
    pattern = scope.storage.problem.patterns[divided.level.pattern]
    pointers = scope.storage.index_array(divided.level.pattern, divided.level.level, "pointers")
    memory = ir.Buffer(scope.fresh("bounds").name, Type(pattern.index_dtype), -1, True)
    segments, panels = scope.fresh("segments"), scope.fresh("panels")
    bounds = Bounds(memory, segments)

    def find_bounds(first: ir.Expr, stop: ir.Expr) -> ir.Stmt:
        segment = scope.fresh("segment")
        return ir.For(segment, first, stop, _bounds_of_segment(scope, divided, bounds, panels, segment))

    inner = block(in_chunks(scope, segments, BOUNDS_GRAIN, find_bounds), body(scope.with_bounds(divided.var, bounds)))
    return block(
        ir.Let(segments, add(ir.Extent(pointers, pattern.batch_axes), const(-1))),
        ir.Let(panels, ceil_div(scope.storage.size(divided.var), divided.size)),
        ir.Borrow(memory, mul(add(panels, const(1)), segments), inner),
    )


def _bounds_of_segment(scope: Scope, divided: Divided, bounds: Bounds, panels: ir.Expr, segment: ir.Expr) -> ir.Stmt:
    """Find the bounds of all panels in one segment."""
    above = replace(divided.level, level=divided.level.level - 1)
    here = scope.with_positions(above, PositionRange(segment))
    walk = LevelWalk(here, replace(divided.level, panel=False), divided.var)
    positions = walk.segment

    def store_bound(panel: ir.Expr, position: ir.Expr) -> ir.Stmt:
        return ir.Store(bounds.memory, bounds.at(panel, segment), cast(position, bounds.memory.type.dtype))

    def behind(entry: Entry) -> ir.Stmt:
        panel = floor_div(entry.coordinate, const(divided.size))
        return store_bound(add(panel, const(1)), add(entry.positions.first, const(1)))

    n = scope.fresh("n")
    before = cast(ir.Load(bounds.memory, bounds.at(add(n, const(-1)), segment)), I64.dtype)
    largest = ir.Binary("max", before, cast(ir.Load(bounds.memory, bounds.at(n, segment)), I64.dtype))
    return block(
        *positions.prelude,
        store_bound(const(0), positions.first),
        walk.loop_over_positions(positions.first, positions.stop, behind),
        ir.For(n, const(1), add(panels, const(1)), store_bound(n, largest)),
    )


def panels(
    loop: Forall, domain: Panels, scope: Scope, body: Callable[[Scope], ir.Stmt], partials: Partials | None
) -> ir.Stmt:
    """Run the body for each panel."""
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
        return _divide_reduction(scope, loop.parallel.grain, domain.size, size, partials, within)
    number, first, chunk = scope.fresh("chunk"), scope.fresh("first"), _ceil_to(loop.parallel.grain, domain.size)
    of_chunk = within(first, minimum(add(first, const(chunk)), size))
    return ir.Parallel(number, ceil_div(size, chunk), block(ir.Let(first, mul(number, const(chunk))), of_chunk))


def _divide_reduction(
    scope: Scope, grain: int, panel: int, size: ir.Expr, partials: Partials, loop: Callable[[ir.Expr, ir.Expr], ir.Stmt]
) -> ir.Stmt:
    """Divide the loop over panels into chunks. Each chunk has its own sums."""

    def of_chunk(first: ir.Expr, stop: ir.Expr) -> ir.Stmt:
        return loop(mul(first, const(panel)), minimum(mul(stop, const(panel)), size))

    return in_chunks(scope, ceil_div(size, panel), -(-grain // panel), of_chunk, partials)


def _ceil_to(number: int, multiple: int) -> int:
    """Round a number up to a multiple of `multiple`."""
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
        walk.loop_over_positions(first, stop, body),
    )


def position_panels(loop: Forall, domain: PositionPanels, scope: Scope, body: Callable[[Scope], ir.Stmt]) -> ir.Stmt:
    """Run the body for each panel of positions in the present segment."""
    level = LevelIteration(domain.pattern, domain.level)
    found = LevelWalk(scope, level, loop.var).segment
    start, stop = scope.fresh("start"), scope.fresh("stop")
    inner = body(scope.with_position_bounds(level, start, stop))
    ahead = prefetches_of_panel(loop, domain, stop, scope) if loop.prefetch else []
    step = block(ir.Let(stop, minimum(add(start, const(domain.size)), found.stop)), *ahead, inner)
    return block(*found.prelude, ir.For(start, found.first, found.stop, step, domain.size))


def pack(stmt: Pack, scope: Scope, body: Callable[[Scope], ir.Stmt]) -> ir.Stmt:
    """Copy the present panel's rows, restricted to the lanes of the present tile; then run the body."""
    (var,) = (str(v) for v in stmt.source.indices if v != scope.tiled)
    panel, source = scope.panels[var], scope.storage.by_name[stmt.source.tensor]
    copy = ir.Buffer(scope.fresh(stmt.name).name, Type(source.type.dtype), -1, True)
    n = scope.fresh(var)
    offset = mul(sub(n, panel.start), const(scope.lanes))
    row = ir.Load(source, scope.with_index(var, n).dense_address(stmt.source), scope.lanes)
    copied = ir.For(n, panel.start, panel.stop, ir.Store(copy, offset, row))
    return block(ir.LocalArray(copy, panel.size * scope.lanes), copied, body(scope.with_pack(stmt.name, copy)))


def load_packed(access: Access, scope: Scope) -> ir.Expr:
    """Load the present tile of the packed row at the present coordinate."""
    (var,) = (str(v) for v in access.indices if v != scope.tiled)
    offset = mul(sub(scope.indices[var], scope.panels[var].start), const(scope.lanes))
    return ir.Load(scope.packs[access.tensor], offset, scope.lanes)
