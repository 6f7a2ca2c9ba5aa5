"""Code around the loops that write a target in memory: it clears elements, and gives chunks their own copies.

Loops may add to elements of a target, or leave some of them out. These elements are first set to the zero of sums.

If several iterations of a parallel loop add to the same elements of a target, each chunk adds to its own copy of the
target. The copies are added in the order of the chunks. The number of chunks does not depend on the number of threads,
so results are bit-equal for any number of threads. Copies have the dtype of arithmetic, and the sum is narrowed at the
end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from jsparse.base.dataclass import dataclass
from jsparse.compiler.dtypes import Type, accumulator
from jsparse.compiler.kernel.algebra import add, block, cast, const, mul, sub
from jsparse.compiler.kernel.nodes import Borrow, Buffer, Const, Expr, For, Load, Stmt, Store, Var
from jsparse.compiler.loops.domain import LevelIteration
from jsparse.compiler.loops.nest import MAX_CHUNKS, Assign, Clear, Forall, assignments
from jsparse.compiler.lower.chunks import Partials, in_chunks
from jsparse.compiler.lower.levels import LevelWalk
from jsparse.compiler.lower.scope import Scope
from jsparse.compiler.problem import Positions

CLEAR_GRAIN = 1 << 16  # elements of a chunk: waking a thread costs more than clearing fewer
ADD_GRAIN = 1 << 12  # elements of a chunk that adds the copies: waking a thread costs more than adding fewer


def clear_target(clear: Clear, scope: Scope) -> Stmt:
    """Set elements of the target to zero, in parallel where there may be many."""
    array = scope.arrays.get(clear.target.tensor)
    if array is not None:
        return _zeros(clear, scope, const(0), array.used)
    if clear.unused:
        return _clear_unused(clear, scope)
    size = scope.storage.size_of(clear.target)
    return in_chunks(scope, size, CLEAR_GRAIN, lambda start, stop: _zeros(clear, scope, start, stop))


def _zeros(clear: Clear, scope: Scope, start: Expr, stop: Expr) -> Stmt:
    """Set the elements from `start` to `stop` to zero."""
    buffer = scope.storage.by_name[clear.target.tensor]
    return clear_elements(buffer, scope.fresh("n"), start, stop, clear.monoid.zero)


def clear_elements(buffer: Buffer, n: Var, start: Expr, stop: Expr, zero: float = 0) -> Stmt:
    """Set the elements `n` of a buffer from `start` to `stop` to the zero of sums."""
    value = cast(Const(zero, Type(accumulator(buffer.type.dtype))), buffer.type.dtype)
    return For(n, start, stop, Store(buffer, n, value))


def _clear_unused(clear: Clear, scope: Scope) -> Stmt:
    """Set unused elements to zero: positions before the first segment of the target's pattern, and after the last."""
    storage, target = scope.storage, clear.target
    number, axis = next(
        (n, x) for n, x in enumerate(storage.problem.type_of[target.tensor].axes) if isinstance(x, Positions)
    )
    walk = LevelWalk(scope, LevelIteration(axis.pattern, 0), storage.problem.level_variables[axis.pattern][0])
    before, slot = storage.outer_size(target, number), storage.stride(target, number)
    whole = mul(storage.position_count(axis.pattern), slot)
    first, stop = (mul(walk.leaf(const(n), 0), slot) for n in (0, 1))

    def part(start: Expr, end: Expr) -> Stmt:
        n = scope.fresh("n")
        base = mul(n, whole)
        return For(n, const(0), before, _zeros(clear, scope, add(base, start), add(base, end)))

    behind = in_chunks(scope, sub(whole, stop), CLEAR_GRAIN, lambda lo, hi: part(add(stop, lo), add(stop, hi)))
    return block(part(const(0), first), behind)


@dataclass(frozen=True, slots=True)
class _OwnSum:
    """A target to which several iterations of a parallel loop add.

    Attributes:
        target: the target in memory.
        own: the copy of a chunk.
        copies: the finished copies of all chunks, one after the other.
        size: the number of elements of each copy.
        adds: whether the sum is added to what the target holds, instead of replacing it.
    """

    target: Buffer
    own: Buffer
    copies: Buffer
    size: Expr
    adds: bool


def with_own_sums(loop: Forall, scope: Scope, lowered: Callable[[Scope, Partials], Stmt]) -> Stmt:
    """Lower a loop so that each chunk has its own copy of every target to which several iterations of the loop add."""
    sums = {assign.target.tensor: _own_sum(assign, scope) for assign in _sums_across_iterations(loop, scope)}

    def own_copies(chunk: Expr, inner: Stmt) -> Stmt:
        for each in sums.values():
            n = scope.fresh("n")
            done = Store(each.copies, add(mul(chunk, each.size), n), Load(each.own, n))
            inner = Borrow(each.own, each.size, block(inner, For(n, const(0), each.size, done)))
        return inner

    def add_copies(chunks: Expr) -> Stmt:
        return block(*(_add_copies(each, chunks, scope) for each in sums.values()))

    storage = scope.storage.with_copies({name: each.own for name, each in sums.items()})
    body = lowered(replace(scope, storage=storage), Partials(own_copies, add_copies))
    for each in sums.values():
        body = Borrow(each.copies, mul(const(MAX_CHUNKS), each.size), body, zeros=False)
    return body


def _sums_across_iterations(loop: Forall, scope: Scope) -> list[Assign]:
    """Return the assignments by which several iterations of a loop add to the same element of a result."""
    problem = scope.storage.problem
    results = {s.target.tensor for s in problem.statements if s.target.tensor not in problem.temporaries}
    found = [a for a in assignments(loop) if a.target.tensor in results]
    return [a for a in found if not problem.with_parts(a.target.variables()).issuperset(loop.variables)]


def _own_sum(assign: Assign, scope: Scope) -> _OwnSum:
    name, copy = assign.target.tensor, scope.storage.copies.get(assign.target.tensor)
    type_ = Type(assign.dtype) if copy is None else copy.type  # a `Widened` target has a copy in float64
    own, copies = (Buffer(scope.fresh(f"{name} {what}").name, type_, -1, True) for what in ("of chunk", "copies"))
    adds = copy is None and bool(scope.storage.problem.type_of[name].view_of)
    return _OwnSum(scope.storage.by_name[name], own, copies, scope.storage.size_of(assign.target), adds)


def _add_copies(each: _OwnSum, chunks: Expr, scope: Scope) -> Stmt:
    """Add the copies of later chunks to the first chunk's copy, and write the sums to the target, or add them there."""

    def body(start: Expr, stop: Expr) -> Stmt:
        n, m, chunk = scope.fresh("n"), scope.fresh("n"), scope.fresh("chunk")
        more = Store(each.copies, n, Load(each.copies, add(mul(chunk, each.size), n)), True)
        total = cast(Load(each.copies, m), each.target.type.dtype)
        return block(
            For(chunk, const(1), chunks, For(n, start, stop, more)),
            For(m, start, stop, Store(each.target, m, total, each.adds)),
        )

    return in_chunks(scope, each.size, ADD_GRAIN, body)
