"""Division of a loop over threads in which long segments are divided, too.

A chunk ends at a position of the second level: where a segment ends, or inside a heavy segment. If a segment is cut,
its first part is stored like a whole segment. Each later part is the first work of some chunk: its sum is kept in that
chunk's carry-out, and all carry-outs are added at the end, in the order of the chunks (as in merge-path
SpMV, Merrill and Garland, 2016). Chunk bounds depend on the pattern alone, so results are bit-equal for any number of
threads.

Where the first level stores a coordinate once for each of its entries (as in coo), the run of equal coordinates is the
segment, and a chunk may end anywhere in it.
"""

from __future__ import annotations

from collections.abc import Callable

from jsparse.base.dataclass import dataclass
from jsparse.compiler.dtypes import BOOL, Type
from jsparse.compiler.kernel import nodes as ir
from jsparse.compiler.kernel.algebra import add, block, both, const, floor_div, less, mul, sub
from jsparse.compiler.loops.domain import LevelIteration
from jsparse.compiler.loops.nest import MAX_CHUNKS, Forall, assignments
from jsparse.compiler.lower.chunks import Partials, at_weight, for_each_chunk, lower_bound
from jsparse.compiler.lower.levels import Entry, LevelWalk
from jsparse.compiler.lower.scope import CarryIn, Scope

HEAVY = 2  # a segment with more than 1 / HEAVY of a chunk's share of the work is cut


def split_loop(scope: Scope, loop: Forall, domain: LevelIteration, body: Callable[[Scope, Entry], ir.Stmt]) -> ir.Stmt:
    """Divide the loop over a pattern's first level, so that no chunk has much more work than any other chunk."""
    return _Split(scope, loop, domain, body).loop()


@dataclass(frozen=True, slots=True)
class _Boundary:
    """The start of a chunk: a position in each of two levels, and whether the second position is inside a segment."""

    segment: ir.Var
    position: ir.Var
    inside: ir.Var


class _Split:
    def __init__(
        self, scope: Scope, loop: Forall, domain: LevelIteration, body: Callable[[Scope, Entry], ir.Stmt]
    ) -> None:
        self.scope, self.forall, self.domain, self.body = scope, loop, domain, body
        self.outer = LevelWalk(scope, domain, loop.var)
        self.stored = next(a for a in assignments(loop) if a.target.tensor in scope.storage.problem.type_of)
        self.target = scope.storage.by_name[self.stored.target.tensor]
        self.total = scope.fresh("total")

    def loop(self) -> ir.Stmt:
        assert self.forall.parallel is not None
        size, prelude, _ = self.outer.whole()
        row = self.scope.storage.stride(
            self.stored.target, 0
        )  # elements of the target at each coordinate of the variable
        # Only the first segment of a chunk can have begun in an earlier one. So a chunk needs one carry-out, of `row`
        # elements. There are at most MAX_CHUNKS chunks.
        carry_out = ir.Buffer(self.scope.fresh("carry_out").name, Type(self.target.type.dtype), -1, True)

        def part(chunk: ir.Expr, chunks: ir.Expr) -> ir.Stmt:
            before, start = self.boundary(chunk, chunks, size)
            behind, stop = self.boundary(add(chunk, const(1)), chunks, size)
            if self.outer.repeats:
                runs = self.segments(self.scope, start, stop.segment, carry_out, mul(chunk, row))
                return block(before, behind, runs)
            # If the chunk ends inside of segment `stop.segment`, it works on that segment, too. The position bounds cut
            # its first and its last segment.
            last = self.scope.fresh("last")
            end = block(ir.Declare(last, stop.segment), ir.If(stop.inside, ir.Set(last, add(stop.segment, const(1)))))
            inner = self.scope.with_position_bounds(
                LevelIteration(self.domain.pattern, 1), start.position, stop.position
            )
            return block(before, behind, end, self.segments(inner, start, last, carry_out, mul(chunk, row)))

        combine = Partials(lambda _, loops: loops, lambda chunks: self.combine(chunks, size, carry_out, row))
        divided = for_each_chunk(self.scope, self.total, self.forall.parallel.grain, part, combine)
        weighed = ir.Let(self.total, self.outer.weight(size))
        return block(*prelude, weighed, ir.Borrow(carry_out, mul(const(MAX_CHUNKS), row), divided))

    def segments(self, scope: Scope, start: _Boundary, last: ir.Expr, carry_out: ir.Buffer, base: ir.Expr) -> ir.Stmt:
        """Run the body for each segment. The first segment may continue a segment of an earlier chunk."""
        _, _, loop = self.outer.whole()

        def at(entry: Entry) -> ir.Stmt:
            goes_on = self.scope.fresh("goes_on", BOOL)
            condition = both(start.inside, ir.Compare("==", entry.positions.first, start.segment))
            inner = scope.with_carry_in(CarryIn(self.forall.var, goes_on, carry_out, base))
            return block(ir.Let(goes_on, condition), self.body(inner, entry))

        return loop(start.segment, last, at)

    def boundary(self, chunk: ir.Expr, chunks: ir.Expr, size: ir.Expr) -> tuple[ir.Stmt, _Boundary]:
        """The boundary at which a chunk begins."""
        if self.outer.repeats:
            return self.run_boundary(chunk, chunks, size)
        # If weights grow, weight(found - 1) < goal <= weight(found): the goal lies in the segment `above` = found - 1.
        # If it is the end of that segment, or the segment is light, the chunk begins at `found`, and `above` stays
        # whole. A light segment has at most 1 / HEAVY of a chunk's share: a chunk exceeds its share by no more.
        scope, walk = self.scope, self.outer
        segment, position = scope.fresh("segment"), scope.fresh("position")
        inside = scope.fresh("inside", BOOL)
        search, goal, found = at_weight(scope, (chunk, chunks), self.total, size, walk.weight, not walk.type.dynamic)
        above, share = scope.fresh("above"), floor_div(self.total, mul(chunks, const(HEAVY)))
        heavy = both(less(goal, walk.weight(found)), less(share, sub(walk.weight(found), walk.weight(above))))
        cut = block(ir.Set(segment, above), *self.cut(goal, above, position, inside))
        return block(
            *search,
            ir.Declare(segment, found),
            ir.Declare(position, self.first(found)),
            ir.Declare(inside, ir.Compare("<", const(0), const(0))),  # false
            ir.If(less(const(0), found), block(ir.Let(above, add(found, const(-1))), ir.If(heavy, cut))),
        ), _Boundary(segment, position, inside)

    def run_boundary(self, chunk: ir.Expr, chunks: ir.Expr, size: ir.Expr) -> tuple[ir.Stmt, _Boundary]:
        """The boundary in a level that repeats coordinates. It is inside a run of equal coordinates if the positions
        before and after it have the same coordinate."""
        walk, inside, grows = self.outer, self.scope.fresh("inside", BOOL), not self.outer.type.dynamic
        search, _, found = at_weight(self.scope, (chunk, chunks), self.total, size, walk.weight, grows)
        here, left = (walk.coordinate(position) for position in (found, add(found, const(-1))))
        return block(
            *search,
            ir.Declare(inside, ir.Compare("<", const(0), const(0))),  # false
            ir.If(both(less(const(0), found), less(found, size)), ir.Set(inside, ir.Compare("==", here, left))),
        ), _Boundary(found, found, inside)

    def cut(self, goal: ir.Expr, segment: ir.Expr, position: ir.Var, inside: ir.Var) -> list[ir.Stmt]:
        """Move the boundary into a heavy segment, to the position at which the preceding chunks have the weight `goal`.

        It is the smallest position n with goal - weight(segment) <= number of entries from the segment's start to n.
        """
        first, stop = self.first(segment), self.first(add(segment, const(1)))
        before = self.outer.weight(segment)
        search, found = lower_bound(
            self.scope, first, stop, lambda n: ir.Compare("<=", sub(goal, before), self.entries(first, n))
        )
        return [search, ir.Set(position, found), ir.Set(inside, less(first, found))]

    def entries(self, first: ir.Expr, stop: ir.Expr) -> ir.Expr:
        """Return the number of last-level entries between two positions of the second level."""
        return sub(self.leaf(stop), self.leaf(first))

    def leaf(self, position: ir.Expr) -> ir.Expr:
        return self.outer.leaf(position, 2)

    def first(self, segment: ir.Expr) -> ir.Expr:
        """The first position of a segment in the second level."""
        return self.outer.leaf(segment, 1, 2)

    def combine(self, chunks: ir.Expr, size: ir.Expr, carry_out: ir.Buffer, row: ir.Expr) -> ir.Stmt:
        """Add each chunk's carry-out to the target, at the coordinate of the segment that the chunk continues."""
        # Chunk 0 begins at position 0 and has no carry-out. The loop is serial and ascending, so the parts of a segment
        # are added in one order for any number of threads.
        chunk, n = self.scope.fresh("chunk"), self.scope.fresh("n")
        start, at = self.boundary(chunk, chunks, size)
        target, operation = self.target, self.stored.monoid.add

        def add_carry_out(entry: Entry) -> ir.Stmt:
            address = add(mul(entry.coordinate, row), n)
            part = ir.Load(carry_out, add(mul(chunk, row), n))
            return ir.For(n, const(0), row, ir.Store(target, address, part, accumulate=True, op=operation))

        one = self.outer.whole()[2](at.segment, add(at.segment, const(1)), add_carry_out)
        return ir.For(chunk, const(1), chunks, block(start, ir.If(at.inside, one)))
