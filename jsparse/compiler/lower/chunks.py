"""Division of loops: into chunks for threads, and into runs of at most a given number of iterations.

The number of chunks and their bounds depend on the pattern and the sizes alone, so a result is bit-equal for any number
of threads. There are more chunks than threads; an idle thread claims the next chunk.

Sizes go up to 2⁶², so no product of two of them is computed: the bound of chunk c of n is c · ⌊size / n⌋ plus the
lesser of c and the rest, and the least part of a loop in a chunk is at most the loop.

A run ends after a given number of iterations. If a loop is cut into runs, its body is still emitted only once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from jsparse.base.dataclass import dataclass
from jsparse.compiler.dtypes import BOOL
from jsparse.compiler.kernel import nodes as ir
from jsparse.compiler.kernel.algebra import add, at_most, block, ceil_div, const, floor_div, less, minimum, mul, sub
from jsparse.compiler.loops.nest import MAX_CHUNKS, Assign, Forall
from jsparse.compiler.loops.nest import Stmt as LoopStmt
from jsparse.compiler.lower.scope import Run, Scope

Loop = Callable[[ir.Expr, ir.Expr], ir.Stmt]  # the loop from its first argument up to its second
Lower = Callable[[LoopStmt, Scope], ir.Stmt]


@dataclass(frozen=True, slots=True)
class Partials:
    """A reduction over chunks. `private(chunk, loops)` gives a private accumulator to the loops of a chunk.
    `combine(chunks)` adds up the accumulators of all chunks."""

    private: Callable[[ir.Expr, ir.Stmt], ir.Stmt]
    combine: Callable[[ir.Expr], ir.Stmt]


class Lowerer(Protocol):
    """The functions of `lower.lower` that other modules call."""

    def stmt(self, stmt: LoopStmt, scope: Scope) -> ir.Stmt: ...
    def forall(self, loop: Forall, scope: Scope, partials: Partials | None = None) -> ir.Stmt: ...
    def store_at(
        self, assign: Assign, address: ir.Expr, value: ir.Expr, scope: Scope, rounded: bool = False
    ) -> ir.Stmt: ...


def for_each_chunk(scope: Scope, work: ir.Expr, grain: int, body: Loop, partials: Partials | None) -> ir.Stmt:
    """Run `body(chunk, chunks)` for each chunk. There are min(MAX_CHUNKS, ⌈work / grain⌉) chunks, but at least one."""
    # The count depends on the work alone, never on the number of threads: it fixes the order of additions.
    chunks, chunk = scope.fresh("chunks"), scope.fresh("chunk")
    count = ir.Binary("max", minimum(ceil_div(work, max(grain, 1)), const(MAX_CHUNKS)), const(1))
    inner, after = body(chunk, chunks), block()
    if partials is not None:
        inner, after = partials.private(chunk, inner), partials.combine(chunks)
    return block(ir.Bind(chunks, count), ir.ParallelFor(chunk, chunks, inner), after)


def between(boundary: Callable[[ir.Expr, ir.Expr], tuple[ir.Stmt, ir.Expr]], loop: Loop) -> Loop:
    """Return a body for `for_each_chunk`: `loop` from the boundary of a chunk to the boundary of the next one.

    `boundary(chunk, chunks)` gives statements that find where a chunk begins, and the place.
    """

    def part(chunk: ir.Expr, chunks: ir.Expr) -> ir.Stmt:
        (find_start, start), (find_stop, stop) = boundary(chunk, chunks), boundary(add(chunk, const(1)), chunks)
        return block(find_start, find_stop, loop(start, stop))

    return part


def in_chunks(scope: Scope, size: ir.Expr, grain: int | None, body: Loop, partials: Partials | None = None) -> ir.Stmt:
    """Divide `range(size)` into equal chunks, and run `body(start, stop)` for each. Without a grain, run it once."""
    if grain is None:
        return body(const(0), size)

    def part(chunk: ir.Expr, chunks: ir.Expr) -> ir.Stmt:
        start, stop = scope.fresh("start"), scope.fresh("stop")
        return block(
            ir.Bind(start, _before(chunk, chunks, size)),
            ir.Bind(stop, _before(add(chunk, const(1)), chunks, size)),
            body(start, stop),
        )

    return for_each_chunk(scope, size, grain, part, partials)


def _before(chunk: ir.Expr, chunks: ir.Expr, size: ir.Expr) -> ir.Expr:
    """Return how many of `size` items the chunks before this one have, if the items are divided equally.

    Let size = chunks · q + r. Then the first r chunks have q + 1 items each, and the other chunks have q items each.
    This formula does not overflow 64 bits. The product chunk · size could overflow.
    """
    each = floor_div(size, chunks)
    return add(mul(chunk, each), minimum(chunk, sub(size, mul(each, chunks))))


def lower_bound(
    scope: Scope, first: ir.Expr, stop: ir.Expr, reaches: Callable[[ir.Expr], ir.Expr]
) -> tuple[ir.Stmt, ir.Var]:
    """The smallest n in [first, stop] for which `reaches(n)` holds (false, …, false, true, …), by bisection.

    A processor would mispredict every other branch of a bisection. So each step selects without a branch, and the
    number of steps depends on the length alone. Invariant: n is in [lo, lo + length]. A step tests the position
    lo + ⌈length / 2⌉ - 1. If `reaches` holds there, n is at most that position, and lo stays. Else n is greater, and
    the next position becomes lo. In both cases at most ⌊length / 2⌋ positions are left to test.
    """
    lo, length, half, tested = scope.fresh("lo"), scope.fresh("left"), scope.fresh("half"), scope.fresh("tested")
    body = block(
        ir.Bind(half, sub(length, floor_div(length, const(2)))),
        ir.Bind(tested, sub(add(lo, half), const(1))),
        ir.Set(lo, ir.Select(reaches(tested), lo, add(lo, half))),
        ir.Set(length, sub(length, half)),
    )
    search = ir.While(less(const(0), length), body)
    return block(ir.Declare(lo, first), ir.Declare(length, sub(stop, first)), search), lo


def at_weight(
    scope: Scope,
    part: tuple[ir.Expr, ir.Expr],
    total: ir.Expr,
    size: ir.Expr,
    weight: Callable[[ir.Expr], ir.Expr],
    grows: bool,
) -> tuple[list[ir.Stmt], ir.Var, ir.Var]:
    """Find the position at which a chunk begins, if positions are divided into chunks of equal weight.

    Args:
        part: the index of the chunk, and the number of chunks.
        total: the weight of all positions.
        size: the number of positions.
        weight: position → the weight of all positions before it.
        grows: whether weights certainly grow. The index arrays of a dynamic pattern may hold anything, so its weights
            may not grow. A search could then find the end of the last chunk too early, and no chunk would have the
            positions after it. So this end is set to `size`. Boundaries never decrease, for any index arrays.

    Returns the statements that find the boundary, the weight that the chunks before it should have, and the boundary.
    """
    (chunk, chunks), goal = part, scope.fresh("goal")
    search, boundary = lower_bound(scope, const(0), size, lambda n: ir.Compare("<=", goal, weight(n)))
    stmts: list[ir.Stmt] = [ir.Bind(goal, _before(chunk, chunks, total)), search]
    if not grows:
        stmts.append(ir.If(at_most(chunks, chunk), ir.Set(boundary, size)))
    return stmts, goal, boundary


def with_private_sum(scope: Scope, loop: Callable[[Scope, Partials], ir.Stmt]) -> ir.Stmt:
    """Give each chunk of `loop` its own copy of the workspace to which the loop adds. Then add up the copies, in the
    order of the chunks."""
    workspace = scope.produced
    if workspace is None:
        raise ValueError("a reduction in parallel needs a workspace to reduce into")
    total, monoid = scope.registers[workspace.name], workspace.monoid
    lanes, width = total.type.lanes, max(total.type.lanes, 1)
    private = scope.fresh(workspace.name, total.type)
    copies = ir.Buffer(scope.fresh("copies").name, total.type.scalar, -1, written=True)

    def with_copy(chunk: ir.Expr, inner: ir.Stmt) -> ir.Stmt:
        start = ir.Declare(private, ir.Const(monoid.zero, private.type))
        return block(start, inner, ir.Store(copies, mul(chunk, const(width)), private))

    def add_copies(chunks: ir.Expr) -> ir.Stmt:
        n = scope.fresh("n")
        copy = ir.Load(copies, mul(n, const(width)), lanes)
        return ir.For(n, const(0), chunks, ir.Set(total, ir.Binary(monoid.add, total, copy)))

    body = loop(scope.with_register(workspace.name, private), Partials(with_copy, add_copies))
    return block(ir.LocalArray(copies, MAX_CHUNKS * width), body)


NO, YES = ir.Const(0, BOOL), ir.Const(1, BOOL)
NEVER = 2**63 - 1  # a position that no loop reaches


def in_run(scope: Scope, run: Run | None, first: ir.Expr, stop: ir.Expr, walk: Loop) -> ir.Stmt:
    """Run `walk` from `first` to `stop`, cut into runs if `run` is given."""
    if run is None:
        return walk(first, stop)
    if run.left is None:
        return _from_start(scope, run, first, stop, walk)
    # Another segment may have begun the present run, and if the run is not full at the end of this segment, the next
    # one continues it. Invariant: `left` iterations of the run are left, at least one.
    start, end, going = scope.fresh("start"), scope.fresh("end"), scope.fresh("going", BOOL)
    full = block(
        run.ends(NO, NO), ir.Set(run.left, const(run.size)), ir.Set(start, end), ir.Set(going, less(end, stop))
    )
    step = block(
        ir.Bind(end, minimum(add(start, run.left), stop)),
        walk(start, end),
        ir.Set(run.left, sub(run.left, sub(end, start))),
        ir.Set(going, NO),
        ir.If(ir.Compare("==", run.left, const(0)), full, rare=True),
    )
    return block(ir.Declare(start, first), ir.Declare(going, less(first, stop)), ir.While(going, step))


def _from_start(scope: Scope, run: Run, first: ir.Expr, stop: ir.Expr, walk: Loop) -> ir.Stmt:
    """Divide a segment, at which a run begins, into runs."""
    if isinstance(first, ir.Const) and isinstance(stop, ir.Const):
        length = int(stop.value) - int(first.value)
        if length <= run.size:
            return walk(first, stop)
        start, end = scope.fresh("start"), scope.fresh("end")
        after = add(start, const(run.size))
        ends = run.ends(ir.Compare("==", start, first), ir.Compare("<=", stop, end))
        step = block(ir.Bind(end, minimum(after, stop) if length % run.size else after), walk(start, end), ends)
        return ir.For(start, first, stop, step, run.size)
    # After each run, the comparison `after < goal` decides whether `run.ends` is executed. For the first run, the goal
    # is the segment's end, so a segment with one run costs only this comparison. For later runs, the goal is greater
    # than any position, so they always execute `run.ends`.
    start, after, end = scope.fresh("start"), scope.fresh("after"), scope.fresh("end")
    goal, going = scope.fresh("goal"), scope.fresh("going", BOOL)
    ends = block(
        ir.Set(going, less(after, stop)),
        run.ends(ir.Compare("==", start, first), ir.Compare("==", going, NO)),
        ir.Set(start, end),
        ir.Set(goal, const(NEVER)),
    )
    step = block(
        ir.Bind(after, add(start, const(run.size))),
        ir.Bind(end, minimum(after, stop)),
        walk(start, end),
        ir.Set(going, NO),
        ir.If(less(after, goal), ends, rare=True),
    )
    registers = (ir.Declare(start, first), ir.Declare(goal, stop), ir.Declare(going, less(first, stop)))
    return block(*registers, ir.While(going, step))


def tiles_in_run(
    scope: Scope, run: Run, full: int, lanes: int, remainder: int, tile: Callable[[ir.Expr, int], ir.Stmt]
) -> ir.Stmt:
    """Execute the loop over full tiles in runs. A narrower last tile has its own run, or continues the present run if
    `run.left` is given."""
    last = [tile(const(full), remainder)] if remainder else []
    if run.left is not None:
        start = scope.fresh("tile")
        tiles = ir.For(start, const(0), const(full), count_iteration(run, tile(start, lanes)), lanes)
        return block(tiles, *(count_iteration(run, narrow) for narrow in last))
    first, n, step = scope.fresh("start"), scope.fresh("tile"), run.size * lanes
    is_last = NO if remainder else ir.Compare("<=", const(full), add(first, const(step)))
    tiles = ir.For(n, first, minimum(add(first, const(step)), const(full)), tile(n, lanes), lanes)
    ends = run.ends(ir.Compare("==", first, const(0)), is_last)
    runs = ir.For(first, const(0), const(full), block(tiles, ends), step)
    return block(runs, *last, *([run.ends(NO, YES)] if remainder else []))


def count_iteration(run: Run | None, turn: ir.Stmt) -> ir.Stmt:
    """Return `turn`, the code of one iteration, and code that counts the iteration and ends the run if it is full."""
    if run is None:
        return turn
    assert run.left is not None
    full = block(run.ends(NO, NO), ir.Set(run.left, const(run.size)))
    return block(
        turn, ir.Set(run.left, sub(run.left, const(1))), ir.If(ir.Compare("==", run.left, const(0)), full, rare=True)
    )
