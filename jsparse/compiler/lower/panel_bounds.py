"""Bounds of panels: where the part of each segment that lies in a panel begins and ends.

    bounds[n, s] = the first position of segment s with a coordinate in panel n or in a later panel

One pass over the entries finds the bounds. It runs before the loops over panels, and before the loops over register
tiles that surround these. No branch of the pass depends on coordinates: the entry at position p, with coordinate v in
panel n = v // size, writes `bounds[n + 1, s] = p + 1`. The panel's last entry is the last one that writes, since
coordinates ascend. A panel without entries ends where the one before it ends, so a running maximum over n gives the
rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from jsparse.compiler.kernel import nodes as ir
from jsparse.compiler.kernel.algebra import add, block, cast, ceil_div, const, floor_div, mul
from jsparse.compiler.kernel.types import I64, Type
from jsparse.compiler.levels import PositionRange
from jsparse.compiler.loops.domain import LevelIteration, Panels, Tiles
from jsparse.compiler.loops.nest import Forall, children
from jsparse.compiler.loops.nest import Stmt as LoopStmt
from jsparse.compiler.lower.chunks import in_chunks
from jsparse.compiler.lower.levels import Entry, LevelWalk
from jsparse.compiler.lower.scope import Bounds, Scope
from jsparse.notation.assignment import IndexVar

__all__ = ["divided_level", "with_panel_bounds"]

GRAIN = 256  # segments of a chunk


@dataclass(frozen=True, slots=True)
class Divided:
    """The sparse level of a variable that a loop divides into panels of `size` coordinates."""

    var: IndexVar
    level: LevelIteration
    size: int


def divided_level(loop: LoopStmt, scope: Scope) -> Divided | None:
    """The level that a loop over panels divides. The loop may stand directly inside of loops over register tiles.

    None for other loops, and if the variable's coordinates are dense.
    """
    while isinstance(loop, Forall) and isinstance(loop.domain, Tiles):
        loop = loop.body
    if not (isinstance(loop, Forall) and isinstance(loop.domain, Panels)):
        return None
    level = _level(loop.body, loop.var, scope)
    return None if level is None else Divided(loop.var, level, loop.domain.size)


def _level(stmt: LoopStmt, var: IndexVar, scope: Scope) -> LevelIteration | None:
    """The sparse level that a loop over a panel of the variable walks; None if there is none."""
    if isinstance(stmt, Forall) and stmt.var == var and isinstance(stmt.domain, LevelIteration) and stmt.domain.panel:
        kind = scope.storage.problem.patterns[stmt.domain.pattern].levels[stmt.domain.level].kind
        return None if kind.is_full else stmt.domain
    return next((found for found in (_level(inner, var, scope) for inner in children(stmt)) if found is not None), None)


def with_panel_bounds(scope: Scope, divided: Divided, body: Callable[[Scope], ir.Stmt]) -> ir.Stmt:
    """The body, where borrowed memory holds the bounds of the level's panels."""
    pattern = scope.storage.problem.patterns[divided.level.pattern]
    pointers = scope.storage.index_array(divided.level.pattern, divided.level.level, "pointers")
    memory = ir.Buffer(scope.fresh("bounds").name, Type(pattern.index_dtype), -1, True)
    segments, panels = scope.fresh("segments"), scope.fresh("panels")
    bounds = Bounds(memory, segments)

    def found(first: ir.Expr, stop: ir.Expr) -> ir.Stmt:
        segment = scope.fresh("segment")
        return ir.For(segment, first, stop, _of_segment(scope, divided, bounds, panels, segment))

    inner = block(in_chunks(scope, segments, GRAIN, found), body(scope.with_bounds(divided.var, bounds)))
    return block(
        ir.Let(segments, add(ir.Extent(pointers, pattern.batch_axes), const(-1))),
        ir.Let(panels, ceil_div(scope.storage.size(divided.var), divided.size)),
        ir.Borrow(memory, mul(add(panels, const(1)), segments), inner),
    )


def _of_segment(scope: Scope, divided: Divided, bounds: Bounds, panels: ir.Expr, segment: ir.Expr) -> ir.Stmt:
    """Find the bounds in one segment."""
    above = replace(divided.level, level=divided.level.level - 1)
    here = scope.with_positions(above, PositionRange(segment))
    walk = LevelWalk(here, replace(divided.level, panel=False), divided.var)
    positions = walk.segment

    def stored(panel: ir.Expr, position: ir.Expr) -> ir.Stmt:
        return ir.Store(bounds.memory, bounds.at(panel, segment), cast(position, bounds.memory.type.dtype))

    def behind(entry: Entry) -> ir.Stmt:
        panel = floor_div(entry.coordinate, const(divided.size))
        return stored(add(panel, const(1)), add(entry.positions.first, const(1)))

    n = scope.fresh("n")
    before = cast(ir.Load(bounds.memory, bounds.at(add(n, const(-1)), segment)), I64.dtype)
    largest = ir.Binary("max", before, cast(ir.Load(bounds.memory, bounds.at(n, segment)), I64.dtype))
    return block(
        *positions.prelude,
        stored(const(0), positions.first),
        walk.stored_loop(positions.first, positions.stop, behind),
        ir.For(n, const(1), add(panels, const(1)), stored(n, largest)),
    )
