"""Totals: wide accumulators that the sums of runs are added to.

Totals of vectors are in stack memory: they are touched once per run, and the accumulator needs the registers.
"""

from __future__ import annotations

from collections.abc import Callable

from jsparse.compiler.kernel.algebra import add, block, cast, const, mul, zero
from jsparse.compiler.kernel.nodes import (
    Binary,
    Buffer,
    Const,
    Declare,
    Expr,
    For,
    If,
    Let,
    Load,
    LocalArray,
    Select,
    Set,
    Stmt,
    Store,
    Var,
)
from jsparse.compiler.kernel.types import Type
from jsparse.compiler.loops.blocked_sums import TOTAL
from jsparse.compiler.loops.nest import MAX_CHUNKS
from jsparse.compiler.lower.scope import Scope

__all__ = ["Total"]

PIECE = 8  # lanes of a total that are added at a time
WRITTEN_OUT = 32  # lanes of a total whose pieces are written out, so that LLVM can keep them in registers


class Total:
    """The total that an accumulator is added to when a run ends: a register, or stack memory for lanes."""

    def __init__(self, scope: Scope, accumulator: Var) -> None:
        self.scope, self.accumulator = scope, accumulator
        self.lanes = accumulator.type.lanes
        self.piece = min(PIECE, 1 << max(self.lanes - 1, 0).bit_length())
        self.width = -(-self.lanes // self.piece) * self.piece if self.lanes else 1
        self.register = scope.fresh("total", Type(TOTAL))
        self.wide = Buffer(scope.fresh("totals").name, Type(TOTAL), -1, True)
        self.narrow = Buffer(scope.fresh("sums").name, accumulator.type.scalar, -1, True)

    def made(self) -> Stmt:
        """An empty total and an empty accumulator."""
        start = Declare(self.accumulator, zero(self.accumulator.type))
        if not self.lanes:
            return block(start, Declare(self.register, zero(self.register.type)))
        return block(start, LocalArray(self.wide, self.width), LocalArray(self.narrow, self.width))

    def joined(self, first: Expr, last: Expr) -> Stmt:
        """Add the accumulator to the total, or start the total with it if `first` holds. The accumulator becomes zero,
        or the total if `last` holds."""
        acc, dtype = self.accumulator, self.accumulator.type.dtype
        if not self.lanes:
            whole = Set(self.register, Binary("+", self.register, cast(acc, TOTAL)))
            return block(whole, Set(acc, _chosen(last, cast(self.register, dtype), zero(acc.type))))
        part = self.scope.fresh("sum", Type(TOTAL, self.piece))

        def step(n: Expr) -> Stmt:
            narrow, wide = (Load(buffer, n, self.piece) for buffer in (self.narrow, self.wide))
            return block(
                Let(part, Binary("+", wide, cast(narrow, TOTAL))),
                Store(self.wide, n, part),
                Store(self.narrow, n, cast(part, dtype)),
            )

        back = Set(acc, _chosen(last, Load(self.narrow, const(0), self.lanes), zero(acc.type)))
        cleared = Store(self.wide, const(0), zero(Type(TOTAL, self.width)))
        start = If(first, cleared) if not isinstance(first, Const) else cleared if first.value else block()
        return block(start, Store(self.narrow, const(0), acc), self.each(step), back)

    def each(self, step: Callable[[Expr], Stmt]) -> Stmt:
        """A step for each piece of the lanes."""
        if self.width <= WRITTEN_OUT:
            return block(*(step(const(n)) for n in range(0, self.width, self.piece)))
        n = self.scope.fresh("n")
        return For(n, const(0), const(self.width), step(n), self.piece)

    def copies(self) -> Buffer:
        """The buffer for the totals of all chunks."""
        return Buffer(self.scope.fresh("copies").name, Type(TOTAL), -1, True)

    def kept(self, copies: Buffer, chunk: Expr, own: Total) -> Stmt:
        """Store a chunk's total to its copy."""
        first = mul(chunk, const(self.width))
        if not self.lanes:
            return Store(copies, first, own.register)
        return self.each(lambda n: Store(copies, add(first, n), Load(own.wide, n, self.piece)))

    def added(self, copies: Buffer, chunks: Expr) -> Stmt:
        """Set the accumulator to the sum of the chunks' totals, added in the order of the chunks."""
        lanes = self.piece if self.lanes else 0

        def step(n: Expr) -> Stmt:
            chunk, part = self.scope.fresh("chunk"), self.scope.fresh("sum", Type(TOTAL, lanes))
            copy = Load(copies, add(mul(chunk, const(self.width)), n), lanes)
            every = For(chunk, const(0), chunks, Set(part, Binary("+", part, copy)))
            narrow = cast(part, self.accumulator.type.dtype)
            end = Store(self.narrow, n, narrow) if self.lanes else Set(self.accumulator, narrow)
            return block(Declare(part, zero(part.type)), every, end)

        if not self.lanes:
            return step(const(0))
        return block(self.each(step), Set(self.accumulator, Load(self.narrow, const(0), self.lanes)))

    def copies_made(self, copies: Buffer) -> Stmt:
        """Memory for the copies."""
        return LocalArray(copies, MAX_CHUNKS * self.width)


def _chosen(condition: Expr, then: Expr, otherwise: Expr) -> Expr:
    if isinstance(condition, Const):
        return then if condition.value else otherwise
    return Select(condition, then, otherwise)
