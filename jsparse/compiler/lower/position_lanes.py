"""Loops over positions in lanes: consecutive positions are worked on together.

A body that adds to a scalar has an accumulator for each lane. With 8 lanes, the terms at the positions from `first` to
`stop` are added to `acc` by

    p = first
    if p + 8 <= stop:
        while p + 8 <= stop:    lanes += the terms at p, …, p + 7;  p += 8
        whole = the lanes, reduced to a scalar
    for p in p, …, stop - 1:    rest += the term at p
    acc += whole + rest

So the remaining positions need no masks, nothing outside of the segment is read, and a segment with fewer positions
than lanes is summed by a scalar loop.

A body that stores an element at each position stores the same number again if it runs twice. So if positions remain,
the last 8 positions of the segment are stored together, some of them for the second time:

    if first + 8 <= stop:
        for p in first, first + 8, …, as long as p + 8 <= stop:    store at p, …, p + 7
        if positions remain:    store at stop - 8, …, stop - 1
    else:
        for p in first, …, stop - 1:    store at p

Singleton levels below have the other coordinates of an entry at the same position, so these are loaded in lanes, too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from jsparse.compiler.kernel import nodes as ir
from jsparse.compiler.kernel.algebra import add, at_most, block, both, const, less, minimum, ramp, sub
from jsparse.compiler.levels import PositionRange
from jsparse.compiler.loops.domain import LevelIteration
from jsparse.compiler.loops.nest import Assign, Forall
from jsparse.compiler.lower.chunks import Lower, Partials, in_run
from jsparse.compiler.lower.levels import LevelWalk
from jsparse.compiler.lower.scope import Scope


def end_of_segment(walk: LevelWalk, first: ir.Expr, stop: ir.Expr) -> ir.Expr:
    """Return the end of a segment. In a dynamic pattern, a segment over a dimension of size 0 counts as empty:
    no coordinate is in range, so lanes would have no element to read."""
    some = less(const(0), walk.extent())
    always = not walk.type.dynamic or (isinstance(some, ir.Const) and some.value)
    return stop if always else ir.Select(some, stop, first)


def coordinates_in_lanes(walk: LevelWalk, positions: ir.Expr) -> tuple[ir.Expr, ir.Expr | None]:
    """Return the coordinates at several positions, and whether each coordinate is in range (None if all are). A
    coordinate out of range is replaced by a coordinate in range, and the value read there is not used."""
    coordinate = walk.coordinate(positions)
    if not walk.type.dynamic:
        return coordinate, None
    nearest = minimum(coordinate, add(walk.extent(), const(-1)))
    return ir.Binary("max", nearest, ir.Const(0, nearest.type)), walk.in_range(coordinate)


def by_lanes(
    walk: LevelWalk,
    lanes: int,
    first: ir.Expr,
    stop: ir.Expr,
    several: Callable[[ir.Expr], ir.Stmt],
    one: Callable[[ir.Expr], ir.Stmt],
) -> ir.Stmt:
    """Return the statements that store an element at each position from `first` to `stop`.

    `several(p)` stores at one position for each lane, starting at `p`. `one(p)` stores at the position `p` alone. Both
    store a zero where the coordinate is out of range.
    """
    p, q = walk.fresh("p"), walk.fresh("p")
    after = add(p, const(lanes))
    many = ir.While(at_most(after, stop), block(several(p), ir.Set(p, after)))
    last = ir.If(less(p, stop), several(sub(stop, const(lanes))))
    alone = ir.For(q, p, stop, one(q))
    return block(ir.Declare(p, first), ir.If(at_most(after, stop), block(many, last), alone))


def assignment_in_lanes(loop: Forall) -> Assign | None:
    """Return the assignment in a loop in lanes over positions. Only loops over singleton levels may come between."""
    body = loop.body
    while isinstance(body, Forall) and isinstance(body.domain, LevelIteration) and loop.lanes:
        body = body.body
    return body if isinstance(body, Assign) else None


def position_lanes(
    scope: Scope, domain: LevelIteration, loop: Forall, lower: Lower, partials: Partials | None
) -> ir.Stmt:
    """Return the loop in lanes over the positions of a segment, or over each chunk's positions if it is parallel.

    `lower` lowers the assignment in the loop.
    """
    walk, assign = LevelWalk(scope, domain, loop.var), assignment_in_lanes(loop)
    assert assign is not None
    segment, run = walk.segment, scope.runs[loop.var] if loop.run else None
    levels, inner = [walk], loop.body  # the level of the loop, then the singleton levels below
    while isinstance(inner, Forall):
        assert isinstance(inner.domain, LevelIteration)
        levels.append(LevelWalk(scope, inner.domain, inner.var))
        inner = inner.body
    stop = segment.stop
    for level in levels:
        stop = end_of_segment(level, segment.first, stop)

    def at(scope: Scope, p: ir.Expr, lanes: int) -> ir.Stmt:
        """The body at `lanes` positions that start at `p`, or at `p` alone if `lanes` is 0.

        The values at coordinates out of range count as zero. There is no branch for them: it would be mispredicted, and
        loops with branches are not vectorized.
        """
        positions, inside = ramp(p, lanes), None
        names: list[ir.Stmt] = []
        for level in levels:
            coordinate, counts = coordinates_in_lanes(level, positions)
            if not lanes:  # a name, so that the coordinate is loaded once
                names.append(ir.Bind(name := scope.fresh(level.var), coordinate))
                coordinate = name
            inside = counts if inside is None or counts is None else both(inside, counts)
            scope = scope.with_positions(level.domain, PositionRange(positions)).with_index(level.var, coordinate)
        return block(*names, lower(assign, scope.with_lanes_of(lanes, inside)))

    def positions(first: ir.Expr, end: ir.Expr) -> ir.Stmt:
        target = scope.registers.get(assign.target.tensor)
        if target is None:  # the body stores an element at each position
            several, one = (partial(at, scope, lanes=lanes) for lanes in (loop.lanes, 0))
            return by_lanes(walk, loop.lanes, first, end, several, one)
        add_terms = partial(_add_terms, scope, assign, target, loop.lanes, at)
        return in_run(scope, run, first, end, add_terms)

    if loop.parallel is None:
        return block(*segment.prelude, positions(segment.first, stop))
    return block(*segment.prelude, walk.divide_into_chunks(stop, loop.parallel.grain, positions, partials))


def _add_terms(
    scope: Scope,
    assign: Assign,
    target: ir.Var,
    lanes: int,
    at: Callable[[Scope, ir.Expr, int], ir.Stmt],
    first: ir.Expr,
    stop: ir.Expr,
) -> ir.Stmt:
    """Add the terms at all positions `first <= p < stop` to the target. `at(scope, p, lanes)` adds those at `p`."""
    name, operation, p, q = assign.target.tensor, assign.monoid.add, scope.fresh("p"), scope.fresh("p")
    widths = {"lanes": lanes, "whole": 0, "rest": 0}
    in_lanes, folded, single = (scope.fresh(total, target.type.with_lanes(width)) for total, width in widths.items())
    clear = {total: ir.Declare(total, ir.Const(assign.monoid.zero, total.type)) for total in (in_lanes, folded, single)}
    after = add(p, const(lanes))
    many = ir.While(at_most(after, stop), block(at(scope.with_register(name, in_lanes), p, lanes), ir.Set(p, after)))
    fold = ir.Set(folded, ir.HorizontalReduce(in_lanes, operation))
    return block(
        ir.Declare(p, first),
        clear[folded],
        clear[single],
        ir.If(at_most(after, stop), block(clear[in_lanes], many, fold)),
        ir.For(q, p, stop, at(scope.with_register(name, single), q, 0)),
        ir.Set(target, ir.Binary(operation, target, ir.Binary(operation, folded, single))),
    )
