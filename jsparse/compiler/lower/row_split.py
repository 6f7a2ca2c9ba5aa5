"""Long-row splitting: division of a loop over threads in which long segments are divided, too.

A chunk ends at a position of the second level: where a segment ends, or inside a heavy segment. If a segment is cut,
its first part is stored like a whole segment. Each later part is the first work of some chunk: its sum is kept in that
chunk's carry-out, and all carry-outs are added at the end, in the order of the chunks. Merge-path SpMV does the same
(Merrill and Garland, "Merge-based parallel sparse matrix-vector multiplication", SC 2016): there, too, a segment and an
entry weigh 1 each, and a bisection finds the bounds of each chunk. Here a light segment stays whole, so that a chunk of
light segments needs no carry-out. Chunk bounds depend on the pattern alone, so results are bit-equal for any number of
threads.

If the first level stores a coordinate once for each of its entries (as in coo), the run of equal coordinates is the
segment, and a chunk may end anywhere in it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

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


@dataclass(frozen=True, slots=True)
class _Boundary:
    """The start of a chunk: a position in each of two levels, and whether the second position is inside a segment."""

    segment: ir.Var
    position: ir.Var
    inside: ir.Var


def split_loop(scope: Scope, loop: Forall, domain: LevelIteration, body: Callable[[Scope, Entry], ir.Stmt]) -> ir.Stmt:
    """Divide the loop over a pattern's first level, so that no chunk has much more work than any other chunk."""
    assert loop.parallel is not None
    walk, total = LevelWalk(scope, domain, loop.var), scope.fresh("total")
    assign = next(a for a in assignments(loop) if a.target.tensor in scope.storage.problem.type_of)
    target, row = scope.storage.by_name[assign.target.tensor], scope.storage.stride(assign.target, 0)
    size, prelude, entries = walk.whole()
    # Only the first segment of a chunk can have begun in an earlier one. So a chunk needs one carry-out, of `row`
    # elements: the target's at one coordinate of the variable. There are at most MAX_CHUNKS chunks.
    carry_out = ir.Buffer(scope.fresh("carry_out").name, Type(target.type.dtype), -1, True)

    def part(chunk: ir.Expr, chunks: ir.Expr) -> ir.Stmt:
        find_start, start = _boundary(walk, chunk, chunks, size, total)
        find_stop, stop = _boundary(walk, add(chunk, const(1)), chunks, size, total)
        inner, last, end = scope, stop.segment, block()
        if not walk.repeats:
            # If the chunk ends inside of segment `stop.segment`, it works on that segment, too. The position bounds cut
            # its first and its last segment.
            last = scope.fresh("last")
            further = ir.If(stop.inside, ir.Set(last, add(stop.segment, const(1))))
            end = block(ir.Declare(last, stop.segment), further)
            inner = scope.with_position_bounds(LevelIteration(domain.pattern, 1), start.position, stop.position)

        def at(entry: Entry) -> ir.Stmt:
            goes_on = scope.fresh("goes_on", BOOL)
            condition = both(start.inside, ir.Compare("==", entry.positions.first, start.segment))
            carry = CarryIn(loop.var, goes_on, carry_out, mul(chunk, row))
            return block(ir.Bind(goes_on, condition), body(replace(inner, carry_in=carry), entry))

        return block(find_start, find_stop, end, entries(start.segment, last, at))

    def combine(chunks: ir.Expr) -> ir.Stmt:
        # Chunk 0 begins at position 0 and has no carry-out. The loop is serial and ascending, so the parts of a segment
        # are added in one order for any number of threads.
        chunk, n = scope.fresh("chunk"), scope.fresh("n")
        find_start, start = _boundary(walk, chunk, chunks, size, total)

        def add_carry_out(entry: Entry) -> ir.Stmt:
            address = add(mul(entry.coordinate, row), n)
            carry = ir.Load(carry_out, add(mul(chunk, row), n))
            store = ir.Store(target, address, carry, accumulate=True, op=assign.monoid.add)
            return ir.For(n, const(0), row, store)

        one = entries(start.segment, add(start.segment, const(1)), add_carry_out)
        return ir.For(chunk, const(1), chunks, block(find_start, ir.If(start.inside, one)))

    chunks = for_each_chunk(scope, total, loop.parallel.grain, part, Partials(lambda _, loops: loops, combine))
    weight = ir.Bind(total, walk.weight(size))
    return block(*prelude, weight, ir.Borrow(carry_out, mul(const(MAX_CHUNKS), row), chunks))


def _boundary(
    walk: LevelWalk, chunk: ir.Expr, chunks: ir.Expr, size: ir.Expr, total: ir.Expr
) -> tuple[ir.Stmt, _Boundary]:
    """The boundary at which a chunk begins, after the statements that find it. The entries of all `size` segments weigh
    `total`."""
    scope, inside = walk.scope, walk.scope.fresh("inside", BOOL)
    search, goal, end = at_weight(scope, (chunk, chunks), total, size, walk.weight, not walk.type.dynamic)
    outside = ir.Declare(inside, ir.Compare("<", const(0), const(0)))  # false
    if walk.repeats:
        # It is inside a run of equal coordinates if the positions before and after it have the same one.
        here, previous = (walk.coordinate(position) for position in (end, add(end, const(-1))))
        same = ir.Set(inside, ir.Compare("==", here, previous))
        within = ir.If(both(less(const(0), end), less(end, size)), same)
        return block(*search, outside, within), _Boundary(end, end, inside)
    # If weights grow, weight(end - 1) < goal <= weight(end): the goal lies in the segment `above` = end - 1. If
    # it is the end of that segment, or the segment is light, the chunk begins at `end`, and `above` stays whole. A
    # light segment has at most 1 / HEAVY of a chunk's share: a chunk exceeds its share by no more.
    segment, position, above = scope.fresh("segment"), scope.fresh("position"), scope.fresh("above")
    share = floor_div(total, mul(chunks, const(HEAVY)))
    heavy = both(less(goal, walk.weight(end)), less(share, sub(walk.weight(end), walk.weight(above))))
    # In a heavy segment, the chunk begins at the smallest position n of the second level before which the segment has
    # at least goal - weight(above) last-level entries.
    first, stop = (walk.leaf(place, 1, 2) for place in (above, add(above, const(1))))
    before = sub(goal, walk.weight(above))
    bisect, cut = lower_bound(
        scope, first, stop, lambda n: ir.Compare("<=", before, sub(walk.leaf(n, 2), walk.leaf(first, 2)))
    )
    move = block(ir.Set(segment, above), bisect, ir.Set(position, cut), ir.Set(inside, less(first, cut)))
    start = (ir.Declare(segment, end), ir.Declare(position, walk.leaf(end, 1, 2)), outside)
    into = ir.If(less(const(0), end), block(ir.Bind(above, add(end, const(-1))), ir.If(heavy, move)))
    return block(*search, *start, into), _Boundary(segment, position, inside)
