"""KernelIR → the code that each thread of a warp runs.

A kernel is a program for a warp already, if a vector is read as spread over the warp's threads, and a scalar as the
same number in all of them. Then all branches and loops depend on scalars, so the threads never diverge.

    a vector of 32 · k lanes   thread t has lanes k · t to k · t + k - 1, so that its loads are wide
    one of L < 32 lanes        thread t has lane t mod L, with L rounded up to a power of two
    a store                    of a scalar, or of fewer than 32 lanes: by as many threads as there are elements
    `HorizontalReduce`         in each thread, then across threads

Threads run in step only where the hardware is told so. A buffer that the kernel loads and stores has a barrier before
and after each store: threads behind it see what was stored, and none overwrites what another one has yet to load.
"""

from __future__ import annotations

from dataclasses import replace

from jsparse.compiler.dtypes import I64, Type
from jsparse.compiler.kernel import Kernel
from jsparse.compiler.kernel import nodes as ir
from jsparse.compiler.kernel.algebra import add, block, const, floor_div, less, minimum, mul
from jsparse.compiler.kernel.lanes import in_pieces, one_by_one
from jsparse.compiler.kernel.nodes import map_children, nodes
from jsparse.compiler.semiring import identity

WARP = 32
"""The number of threads of a warp."""

MANY = 1 << 20
"""The number of threads that kernels are told of: wide tiles for one core are never chosen."""


class NoWarpProgramError(Exception):
    """Why a kernel is no program of warps."""


def distribute(kernel: Kernel) -> Kernel:
    """Return the kernel's code for one thread of a warp.

    Raises NoWarpProgramError for assembly in order, whose chunks depend on each other, and for vectors of odd lengths
    above 32.
    """
    if any(buffer.name == "starts" and buffer.written for buffer in kernel.buffers):
        raise NoWarpProgramError("assembly")
    kernel = in_pieces(kernel)
    return replace(kernel, body=_Thread(find_shared_buffers(kernel)).stmt(kernel.body))


def find_shared_buffers(kernel: Kernel) -> frozenset[str]:
    """The buffers that the kernel both loads and stores: one thread may load what another one has stored."""
    every = list(nodes(kernel.body))
    loaded = {n.buffer.name for n in every if isinstance(n, ir.Load | ir.Gather)}
    accumulated = {n.buffer.name for n in every if isinstance(n, ir.Store) and n.accumulate}
    stored = {n.buffer.name for n in every if isinstance(n, ir.Store)}
    filtered = {n.found.name for n in every if isinstance(n, ir.Filter)}
    return frozenset((loaded & (stored | filtered)) | accumulated)


def next_power_of_two(lanes: int) -> int:
    """The least power of two that is not less than a number of lanes."""
    return 1 << (lanes - 1).bit_length()


def share(lanes: int) -> int:
    """The lanes that each thread has of a vector; 0 for one, which is a scalar there, and for a scalar."""
    if lanes > WARP and lanes % WARP:
        raise NoWarpProgramError("a vector of odd length")
    each = lanes // WARP
    return each if each > 1 else 0


def share_type(type_: Type) -> Type:
    """The type of what a thread has of a value."""
    return type_.with_lanes(share(type_.lanes))


def _lane_of(lanes: int) -> ir.Expr:
    """The first of the lanes that this thread has of a vector."""
    if lanes >= WARP:
        return mul(ir.Lane(), const(lanes // WARP))
    width = next_power_of_two(lanes)
    number: ir.Expr = ir.Lane() if width == WARP else ir.Binary("&", ir.Lane(), const(width - 1))
    return number if width == lanes else minimum(number, const(lanes - 1))


def _choose(number: ir.Expr, values: list[ir.Expr]) -> ir.Expr:
    """values[number]"""
    chosen = values[-1]
    for n, value in reversed(list(enumerate(values[:-1]))):
        chosen = ir.Select(ir.Compare("==", number, const(n)), value, chosen)
    return chosen


class _Thread:
    """Rewrites the code of a warp.

    Attributes:
        shared: the buffers whose stores have barriers.
        before: bindings of values that a statement reads several times, or that all threads have to compute together.
    """

    def __init__(self, shared: frozenset[str]) -> None:
        self.shared, self.before, self.bound = shared, list[ir.Stmt](), 0

    def bind(self, value: ir.Expr) -> ir.Var:
        """Bind a value before the statement at hand."""
        self.bound += 1
        var = ir.Var(f"warp.{self.bound}", value.type)
        self.before.append(ir.Bind(var, value))
        return var

    def stmt(self, stmt: ir.Stmt) -> ir.Stmt:
        """The statement of one thread."""
        outer, self.before = self.before, []
        last = self.rewrite(stmt)
        bindings, self.before = self.before, outer
        return block(*bindings, last)

    def rewrite(self, stmt: ir.Stmt) -> ir.Stmt:
        match stmt:
            case ir.Bind(var=var, value=value) | ir.Declare(var=var, value=value) | ir.Set(var=var, value=value):
                return replace(stmt, var=ir.Var(var.name, share_type(var.type)), value=self.value(value))
            case ir.Store():
                return self.store(stmt)
            case ir.Filter():
                return self.stmt(one_by_one(stmt))
            case ir.PrefetchLines():
                return block()
            case ir.LocalArray():
                return stmt
            case ir.Block(stmts=stmts):
                return block(*map(self.stmt, stmts))
            case ir.For(start=start, stop=stop, body=body):
                first, last = self.value(start), self.value(stop)
                return replace(stmt, start=first, stop=last, body=self.stmt(body), copies=1)
            case ir.If(condition=condition, then=then, otherwise=otherwise):
                other = None if otherwise is None else self.stmt(otherwise)
                return replace(stmt, condition=self.value(condition), then=self.stmt(then), otherwise=other)
            case ir.While(condition=condition, body=body):
                loop = replace(stmt, condition=self.value(condition), body=self.stmt(body))
                if self.before:
                    raise NoWarpProgramError("a condition of a loop that reduces a vector")
                return loop
            case ir.ParallelFor(count=count, body=body):
                return replace(stmt, count=self.value(count), body=self.stmt(body))
            case ir.Borrow(length=length, body=body):
                return replace(stmt, length=self.value(length), body=self.stmt(body))
        raise TypeError(f"Expected a statement of KernelIR, but got {type(stmt).__name__}.")

    def store(self, stmt: ir.Store) -> ir.Stmt:
        lanes, index, value = stmt.value.type.lanes, self.value(stmt.index), self.value(stmt.value)
        if lanes:
            index = add(index, _lane_of(lanes))
        if lanes < WARP:  # all threads compute the value, because they may have to exchange parts of it
            value = self.bind(value)
        stored: ir.Stmt = replace(stmt, index=index, value=value)
        if lanes < WARP:
            stored = ir.If(less(ir.Lane(), const(max(lanes, 1))), stored)
        return block(ir.Sync(), stored, ir.Sync()) if stmt.buffer.name in self.shared else stored

    def value(self, expr: ir.Expr) -> ir.Expr:
        """What one thread has of an expression."""
        match expr:
            case ir.Threads():
                return const(MANY)
            case ir.Const(value=value, type=type_):
                return ir.Const(value, share_type(type_))
            case ir.Var(name=name, type=type_):
                return ir.Var(name, share_type(type_))
            case ir.Load(buffer=buffer, index=index, lanes=lanes):
                at = self.value(index)
                return ir.Load(buffer, add(at, _lane_of(lanes)) if lanes else at, share(lanes))
            case ir.Gather(buffer=buffer, index=index):
                at = self.value(index)
                return ir.Gather(buffer, at) if at.type.lanes else ir.Load(buffer, at)
            case ir.Ramp(first=first, lanes=lanes):
                start = add(self.value(first), _cast_lane(_lane_of(lanes), first.type))
                return ir.Ramp(start, share(lanes)) if share(lanes) else start
            case ir.Splat(value=value, lanes=lanes):
                return ir.Splat(self.value(value), share(lanes)) if share(lanes) else self.value(value)
            case ir.WidenLanes():
                return self.widen(expr)
            case ir.HorizontalReduce():
                return self.reduce(expr)
            case ir.BuildVector(values=values):
                return self.build([self.value(value) for value in values])
        return map_children(expr, self.value)  # lane by lane

    def lane_in(self, value: ir.Expr, each: int, number: ir.Expr) -> ir.Expr:
        """Lane `number` of a vector of which each thread has `each` lanes. The number may differ between threads."""
        if each == 1:
            return self.bind(ir.FromThread(value, number))
        thread, place = floor_div(number, const(each)), ir.Binary("%", number, const(each))
        pieces: list[ir.Expr] = [ir.Extract(value, n) for n in range(each)]
        return _choose(place, [self.bind(ir.FromThread(piece, thread)) for piece in pieces])

    def widen(self, expr: ir.WidenLanes) -> ir.Expr:
        narrow, before, lanes = self.bind(self.value(expr.value)), expr.value.type.lanes, expr.lanes
        fill = ir.Const(expr.fill, expr.type.scalar)
        pieces = []
        for n in range(max(share(lanes), 1)):
            number = add(_lane_of(lanes), const(n))
            inside = self.lane_in(narrow, max(share(before), 1), minimum(number, const(before - 1)))
            pieces.append(ir.Select(less(number, const(before)), inside, fill))
        return pieces[0] if len(pieces) == 1 else ir.BuildVector(tuple(pieces))

    def reduce(self, expr: ir.HorizontalReduce) -> ir.Expr:
        lanes, left, op = expr.value.type.lanes, expr.lanes, expr.op
        value, each = self.value(expr.value), max(share(lanes), 1)
        if lanes < WARP and next_power_of_two(lanes) > lanes:
            number = ir.Binary("&", ir.Lane(), const(next_power_of_two(lanes) - 1))
            neutral = ir.Const(identity(op, value.type.dtype), value.type)
            value = ir.Select(less(number, const(lanes)), value, neutral)
        width = min(next_power_of_two(lanes), WARP)
        if left <= each:
            if each > 1 and left < each:
                value = ir.HorizontalReduce(value, op, left)
            total = self.bind(ir.Across(value, op, width))
            if left < 2:
                return total
            return _choose(_lane_of(left), [ir.Extract(total, n) for n in range(left)])
        # Threads are combined whose lanes have equal numbers modulo `left`.
        halves = self.bind(ir.Across(value, op, width, left // each))
        if each == 1:
            return halves
        pieces = [self.lane_in(halves, each, add(_lane_of(left), const(n))) for n in range(max(share(left), 1))]
        return pieces[0] if len(pieces) == 1 else ir.BuildVector(tuple(pieces))

    def build(self, values: list[ir.Expr]) -> ir.Expr:
        lanes = len(values)
        each = share(lanes)
        if not each:
            return _choose(_lane_of(lanes), values)
        pieces = (_choose(add(_lane_of(lanes), const(n)), values) for n in range(each))
        return ir.BuildVector(tuple(pieces))


def _cast_lane(number: ir.Expr, type_: Type) -> ir.Expr:
    return number if type_ == I64 else ir.Cast(number, type_.dtype)
