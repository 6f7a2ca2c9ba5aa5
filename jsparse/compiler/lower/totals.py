"""Totals: wide accumulators that the sums of runs are added to.

Totals of vectors are in stack memory: they are touched once per run, and the accumulator needs the registers.
"""

from __future__ import annotations

from collections.abc import Callable

from jsparse.compiler.kernel import nodes as ir
from jsparse.compiler.kernel.algebra import add, block, cast, const, mul, zero
from jsparse.compiler.kernel.types import Type
from jsparse.compiler.loops.blocked_sums import TOTAL
from jsparse.compiler.loops.nest import MAX_CHUNKS
from jsparse.compiler.lower.scope import Scope

__all__ = ["Total"]

PIECE = 8  # lanes of a total that are added at a time
WRITTEN_OUT = 32  # lanes of a total whose pieces are written out, so that LLVM can keep them in registers


class Total:
    """The total that an accumulator is added to when a run ends: a register, or stack memory for lanes."""

    def __init__(self, scope: Scope, accumulator: ir.Var) -> None:
        self.scope, self.accumulator = scope, accumulator
        self.lanes = accumulator.type.lanes
        self.piece = min(PIECE, 1 << max(self.lanes - 1, 0).bit_length())
        self.width = -(-self.lanes // self.piece) * self.piece if self.lanes else 1
        self.register = scope.fresh("total", Type(TOTAL))
        self.wide = ir.Buffer(scope.fresh("totals").name, Type(TOTAL), -1, True)
        self.narrow = ir.Buffer(scope.fresh("sums").name, accumulator.type.scalar, -1, True)

    def made(self) -> ir.Stmt:
        """An empty total and an empty accumulator."""
        start = ir.Declare(self.accumulator, zero(self.accumulator.type))
        if not self.lanes:
            return block(start, ir.Declare(self.register, zero(self.register.type)))
        return block(start, ir.LocalArray(self.wide, self.width), ir.LocalArray(self.narrow, self.width))

    def joined(self, first: ir.Expr, last: ir.Expr) -> ir.Stmt:
        """Add the accumulator to the total, or start the total with it if `first` holds. The accumulator becomes zero,
        or the total if `last` holds."""
        acc, dtype = self.accumulator, self.accumulator.type.dtype
        if not self.lanes:
            whole = ir.Set(self.register, ir.Binary("+", self.register, cast(acc, TOTAL)))
            return block(whole, ir.Set(acc, _chosen(last, cast(self.register, dtype), zero(acc.type))))
        part = self.scope.fresh("sum", Type(TOTAL, self.piece))

        def step(n: ir.Expr) -> ir.Stmt:
            narrow, wide = (ir.Load(buffer, n, self.piece) for buffer in (self.narrow, self.wide))
            return block(
                ir.Let(part, ir.Binary("+", wide, cast(narrow, TOTAL))),
                ir.Store(self.wide, n, part),
                ir.Store(self.narrow, n, cast(part, dtype)),
            )

        back = ir.Set(acc, _chosen(last, ir.Load(self.narrow, const(0), self.lanes), zero(acc.type)))
        cleared = ir.Store(self.wide, const(0), zero(Type(TOTAL, self.width)))
        start = ir.If(first, cleared) if not isinstance(first, ir.Const) else cleared if first.value else block()
        return block(start, ir.Store(self.narrow, const(0), acc), self.each(step), back)

    def each(self, step: Callable[[ir.Expr], ir.Stmt]) -> ir.Stmt:
        """A step for each piece of the lanes."""
        if self.width <= WRITTEN_OUT:
            return block(*(step(const(n)) for n in range(0, self.width, self.piece)))
        n = self.scope.fresh("n")
        return ir.For(n, const(0), const(self.width), step(n), self.piece)

    def copies(self) -> ir.Buffer:
        """The buffer for the totals of all chunks."""
        return ir.Buffer(self.scope.fresh("copies").name, Type(TOTAL), -1, True)

    def kept(self, copies: ir.Buffer, chunk: ir.Expr, own: Total) -> ir.Stmt:
        """Store a chunk's total to its copy."""
        first = mul(chunk, const(self.width))
        if not self.lanes:
            return ir.Store(copies, first, own.register)
        return self.each(lambda n: ir.Store(copies, add(first, n), ir.Load(own.wide, n, self.piece)))

    def added(self, copies: ir.Buffer, chunks: ir.Expr) -> ir.Stmt:
        """Set the accumulator to the sum of the chunks' totals, added in the order of the chunks."""
        lanes = self.piece if self.lanes else 0

        def step(n: ir.Expr) -> ir.Stmt:
            chunk, part = self.scope.fresh("chunk"), self.scope.fresh("sum", Type(TOTAL, lanes))
            copy = ir.Load(copies, add(mul(chunk, const(self.width)), n), lanes)
            every = ir.For(chunk, const(0), chunks, ir.Set(part, ir.Binary("+", part, copy)))
            narrow = cast(part, self.accumulator.type.dtype)
            end = ir.Store(self.narrow, n, narrow) if self.lanes else ir.Set(self.accumulator, narrow)
            return block(ir.Declare(part, zero(part.type)), every, end)

        if not self.lanes:
            return step(const(0))
        return block(self.each(step), ir.Set(self.accumulator, ir.Load(self.narrow, const(0), self.lanes)))

    def copies_made(self, copies: ir.Buffer) -> ir.Stmt:
        """Memory for the copies."""
        return ir.LocalArray(copies, MAX_CHUNKS * self.width)


def _chosen(condition: ir.Expr, then: ir.Expr, otherwise: ir.Expr) -> ir.Expr:
    if isinstance(condition, ir.Const):
        return then if condition.value else otherwise
    return ir.Select(condition, then, otherwise)
