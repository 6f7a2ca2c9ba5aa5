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
from jsparse.compiler.loops.nest import MAX_CHUNKS, Clear, Forall, assignments
from jsparse.compiler.lower.chunks import Partials, in_chunks
from jsparse.compiler.lower.levels import LevelWalk
from jsparse.compiler.lower.scope import Scope
from jsparse.compiler.problem import Positions

CLEAR_GRAIN = 1 << 16  # elements of a chunk: waking a thread costs more than clearing fewer
ADD_GRAIN = 1 << 12  # elements of a chunk that adds the copies: waking a thread costs more than adding fewer


def clear_target(clear: Clear, scope: Scope) -> Stmt:
    """Set elements of the target to zero, in parallel where there may be many."""
    storage, target, array = scope.storage, clear.target, scope.arrays.get(clear.target.tensor)

    def zeros(start: Expr, stop: Expr) -> Stmt:
        return clear_elements(storage.by_name[target.tensor], scope.fresh("n"), start, stop, clear.monoid.zero)

    if array is not None:
        return zeros(const(0), array.used)
    if not clear.unused:
        return in_chunks(scope, storage.size_of(target), CLEAR_GRAIN, zeros)
    # Unused are the positions before the first segment of the target's pattern, and those after the last one.
    axes = enumerate(storage.problem.type_of[target.tensor].axes)
    number, axis = next((n, x) for n, x in axes if isinstance(x, Positions))
    walk = LevelWalk(scope, LevelIteration(axis.pattern, 0), storage.problem.level_variables[axis.pattern][0])
    slot = storage.stride(target, number)
    size = mul(storage.position_count(axis.pattern), slot)
    first, stop = (mul(walk.leaf(const(n), 0), slot) for n in (0, 1))

    def part(start: Expr, end: Expr) -> Stmt:
        n = scope.fresh("n")
        base = mul(n, size)
        return For(n, const(0), storage.outer_size(target, number), zeros(add(base, start), add(base, end)))

    behind = in_chunks(scope, sub(size, stop), CLEAR_GRAIN, lambda lo, hi: part(add(stop, lo), add(stop, hi)))
    return block(part(const(0), first), behind)


def clear_elements(buffer: Buffer, n: Var, start: Expr, stop: Expr, zero: float = 0) -> Stmt:
    """Set the elements `n` of a buffer from `start` to `stop` to the zero of sums."""
    value = cast(Const(zero, Type(accumulator(buffer.type.dtype))), buffer.type.dtype)
    return For(n, start, stop, Store(buffer, n, value))


@dataclass(frozen=True, slots=True)
class _PrivateSum:
    """A target to which several iterations of a parallel loop add.

    Attributes:
        target: the target in memory.
        copy: the copy of a chunk.
        copies: the finished copies of all chunks, one after the other.
        size: the number of elements of each copy.
        adds: whether the sum is added to what the target holds, instead of replacing it.
    """

    target: Buffer
    copy: Buffer
    copies: Buffer
    size: Expr
    adds: bool


def with_private_targets(loop: Forall, scope: Scope, lowered: Callable[[Scope, Partials], Stmt]) -> Stmt:
    """Lower a loop so that each chunk has its own copy of every target to which several iterations of the loop add."""
    storage, problem, sums = scope.storage, scope.storage.problem, dict[str, _PrivateSum]()
    results = {s.target.tensor for s in problem.statements}.difference(problem.temporaries)
    for assign in assignments(loop):
        name, target = assign.target.tensor, assign.target
        if name in results and not problem.with_parts(target.variables()).issuperset(loop.variables):
            wide = storage.copies.get(name)
            type_ = Type(assign.dtype) if wide is None else wide.type  # a `Widened` target has a copy in float64
            names = (scope.fresh(f"{name} {what}").name for what in ("of chunk", "copies"))
            copy, copies = (Buffer(buffer, type_, -1, True) for buffer in names)
            adds = wide is None and bool(problem.type_of[name].view_of)
            sums[name] = _PrivateSum(storage.by_name[name], copy, copies, storage.size_of(target), adds)

    def with_copies(chunk: Expr, inner: Stmt) -> Stmt:
        # A chunk adds to borrowed memory, and stores its sums at its place among all copies when it is done.
        for each in sums.values():
            n = scope.fresh("n")
            done = Store(each.copies, add(mul(chunk, each.size), n), Load(each.copy, n))
            inner = Borrow(each.copy, each.size, block(inner, For(n, const(0), each.size, done)))
        return inner

    def add_copies(chunks: Expr) -> Stmt:
        return block(*(_add_copies(each, chunks, scope) for each in sums.values()))

    private = storage.with_copies({name: each.copy for name, each in sums.items()})
    body = lowered(replace(scope, storage=private), Partials(with_copies, add_copies))
    for each in sums.values():
        body = Borrow(each.copies, mul(const(MAX_CHUNKS), each.size), body, zeros=False)
    return body


def _add_copies(each: _PrivateSum, chunks: Expr, scope: Scope) -> Stmt:
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
