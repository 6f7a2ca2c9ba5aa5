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
from jsparse.compiler.loops.nest import Stmt as LoopStmt
from jsparse.compiler.lower.chunks import Partials, in_run
from jsparse.compiler.lower.levels import LevelWalk
from jsparse.compiler.lower.scope import Scope

Lower = Callable[[LoopStmt, Scope], ir.Stmt]


def end_of_segment(walk: LevelWalk, first: ir.Expr, stop: ir.Expr) -> ir.Expr:
    """Return the end of a segment. In a dynamic pattern, a segment over a dimension of size 0 counts as empty:
    no coordinate is in range, so lanes would have no element to read."""
    some = less(const(0), walk.extent())
    known = not walk.type.dynamic or (isinstance(some, ir.Const) and some.value)
    return stop if known else ir.Select(some, stop, first)


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

    `several(p)` stores at one position for each lane, from `p` on. `one(p)` stores at the position `p` alone. Both
    store a zero where the coordinate is out of range.
    """
    p, q = walk.fresh("p"), walk.fresh("p")
    after = add(p, const(lanes))
    many = ir.While(at_most(after, stop), block(several(p), ir.Set(p, after)))
    rest = ir.If(less(p, stop), several(sub(stop, const(lanes))))
    alone = ir.For(q, p, stop, one(q))
    return block(ir.Declare(p, first), ir.If(at_most(after, stop), block(many, rest), alone))


def assignment_in_lanes(loop: Forall) -> Assign | None:
    """Return the assignment in a loop in lanes over positions. Only loops over singleton levels may stand between."""
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
    walk = LevelWalk(scope, domain, loop.var)
    lanes = _Lanes(scope, walk, loop, lower)
    run, found = scope.runs[loop.var] if loop.run else None, walk.segment
    stop = found.stop
    for level in lanes.levels:
        stop = end_of_segment(level, found.first, stop)

    def positions(first: ir.Expr, end: ir.Expr) -> ir.Stmt:
        if lanes.target is None:
            return lanes.store_elements(first, end)
        return in_run(scope, run, first, end, lanes.add_terms)

    if loop.parallel is None:
        return block(*found.prelude, positions(found.first, stop))
    return block(*found.prelude, walk.divide_into_chunks(stop, loop.parallel.grain, positions, partials))


class _Lanes:
    """The loop over positions in lanes.

    Attributes:
        levels: the level of the loop, then the singleton levels below.
    """

    def __init__(self, scope: Scope, walk: LevelWalk, loop: Forall, lower: Lower) -> None:
        assign = assignment_in_lanes(loop)
        assert assign is not None
        self.scope, self.walk, self.assign, self.lower = scope, walk, assign, lower
        self.lanes, self.monoid = loop.lanes, assign.monoid
        self.levels, inner = [walk], loop.body
        while isinstance(inner, Forall):
            assert isinstance(inner.domain, LevelIteration)
            self.levels.append(LevelWalk(scope, inner.domain, inner.var))
            inner = inner.body
        self.name = assign.target.tensor
        self.target = scope.registers.get(self.name)  # None if the body stores to memory

    def store_elements(self, first: ir.Expr, stop: ir.Expr) -> ir.Stmt:
        """Store the elements at all positions from `first` to `stop`."""
        several, one = (partial(self.at, self.scope, lanes=lanes) for lanes in (self.lanes, 0))
        return by_lanes(self.walk, self.lanes, first, stop, several, one)

    def add_terms(self, first: ir.Expr, stop: ir.Expr) -> ir.Stmt:
        """Add the terms at all positions `first <= p < stop` to the target."""
        assert self.target is not None
        p, q, operation = self.scope.fresh("p"), self.scope.fresh("p"), self.monoid.add
        lanes, whole, rest = self.register("lanes", self.lanes), self.register("whole"), self.register("rest")
        after = add(p, const(self.lanes))
        many = ir.While(at_most(after, stop), block(self.together(lanes, p), ir.Set(p, after)))
        reduced = block(self.empty(lanes), many, ir.Set(whole, ir.HorizontalReduce(lanes, operation)))
        scope = self.scope.with_register(self.name, rest)
        return block(
            ir.Declare(p, first),
            self.empty(whole),
            self.empty(rest),
            ir.If(at_most(after, stop), reduced),
            ir.For(q, p, stop, self.at(scope, q, 0)),
            ir.Set(self.target, ir.Binary(operation, self.target, ir.Binary(operation, whole, rest))),
        )

    def register(self, name: str, lanes: int = 0) -> ir.Var:
        """Return a new name for accumulators in lanes, or for a scalar accumulator."""
        assert self.target is not None
        return self.scope.fresh(name, self.target.type.with_lanes(lanes))

    def empty(self, total: ir.Var) -> ir.Stmt:
        """Declare accumulators with the initial value of sums."""
        return ir.Declare(total, ir.Const(self.monoid.zero, total.type))

    def together(self, total: ir.Var, p: ir.Var) -> ir.Stmt:
        """Add to `total` the terms at consecutive positions from `p` on, one position for each lane."""
        return self.at(self.scope.with_register(self.name, total), p, self.lanes)

    def at(self, scope: Scope, p: ir.Expr, lanes: int) -> ir.Stmt:
        """The body at `lanes` positions from `p` on, or at `p` alone if `lanes` is 0.

        The values at coordinates out of range count as zero. There is no branch for them: it would be mispredicted, and
        loops with branches are not vectorized.
        """
        positions = ramp(p, lanes) if lanes else p
        known, inside = list[ir.Stmt](), None
        for level in self.levels:
            found, counts = coordinates_in_lanes(level, positions)
            if not lanes:  # a name, so that the coordinate is loaded once
                coordinate = scope.fresh(level.var)
                known, found = [*known, ir.Let(coordinate, found)], coordinate
            inside = counts if inside is None or counts is None else both(inside, counts)
            scope = scope.with_positions(level.domain, PositionRange(positions)).with_index(level.var, found)
        return block(*known, self.lower(self.assign, scope.with_lanes_of(lanes, inside)))
