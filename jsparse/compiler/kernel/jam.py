"""Unroll and jam: some iterations of a loop at a time, whose inner loops become one.

    for p in range(first, stop):           for p in range(first, end, 2):
      let i = I[p]                           let i.0 = I[p]; let i.1 = I[p + 1]
      var acc = 0                            var acc.0 = 0; var acc.1 = 0
      for c in range(0, 64):          →      for c in range(0, 64):
        acc += X[i, c] * W[c, :]               acc.0 += X[i.0, c] * W[c, :]; acc.1 += X[i.1, c] * W[c, :]
      Y[p, :] = acc                          Y[p, :] = acc.0; Y[p + 1, :] = acc.1
                                           and one by one from end = first + (stop - first) // 2 * 2 on

What the iterations read alike, here a row of W, is read once for all of them, and their sums do not wait for each
other. Every sum is formed in the order in which it was, so results are bit-equal.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from jsparse.compiler.kernel.algebra import add, block, const, floor_div, mul, sub
from jsparse.compiler.kernel.nodes import (
    Binary,
    Block,
    Borrow,
    Const,
    Declare,
    Expr,
    For,
    If,
    Let,
    Load,
    LocalArray,
    Parallel,
    Set,
    Stmt,
    Store,
    Var,
)
from jsparse.compiler.kernel.walk import nodes, rebuilt, variables

__all__ = ["jammed"]


def jammed(loop: For, copies: int) -> Stmt:
    """The loop with `copies` iterations at a time; as it is, if these depend on each other or share no loop."""
    if copies < 2 or loop.step != 1 or not _are_apart(loop.body):
        return loop
    jam = _Jam(loop, copies)
    body = jam.stmt(loop.body)
    if not jam.shared:
        return loop
    every, end = Var(f"{loop.var.name}.all"), Var(f"{loop.var.name}.end")
    each = (Let(jam.named(loop.var, n), add(every, const(n))) for n in range(copies))
    inner = block(*each, body)
    if isinstance(loop.start, Const) and isinstance(loop.stop, Const):
        left = int(loop.stop.value - loop.start.value) % copies
        stop = const(int(loop.stop.value) - left)
        rest = jammed(replace(loop, start=stop), left) if left else block()
        return block(For(every, loop.start, stop, inner, copies), rest)
    count = Binary("max", sub(loop.stop, loop.start), const(0))
    whole = mul(floor_div(count, const(copies)), const(copies))
    return block(
        Let(end, add(loop.start, whole)),
        For(every, loop.start, end, inner, copies),
        For(loop.var, end, loop.stop, loop.body),
    )


def _are_apart(body: Stmt) -> bool:
    """Whether iterations change nothing that others read, or set: but sums in memory, whose order stays."""
    every = list(nodes(body))
    declared = {n.var.name for n in every if isinstance(n, Declare)}
    stored = {n.buffer.name for n in every if isinstance(n, Store)}
    return not any(
        isinstance(n, Parallel | Borrow | LocalArray)
        or (isinstance(n, Set) and n.var.name not in declared)
        or (isinstance(n, Load) and n.buffer.name in stored)
        for n in every
    )


class _Jam:
    """`own`: the names that each iteration has for itself. `shared`: whether any loop is one for all."""

    def __init__(self, loop: For, copies: int) -> None:
        self.copies, self.shared = copies, False
        bound = {n.var.name for n in nodes(loop.body) if isinstance(n, Let | Declare | For)}
        self.own = {loop.var.name, *bound}

    def stmt(self, stmt: Stmt) -> Stmt:
        match stmt:
            case Block(stmts=stmts):
                return block(*map(self.stmt, stmts))
            case Let(value=value) if self.is_common(value):
                self.own.discard(stmt.var.name)
                return stmt
            case For(start=start, stop=stop) if self.is_common(start) and self.is_common(stop):
                self.shared = True
                self.own.discard(stmt.var.name)
                return replace(stmt, body=self.stmt(stmt.body))
            case If(condition=condition) if self.is_common(condition):
                otherwise = None if stmt.otherwise is None else self.stmt(stmt.otherwise)
                return If(condition, self.stmt(stmt.then), otherwise)
            case _:
                return block(*(self.copy(stmt, n) for n in range(self.copies)))

    def is_common(self, expr: Expr) -> bool:
        return not variables(expr) & self.own

    def named(self, var: Var, copy: int) -> Var:
        return Var(f"{var.name}.{copy}", var.type)

    def copy(self, node: Any, copy: int) -> Any:
        """The node as iteration `copy` has it."""
        if isinstance(node, Var):
            return self.named(node, copy) if node.name in self.own else node
        return rebuilt(node, lambda child: self.copy(child, copy))
