"""Division of loops: into chunks for threads, and into runs of at most a given number of iterations.

The number of chunks and their bounds depend on the pattern and the sizes alone, so a result is bit-equal for any number
of threads. There are more chunks than threads; an idle thread claims the next chunk.

Sizes go up to 2⁶², so no product of two of them is computed: the bound of chunk c of n is c · ⌊size / n⌋ plus the
lesser of c and the rest, and the least part of a loop in a chunk is at most the loop.

A run ends after a given number of iterations. If a loop is cut into runs, its body is still emitted only once.
"""

from __future__ import annotations

from collections.abc import Callable

from jsparse.base.dataclass import dataclass
from jsparse.compiler.dtypes import BOOL
from jsparse.compiler.kernel import nodes as ir
from jsparse.compiler.kernel.algebra import add, at_most, block, ceil_div, const, floor_div, less, minimum, mul, sub
from jsparse.compiler.loops.nest import MAX_CHUNKS
from jsparse.compiler.lower.scope import Run, Scope

__all__ = [
    "NO",
    "YES",
    "Partials",
    "at_weight",
    "count_iteration",
    "for_each_chunk",
    "in_chunks",
    "in_run",
    "lower_bound",
    "tiles_in_run",
    "with_partials",
]


@dataclass(frozen=True, slots=True)
class Partials:
    """A reduction over chunks. `own(chunk, loops)` gives an accumulator to the loops of a chunk. `combine(chunks)` adds
    up the accumulators of all chunks."""

    own: Callable[[ir.Expr, ir.Stmt], ir.Stmt]
    combine: Callable[[ir.Expr], ir.Stmt]


def for_each_chunk(
    scope: Scope, work: ir.Expr, grain: int, body: Callable[[ir.Expr, ir.Expr], ir.Stmt], partials: Partials | None
) -> ir.Stmt:
    """Run `body(chunk, chunks)` for each chunk. There are min(MAX_CHUNKS, ⌈work / grain⌉) chunks, but at least one."""
    chunks, chunk = scope.fresh("chunks"), scope.fresh("chunk")
    wanted = ir.Binary("max", minimum(ceil_div(work, max(grain, 1)), const(MAX_CHUNKS)), const(1))
    inner = body(chunk, chunks)
    if partials is None:
        return block(ir.Let(chunks, wanted), ir.Parallel(chunk, chunks, inner))
    return block(
        ir.Let(chunks, wanted), ir.Parallel(chunk, chunks, partials.own(chunk, inner)), partials.combine(chunks)
    )


def in_chunks(
    scope: Scope,
    size: ir.Expr,
    grain: int,
    body: Callable[[ir.Expr, ir.Expr], ir.Stmt],
    partials: Partials | None = None,
) -> ir.Stmt:
    """Divide `range(size)` into equal chunks, and run `body(start, stop)` for each."""

    def part(chunk: ir.Expr, chunks: ir.Expr) -> ir.Stmt:
        start, stop = scope.fresh("start"), scope.fresh("stop")
        return block(
            ir.Let(start, _before(chunk, chunks, size)),
            ir.Let(stop, _before(add(chunk, const(1)), chunks, size)),
            body(start, stop),
        )

    return for_each_chunk(scope, size, grain, part, partials)


def _before(chunk: ir.Expr, chunks: ir.Expr, whole: ir.Expr) -> ir.Expr:
    """Return how many of `whole` items the chunks before this one have, if the items are divided equally.

    Let whole = chunks · q + r. Then the first r chunks have q + 1 items each, and the other chunks have q items each.
    This formula does not overflow 64 bits. The product chunk · whole could overflow.
    """
    each = floor_div(whole, chunks)
    rest = sub(whole, mul(each, chunks))
    return add(mul(chunk, each), minimum(chunk, rest))


def lower_bound(
    scope: Scope, first: ir.Expr, stop: ir.Expr, reaches: Callable[[ir.Expr], ir.Expr]
) -> tuple[ir.Stmt, ir.Var]:
    """The smallest n in [first, stop] for which `reaches(n)` holds (false, …, false, true, …), by bisection.

    A processor would mispredict every other branch of a bisection. So each step selects without a branch, and the
    number of steps depends on the length alone. Invariant: n is in [lo, lo + left]. A step tests the position
    lo + ⌈left / 2⌉ - 1. If `reaches` holds there, n is at most that position, and lo stays. Else n is greater, and the
    next position becomes lo. In both cases at most ⌊left / 2⌋ further positions are left.
    """
    lo, left, half, tested = scope.fresh("lo"), scope.fresh("left"), scope.fresh("half"), scope.fresh("tested")
    body = block(
        ir.Let(half, sub(left, floor_div(left, const(2)))),
        ir.Let(tested, sub(add(lo, half), const(1))),
        ir.Set(lo, ir.Select(reaches(tested), lo, add(lo, half))),
        ir.Set(left, sub(left, half)),
    )
    return block(ir.Declare(lo, first), ir.Declare(left, sub(stop, first)), ir.While(less(const(0), left), body)), lo


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
    search, found = lower_bound(scope, const(0), size, lambda n: ir.Compare("<=", goal, weight(n)))
    stmts: list[ir.Stmt] = [ir.Let(goal, _before(chunk, chunks, total)), search]
    return stmts if grows else [*stmts, ir.If(at_most(chunks, chunk), ir.Set(found, size))], goal, found


def with_partials(scope: Scope, loop: Callable[[Scope, Partials], ir.Stmt]) -> ir.Stmt:
    """Give each chunk of `loop` its own copy of the workspace to which the loop adds. Then add up the copies, in the
    order of the chunks."""
    workspace = scope.produced
    if workspace is None:
        raise ValueError("a reduction in parallel needs a workspace to reduce into")
    total, monoid = scope.registers[workspace.name], workspace.monoid
    own = scope.fresh(workspace.name, total.type)
    copies = ir.Buffer(scope.fresh("copies").name, total.type.scalar, -1, written=True)
    lanes = total.type.lanes

    def own_copy(chunk: ir.Expr, inner: ir.Stmt) -> ir.Stmt:
        return block(
            ir.Declare(own, ir.Const(monoid.zero, own.type)),
            inner,
            ir.Store(copies, mul(chunk, const(max(lanes, 1))), own),
        )

    def add_copies(chunks: ir.Expr) -> ir.Stmt:
        n = scope.fresh("n")
        copy = ir.Load(copies, mul(n, const(max(lanes, 1))), lanes)
        return ir.For(n, const(0), chunks, ir.Set(total, ir.Binary(monoid.add, total, copy)))

    body = loop(scope.with_register(workspace.name, own), Partials(own_copy, add_copies))
    return block(ir.LocalArray(copies, MAX_CHUNKS * max(lanes, 1)), body)


NO, YES = ir.Const(0, BOOL), ir.Const(1, BOOL)
NEVER = 2**63 - 1  # a position that no loop reaches


def in_run(
    scope: Scope, run: Run | None, first: ir.Expr, stop: ir.Expr, walk: Callable[[ir.Expr, ir.Expr], ir.Stmt]
) -> ir.Stmt:
    """Run `walk` from `first` to `stop`, cut into runs if `run` is given."""
    if run is None:
        return walk(first, stop)
    if run.left is None:
        if isinstance(first, ir.Const) and isinstance(stop, ir.Const):
            return _constant_loop_in_runs(scope, run, int(first.value), int(stop.value), walk)
        return _from_start(scope, run, first, stop, walk)
    start, end, going = scope.fresh("start"), scope.fresh("end"), scope.fresh("going", BOOL)
    return block(
        ir.Declare(start, first),
        ir.Declare(going, less(first, stop)),
        ir.While(going, _going_on(run, run.left, start, stop, end, going, less(end, stop), walk)),
    )


def _from_start(
    scope: Scope, run: Run, first: ir.Expr, stop: ir.Expr, walk: Callable[[ir.Expr, ir.Expr], ir.Stmt]
) -> ir.Stmt:
    """Divide a segment into runs. After each run, the comparison `after < goal` decides whether `run.ends` is executed.
    For the first run, the goal is the segment's end, so a segment with one run costs only this comparison. For later
    runs, the goal is greater than any position, so they always execute `run.ends`."""
    start, after, end = scope.fresh("start"), scope.fresh("after"), scope.fresh("end")
    goal, going = scope.fresh("goal"), scope.fresh("going", BOOL)
    ends = block(
        ir.Set(going, less(after, stop)),
        run.ends(ir.Compare("==", start, first), ir.Compare("==", going, NO)),
        ir.Set(start, end),
        ir.Set(goal, const(NEVER)),
    )
    step = block(
        ir.Let(after, add(start, const(run.size))),
        ir.Let(end, minimum(after, stop)),
        walk(start, end),
        ir.Set(going, NO),
        ir.If(less(after, goal), ends, rare=True),
    )
    registers = (ir.Declare(start, first), ir.Declare(goal, stop), ir.Declare(going, less(first, stop)))
    return block(*registers, ir.While(going, step))


def _going_on(
    run: Run,
    left: ir.Var,
    start: ir.Var,
    stop: ir.Expr,
    end: ir.Var,
    going: ir.Var,
    more: ir.Expr,
    walk: Callable[[ir.Expr, ir.Expr], ir.Stmt],
) -> ir.Stmt:
    """Continue the present run in this segment. If the run is not full at the end, the next segment continues it."""
    full = block(run.ends(NO, NO), ir.Set(left, const(run.size)), ir.Set(start, end), ir.Set(going, more))
    return block(
        ir.Let(end, minimum(add(start, left), stop)),
        walk(start, end),
        ir.Set(left, sub(left, sub(end, start))),
        ir.Set(going, NO),
        ir.If(ir.Compare("==", left, const(0)), full, rare=True),
    )


def _constant_loop_in_runs(
    scope: Scope, run: Run, first: int, stop: int, walk: Callable[[ir.Expr, ir.Expr], ir.Stmt]
) -> ir.Stmt:
    """Execute a loop with constant bounds in runs."""
    if stop - first <= run.size:
        return walk(const(first), const(stop))
    start, end = scope.fresh("start"), scope.fresh("end")
    whole = (stop - first) % run.size == 0
    after = add(start, const(run.size))
    ends = run.ends(ir.Compare("==", start, const(first)), ir.Compare("<=", const(stop), end))
    step = block(ir.Let(end, after if whole else minimum(after, const(stop))), walk(start, end), ends)
    return ir.For(start, const(first), const(stop), step, run.size)


def tiles_in_run(
    scope: Scope, run: Run, whole: int, lanes: int, rest: int, tile: Callable[[ir.Expr, int], ir.Stmt]
) -> ir.Stmt:
    """Execute the loop over full tiles in runs. A narrower last tile has its own run, or continues the present run if
    `run.left` is given."""
    if run.left is not None:
        start = scope.fresh("tile")
        one = ir.For(start, const(0), const(whole), count_iteration(run, tile(start, lanes)), lanes)
        return block(one, *([count_iteration(run, tile(const(whole), rest))] if rest else []))
    first, n = scope.fresh("start"), scope.fresh("tile")
    step = run.size * lanes
    last = NO if rest else ir.Compare("<=", const(whole), add(first, const(step)))
    inner = ir.For(n, first, minimum(add(first, const(step)), const(whole)), tile(n, lanes), lanes)
    runs = ir.For(first, const(0), const(whole), block(inner, run.ends(ir.Compare("==", first, const(0)), last)), step)
    return block(runs, *([tile(const(whole), rest), run.ends(NO, YES)] if rest else []))


def count_iteration(run: Run | None, turn: ir.Stmt) -> ir.Stmt:
    """Return `turn`, the code of one iteration, and code that counts the iteration and ends the run if it is full."""
    if run is None:
        return turn
    assert run.left is not None
    full = block(run.ends(NO, NO), ir.Set(run.left, const(run.size)))
    return block(
        turn, ir.Set(run.left, sub(run.left, const(1))), ir.If(ir.Compare("==", run.left, const(0)), full, rare=True)
    )
