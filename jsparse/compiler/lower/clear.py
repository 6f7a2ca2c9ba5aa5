"""Clearing: elements of a target that loops add to, or may leave out, are set to the zero of sums."""

from __future__ import annotations

from jsparse.compiler.dtypes import accumulator
from jsparse.compiler.kernel.algebra import add, block, cast, const, mul, sub
from jsparse.compiler.kernel.nodes import Const, Expr, For, Stmt, Store
from jsparse.compiler.kernel.types import Type
from jsparse.compiler.loops.domain import LevelIteration
from jsparse.compiler.loops.nest import Clear
from jsparse.compiler.lower.chunks import in_chunks
from jsparse.compiler.lower.levels import LevelWalk
from jsparse.compiler.lower.scope import Scope
from jsparse.compiler.problem import Positions

__all__ = ["CLEAR_GRAIN", "cleared"]

CLEAR_GRAIN = 1 << 16  # elements of a chunk: waking a thread costs more than clearing fewer


def cleared(clear: Clear, scope: Scope) -> Stmt:
    """Set elements of the target to zero, in parallel where there may be many."""
    array = scope.arrays.get(clear.target.tensor)
    if array is not None:
        return _zeros(clear, scope, const(0), array.length)
    if clear.unused:
        return _unused(clear, scope)
    size = scope.storage.size_of(clear.target)
    return in_chunks(scope, size, CLEAR_GRAIN, lambda start, stop: _zeros(clear, scope, start, stop))


def _zeros(clear: Clear, scope: Scope, start: Expr, stop: Expr) -> Stmt:
    """Set the elements from `start` to `stop` to zero."""
    buffer, n = scope.storage.by_name[clear.target.tensor], scope.fresh("n")
    zero = cast(Const(clear.monoid.zero, Type(accumulator(buffer.type.dtype))), buffer.type.dtype)
    return For(n, start, stop, Store(buffer, n, zero))


def _unused(clear: Clear, scope: Scope) -> Stmt:
    """Set the positions before the first segment of the target's pattern, and after the last segment, to zero."""
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
