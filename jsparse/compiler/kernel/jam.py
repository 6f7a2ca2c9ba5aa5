"""Unroll and jam: run several iterations of a loop at a time, and fuse their inner loops (Carr and Kennedy, "Improving
the ratio of memory operations to floating-point operations in loops", 1994).

    for p in range(first, stop):           for p in range(first, end, 2):
      let i = I[p]                           let i.0 = I[p]; let i.1 = I[p + 1]
      var acc = 0                            var acc.0 = 0; var acc.1 = 0
      for c in range(0, 64):          →      for c in range(0, 64):
        acc += X[i, c] * W[c, :]               acc.0 += X[i.0, c] * W[c, :]; acc.1 += X[i.1, c] * W[c, :]
      Y[p, :] = acc                          Y[p, :] = acc.0; Y[p + 1, :] = acc.1
                                           and one by one from end = first + (stop - first) // 2 * 2 on

In this way, blocks of 8 x 8 by 128 columns reach the rate of XLA's dense products on the same cores.

Loads that the iterations share, here of a row of W, happen once for all iterations, and the sums of the iterations
become independent chains of additions. The order within each sum does not change. So results are bit-equal for any
number of iterations at a time. A backend may limit this number, because it has a limited number of registers.

Iterations that add to the same register get a register each, so that no addition waits for the previous one. The number
of these registers is fixed, because the order of additions depends on it:

    for p in range(first, stop):           var acc.1 = 0
      let j = J[p]                         for p in range(first, end, 2):
      acc += A[p] * X[j, :]          →       let j.0 = J[p]; acc += A[p] * X[j.0, :]
                                             let j.1 = J[p + 1]; acc.1 += A[p + 1] * X[j.1, :]
                                           acc += acc.1
                                           and one by one from end on
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from jsparse.compiler.kernel import Kernel
from jsparse.compiler.kernel import nodes as ir
from jsparse.compiler.kernel.algebra import add, block, const, floor_div, mul, sub, zero
from jsparse.compiler.kernel.nodes import map_children, nodes, variables

NO_LIMIT = 1 << 30
STATEMENTS = ir.Block | ir.Borrow | ir.For | ir.If | ir.ParallelFor | ir.While  # statements that contain others


def with_jams(kernel: Kernel, most_bytes: int = NO_LIMIT) -> Kernel:
    """Make the kernel's loops run several iterations at a time.

    The number of iterations is a loop's `copies`. It is lower, but at least 2, if the variables that an inner loop sets
    would otherwise have more than `most_bytes` bytes.
    """

    def jam(node: Any) -> Any:
        if not isinstance(node, STATEMENTS):
            return node
        stmt = map_children(node, jam)
        if not isinstance(stmt, ir.For) or stmt.copies == 1:
            return stmt
        # n copies of the body change n times as many bytes of vectors. Two copies are made even if these do not fit.
        fitting = most_bytes // max(_bytes_of_variables_set(stmt.body), 1)
        return unroll_and_jam(replace(stmt, copies=1), min(stmt.copies, max(fitting, 2)))

    return replace(kernel, body=jam(kernel.body))


def _bytes_of_variables_set(body: ir.Stmt) -> int:
    """Return how many bytes of variables an innermost loop sets, for the innermost loop that sets the most.

    The variables stay in registers of the CPU while that loop runs.
    """
    loops = [n for n in nodes(body) if isinstance(n, ir.For | ir.While)]
    innermost = [loop for loop in loops if sum(isinstance(n, ir.For | ir.While) for n in nodes(loop)) == 1]
    types = [[var.type for var in {n.var for n in nodes(loop) if isinstance(n, ir.Set)}] for loop in innermost]
    return max((sum(max(x.lanes, 1) * np.dtype(x.dtype).itemsize for x in of_loop) for of_loop in types), default=0)


def unroll_and_jam(loop: ir.For, copies: int) -> ir.Stmt:
    """Make a loop run `copies` iterations at a time.

    The loop stays unchanged if its iterations depend on each other in any way other than adding to the same register.
    It also stays unchanged if they neither add to the same register nor have inner loops that can be fused.
    """
    if copies < 2 or loop.step != 1:
        return loop
    if not _are_apart(loop.body):
        return _interleave_sums(loop, copies)
    jam = _Jam(loop, copies)
    body = jam.stmt(loop.body)
    if not jam.shared:
        return loop
    every, end = ir.Var(f"{loop.var.name}.all"), ir.Var(f"{loop.var.name}.end")
    each = (ir.Bind(jam.var_of_copy(loop.var, n), add(every, const(n))) for n in range(copies))
    inner = block(*each, body)
    # With constant bounds, the iterations that are left over, fewer than `copies`, run together, too.
    if isinstance(loop.start, ir.Const) and isinstance(loop.stop, ir.Const):
        remainder = int(loop.stop.value - loop.start.value) % copies
        stop = const(int(loop.stop.value) - remainder)
        last = unroll_and_jam(replace(loop, start=stop), remainder) if remainder else block()
        return block(ir.For(every, loop.start, stop, inner, copies), last)
    return block(
        ir.Bind(end, add(loop.start, _whole(loop, copies))),
        ir.For(every, loop.start, end, inner, copies),
        ir.For(loop.var, end, loop.stop, loop.body),
    )


def _whole(loop: ir.For, copies: int) -> ir.Expr:
    """The number of iterations that run `copies` at a time."""
    count = ir.Binary("max", sub(loop.stop, loop.start), const(0))
    return mul(floor_div(count, const(copies)), const(copies))


def _interleave_sums(loop: ir.For, copies: int) -> ir.Stmt:
    """Make `copies` successive iterations of a loop add to separate registers instead of to the same register.

    The loop stays unchanged if its iterations could depend on each other in any other way, or if it contains loops.
    """
    sums = _sums(loop.body)
    if not sums:
        return loop
    bound = {n.var.name for n in nodes(loop.body) if isinstance(n, ir.Bind | ir.Declare)} | {loop.var.name}
    every, end = ir.Var(f"{loop.var.name}.all", loop.var.type), ir.Var(f"{loop.var.name}.end", loop.var.type)

    # Copy 0 adds to the register itself, each other copy to a register that starts from zero. After the loop these are
    # added to the first one in ascending order: the order of additions depends on the trip count and `copies` alone.
    def rename_for_copy(node: Any, copy: int) -> Any:
        if isinstance(node, ir.Var):
            is_renamed = node.name in bound or (copy and node.name in sums)
            return ir.Var(f"{node.name}.{copy}", node.type) if is_renamed else node
        return map_children(node, lambda child: rename_for_copy(child, copy))

    private = [(var, rename_for_copy(var, copy)) for var in sums.values() for copy in range(1, copies)]
    bodies = (
        block(ir.Bind(rename_for_copy(loop.var, copy), add(every, const(copy))), rename_for_copy(loop.body, copy))
        for copy in range(copies)
    )
    return block(
        ir.Bind(end, add(loop.start, _whole(loop, copies))),
        *(ir.Declare(other, zero(other.type)) for _, other in private),
        ir.For(every, loop.start, end, block(*bodies), copies),
        *(ir.Set(var, ir.Binary("+", var, other)) for var, other in private),
        ir.For(loop.var, end, loop.stop, loop.body),
    )


def _sums(body: ir.Stmt) -> dict[str, ir.Var]:
    """The registers, declared outside of a loop's body, to which the body adds.

    There are none if a later iteration could see any other effect of the body.
    """
    every = list(nodes(body))
    declared = {n.var.name for n in every if isinstance(n, ir.Declare)}
    changed = [n for n in every if isinstance(n, ir.Set) and n.var.name not in declared]
    sums = {n.var.name: n.var for n in changed}
    reads = [n.name for n in every if isinstance(n, ir.Var) and n.name in sums]
    adds = all(isinstance(n.value, ir.Binary) and n.value.op == "+" and n.value.left == n.var for n in changed)
    # Each of these assignments mentions its register twice: as what is set, and as the left operand. Any further
    # mention would read a partial sum, whose value depends on the iterations before.
    if not adds or len(reads) != 2 * len(changed):
        return {}
    others = ir.For | ir.While | ir.ParallelFor | ir.Borrow | ir.Filter | ir.Store | ir.LocalArray
    return {} if any(isinstance(n, others) for n in every) else sums


def _are_apart(body: ir.Stmt) -> bool:
    """Whether no iteration reads data that another one writes. Accumulation in memory is allowed: it stays in order."""
    # Registers declared in the body and local arrays get a copy for each iteration. So iterations are connected only by
    # registers from outside, and by buffers that are both loaded and stored.
    every = list(nodes(body))
    private = {n.buffer.name for n in every if isinstance(n, ir.LocalArray)}
    declared = {n.var.name for n in every if isinstance(n, ir.Declare)}
    stored = {n.buffer.name for n in every if isinstance(n, ir.Store)} - private
    return not any(
        isinstance(n, ir.ParallelFor | ir.Borrow | ir.Filter)
        or (isinstance(n, ir.Set) and n.var.name not in declared)
        or (isinstance(n, ir.Load) and n.buffer.name in stored)
        for n in every
    )


class _Jam:
    """Rewrites the body of one loop for several iterations at a time.

    Attributes:
        copied: the names that have a copy for each iteration.
        shared: whether an inner loop was fused.
    """

    def __init__(self, loop: ir.For, copies: int) -> None:
        self.copies, self.shared = copies, False
        self.arrays = {n.buffer.name for n in nodes(loop.body) if isinstance(n, ir.LocalArray)}
        # Through an inner loop, a name can depend on a name that a later statement sets. So `find` is repeated until it
        # adds nothing. That ends, because `copied` only grows, and the body has finitely many names.
        self.copied, before = {loop.var.name}, 0
        while len(self.copied) > before:
            before = len(self.copied)
            self.find(loop.body, False)

    def find(self, stmt: ir.Stmt, apart: bool) -> None:
        """Add to `copied` the names whose values depend on names in `copied`.

        In loops that can be jammed, no other kind of statement sets names.

        Args:
            apart: whether the statement is inside control flow that depends on names in `copied`. Iterations diverge
                there, so every name that the statement sets gets a copy.
        """
        match stmt:
            case ir.Block(stmts=stmts):
                for inner in stmts:
                    self.find(inner, apart)
            case ir.Bind(var=var, value=value) | ir.Declare(var=var, value=value) | ir.Set(var=var, value=value):
                if apart or not self.is_common(value):
                    self.copied.add(var.name)
            case ir.For(var=var, start=start, stop=stop, body=body):
                apart = apart or not (self.is_common(start) and self.is_common(stop))
                self.copied.update({var.name} if apart else ())
                self.find(body, apart)
            case ir.While(condition=condition, body=body):
                self.find(body, apart or not self.is_common(condition))
            case ir.If(condition=condition, then=then, otherwise=otherwise):
                apart = apart or not self.is_common(condition)
                self.find(then, apart)
                self.find(block() if otherwise is None else otherwise, apart)

    def stmt(self, stmt: ir.Stmt) -> ir.Stmt:
        """Return one statement for all jammed iterations if it is the same for all, else a copy for each iteration."""
        # Each statement runs for all iterations before the next statement runs for any. Iterations may be interleaved
        # like that, because none reads what another one writes (`_are_apart`).
        match stmt:
            case ir.Block(stmts=stmts):
                return block(*map(self.stmt, stmts))
            case ir.Bind(var=var) | ir.Declare(var=var) | ir.Set(var=var) if var.name not in self.copied:
                return stmt
            case ir.For(var=var) if var.name not in self.copied:
                self.shared = True
                return replace(stmt, body=self.stmt(stmt.body))
            case ir.While(condition=condition) if self.is_common(condition):
                return replace(stmt, body=self.stmt(stmt.body))
            case ir.If(condition=condition) if self.is_common(condition):
                otherwise = None if stmt.otherwise is None else self.stmt(stmt.otherwise)
                return ir.If(condition, self.stmt(stmt.then), otherwise, stmt.rare)
            case _:
                return block(*(self.copy(stmt, n) for n in range(self.copies)))

    def is_common(self, expr: ir.Expr) -> bool:
        """Whether an expression has the same value in all iterations."""
        loaded = (n.buffer.name for n in nodes(expr) if isinstance(n, ir.Load))
        return self.copied.isdisjoint(variables(expr)) and self.arrays.isdisjoint(loaded)

    def var_of_copy(self, var: ir.Var, copy: int) -> ir.Var:
        return ir.Var(f"{var.name}.{copy}", var.type)

    def copy(self, node: Any, copy: int) -> Any:
        """The node with the names and arrays of iteration `copy`."""
        if isinstance(node, ir.Var):
            return self.var_of_copy(node, copy) if node.name in self.copied else node
        copied = map_children(node, lambda child: self.copy(child, copy))
        if isinstance(node, ir.Load | ir.Store | ir.LocalArray) and node.buffer.name in self.arrays:
            return replace(copied, buffer=replace(node.buffer, name=f"{node.buffer.name}.{copy}"))
        return copied
