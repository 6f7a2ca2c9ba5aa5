"""Division of a loop over threads.

The number of chunks and their bounds depend on the pattern and the sizes alone, so a result is bit-equal for any number
of threads. There are more chunks than threads; an idle thread claims the next chunk.
"""

from __future__ import annotations

from collections.abc import Callable

from jsparse.base.dataclass import dataclass
from jsparse.compiler.kernel import nodes as ir
from jsparse.compiler.kernel.algebra import add, at_most, block, ceil_div, const, floor_div, less, minimum, mul, sub
from jsparse.compiler.loops.nest import MAX_CHUNKS
from jsparse.compiler.lower.scope import Scope

__all__ = ["Partials", "at_weight", "chunked", "in_chunks", "lower_bound", "with_partials"]


@dataclass(frozen=True, slots=True)
class Partials:
    """A reduction over chunks: `own(chunk, loops)` gives a chunk its accumulator, `combine(chunks)` adds them up."""

    own: Callable[[ir.Expr, ir.Stmt], ir.Stmt]
    combine: Callable[[ir.Expr], ir.Stmt]


def chunked(
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

    return chunked(scope, size, grain, part, partials)


def _before(chunk: ir.Expr, chunks: ir.Expr, whole: ir.Expr) -> ir.Expr:
    """⌊chunk · whole / chunks⌋, the share of `whole` that belongs to the chunks before this one.

    The product may exceed 64 bits. With whole = chunks · q + r it is chunk · q + ⌊chunk · r / chunks⌋, which does not.
    """
    each = floor_div(whole, chunks)
    rest = sub(whole, mul(each, chunks))
    return add(mul(chunk, each), floor_div(mul(chunk, rest), chunks))


def lower_bound(
    scope: Scope, first: ir.Expr, stop: ir.Expr, reaches: Callable[[ir.Expr], ir.Expr]
) -> tuple[ir.Stmt, ir.Var]:
    """The smallest n in [first, stop] for which `reaches(n)` holds (false, …, false, true, …), by bisection.

    A processor would mispredict every other branch of a bisection. So each step selects without a branch, and the
    number of steps depends on the length alone. Invariant: n is in [lo, lo + left]. A step tests the position
    lo + ⌈left / 2⌉ - 1. If `reaches` holds there, n is at most that position, else it is in the half above. Both
    halves fit in ⌊left / 2⌋ positions after their first one.
    """
    lo, left, half = scope.fresh("lo"), scope.fresh("left"), scope.fresh("half")
    reached = reaches(sub(add(lo, half), const(1)))
    body = block(
        ir.Let(half, sub(left, floor_div(left, const(2)))),
        ir.Set(lo, ir.Select(reached, lo, add(lo, half))),
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
    """The boundary at which chunk `part[0]` of `part[1]` chunks of equal weight begins.

    Args:
        total: the weight of all positions.
        weight: position → the weight of all positions before it.
        grows: whether weights certainly grow. The index arrays of a dynamic pattern may hold anything, so the search
            may find the last boundary too early, and no chunk would have the positions after it. In this case the last
            boundary is set to `size`. Boundaries never decrease, for any index arrays.

    Returns the statements that find the boundary, the weight that the chunks before it should have, and its position.
    """
    (chunk, chunks), goal = part, scope.fresh("goal")
    search, found = lower_bound(scope, const(0), size, lambda n: ir.Compare("<=", goal, weight(n)))
    stmts: list[ir.Stmt] = [ir.Let(goal, _before(chunk, chunks, total)), search]
    return stmts if grows else [*stmts, ir.If(at_most(chunks, chunk), ir.Set(found, size))], goal, found


def with_partials(scope: Scope, loop: Callable[[Scope, Partials], ir.Stmt]) -> ir.Stmt:
    """Give each chunk of `loop` its own copy of the workspace in production, and add the copies chunk by chunk."""
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
