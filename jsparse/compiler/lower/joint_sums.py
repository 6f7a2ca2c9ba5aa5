"""Joint sums: where the value at each position is a sum in lanes, the sums of several positions are folded together.

To fold a sum means to reduce its lanes to a scalar. A sampled product has a sum over a dense index for each stored
entry. The index runs in lanes, and folding takes longer than the sum itself. Folding the sums of eight positions
together needs fewer operations than folding them one by one:

    for p in first, first + 8, …:
        acc.0 = Σ at p, …, acc.7 = Σ at p + 7           each in its own lanes
        totals = [fold(acc.0), …, fold(acc.7)]           (`kernel.nodes.VectorOf`)
        store what follows from the totals at p, …, p + 7

If positions of a segment remain at the end, the last 8 positions of the segment are computed, although some of them
were computed before (see `position_lanes`).

The sums at several coordinates of a dense index, such as the heads of an attention, are folded in the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from jsparse.base.dataclass import dataclass
from jsparse.compiler.dtypes import Type
from jsparse.compiler.kernel import nodes as ir
from jsparse.compiler.kernel.algebra import add, block, cast, const, ramp
from jsparse.compiler.levels import PositionRange
from jsparse.compiler.loops.domain import LevelIteration
from jsparse.compiler.loops.nest import Assign, Forall, Where, Workspace
from jsparse.compiler.loops.nest import Stmt as LoopStmt
from jsparse.compiler.lower.chunks import Lower
from jsparse.compiler.lower.levels import Entry, LevelWalk
from jsparse.compiler.lower.position_lanes import by_lanes, coordinates_in_lanes, end_of_segment
from jsparse.compiler.lower.scope import Scope
from jsparse.compiler.scalar import Number

Ahead = Callable[[Entry], list[ir.Stmt]]  # the prefetches at an entry


@dataclass(frozen=True, slots=True)
class JointSum:
    """The parts of a loop body that stores a value computed from a sum in lanes. The body has the form where(total,
    where(acc, sum, fold), store)."""

    total: Workspace
    acc: Workspace
    sum: LoopStmt
    store: Assign


def joint_sum(stmt: LoopStmt) -> JointSum | None:
    """Return the parts of a body that stores a value computed from a sum in lanes, or None for any other body."""
    match stmt:
        case Where(
            workspace=Workspace(var=None) as total,
            producer=Where(workspace=Workspace() as acc, producer=summed, consumer=Forall(body=Assign() as fold)),
            consumer=Assign(accumulate=False) as store,
        ) if fold.target == total.access() and fold.value == acc.access() and acc.var is not None:
            return JointSum(total, acc, summed, store)
    return None


def joint_coordinates(scope: Scope, loop: Forall, size: int, parts: JointSum, lower: Lower) -> ir.Stmt:
    """Return the loop over the coordinates of a dense index of known size: `loop.lanes` coordinates at a time, then the
    remaining coordinates one by one."""
    n, full = scope.fresh(loop.var), size // loop.lanes * loop.lanes
    stmts: list[ir.Stmt] = []
    sums: list[ir.Var] = []
    for number in range(loop.lanes):
        register, empty = _declare_sum(scope, parts.acc)
        inner = scope.with_index(loop.var, add(n, const(number))).with_workspace_register(parts.acc, register)
        stmts += [empty, lower(parts.sum, inner)]
        sums.append(register)
    there = scope.with_index(loop.var, ramp(n, loop.lanes)).with_lanes_of(loop.lanes, None)
    together = ir.For(n, const(0), const(full), block(*stmts, _fold_and_store(there, parts, sums, lower)), loop.lanes)
    last = scope.fresh(loop.var)
    one = lower(loop.body, scope.with_index(loop.var, last))
    return block(together, *([ir.For(last, const(full), const(size), one)] if full < size else []))


def _declare_sum(scope: Scope, acc: Workspace) -> tuple[ir.Var, ir.Stmt]:
    register = scope.fresh(acc.name, Type(acc.dtype, scope.lanes or acc.lanes))
    return register, ir.Declare(register, ir.Const(acc.monoid.zero, register.type))


def _fold_and_store(scope: Scope, parts: JointSum, sums: list[ir.Var], lower: Lower) -> ir.Stmt:
    """Fold the sums to scalars, all sums together, and store the values that are computed from them."""
    total = parts.total
    folded = ir.BuildVector(tuple(ir.HorizontalReduce(cast(x, total.dtype), total.monoid.add) for x in sums))
    totals = scope.fresh(total.name, folded.type)
    value = ir.Binary(total.monoid.add, ir.Const(total.monoid.zero, folded.type), folded)
    return block(ir.Declare(totals, value), lower(parts.store, scope.with_register(total.name, totals)))


def joint_sums(
    scope: Scope, domain: LevelIteration, loop: Forall, parts: JointSum, lower: Lower, ahead: Ahead
) -> ir.Stmt:
    """Return the loop over the positions of a segment, with the sums of several positions folded together."""
    walk, lanes = LevelWalk(scope, domain, loop.var), domain.lanes
    segment = walk.segment

    def inside(coordinate: ir.Expr, position: ir.Expr) -> Scope:
        """Return the scope at one entry, or at several entries in lanes."""
        return scope.with_positions(domain, PositionRange(position)).with_index(loop.var, coordinate)

    def alone(position: ir.Expr) -> ir.Stmt:
        zero = replace(parts.store, value=Number(parts.store.monoid.zero), condition=None)
        return walk.one(
            position,
            lambda entry: block(*ahead(entry), lower(loop.body, inside(entry.coordinate, position))),
            otherwise=lower(zero, inside(const(0), position)),
        )

    def several(first: ir.Expr) -> ir.Stmt:
        """Return the body at consecutive positions that start at `first`, one position for each lane."""
        start, sums = scope.fresh("first"), list[ir.Var]()
        stmts: list[ir.Stmt] = [ir.Bind(start, first)]
        for n in range(lanes):
            position, coordinate = add(start, const(n)), scope.fresh(loop.var)
            register, empty = _declare_sum(scope, parts.acc)
            inner = inside(coordinate, position).with_workspace_register(parts.acc, register)
            stmts += [
                ir.Bind(coordinate, coordinates_in_lanes(walk, position)[0]),
                *ahead(Entry(coordinate, PositionRange(position), position)),
                empty,
                lower(parts.sum, inner),
            ]
            sums.append(register)
        coordinates, counts = coordinates_in_lanes(walk, ramp(start, lanes))
        there = inside(coordinates, ramp(start, lanes)).with_lanes_of(lanes, counts)
        return block(*stmts, _fold_and_store(there, parts, sums, lower))

    stop = end_of_segment(walk, segment.first, segment.stop)
    return block(*segment.prelude, by_lanes(walk, lanes, segment.first, stop, several, alone))
