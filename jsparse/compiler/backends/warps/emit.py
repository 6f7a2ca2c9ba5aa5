"""The code of one thread → an LLVM module whose function `kernel` launches warps.

Each parallel loop is a launch, and so is what lies between two of them, which one warp runs. A launch is a function
`void run(captured*, warp, warps, lane)`. Its warps take chunks in turn, so one number of warps serves any number of
chunks. Scalars that several launches read are computed before each of them, as long as they depend on no buffer that
the kernel stores to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from jsparse.compiler.backends.llvm.emit import Body, emit_entry
from jsparse.compiler.backends.llvm.expr import ExprEmitter
from jsparse.compiler.backends.llvm.types import I64, POINTER, bytes_of, llvm_type
from jsparse.compiler.backends.warps.distribute import NoWarpProgramError, distribute
from jsparse.compiler.dtypes import Type
from jsparse.compiler.kernel import Kernel, nodes
from jsparse.compiler.kernel.nodes import Across, Extract, FromThread, Lane, Sync

WARPS = 3
"""The warps of a launch in the simulator: fewer than chunks, so that each takes several."""

SHARED_BYTES = 1 << 16
"""The most bytes of local arrays, which lie in memory that the threads of a warp share."""

LANE = "number of the thread"  # among the names of a thread's code


def emit_warps(kernel: Kernel) -> ir.Module:
    """Emit the module of a kernel. Raises NoWarpProgramError for kernels that are no programs of warps."""
    return emit_entry(distribute(kernel), _Launches, _Known())


def _calls(name: str, result: ir.Type, arguments: Sequence[ir.Type]) -> Callable[[ir.IRBuilder, Sequence[Any]], Any]:
    """A function that emits a call of a function of the simulator."""

    def emit(builder: ir.IRBuilder, values: Sequence[Any]) -> Any:
        declared = builder.module.globals.get(name)
        function = declared or ir.Function(builder.module, ir.FunctionType(result, arguments), name)
        return builder.call(function, values)

    return emit


_launch = _calls("jsparse_warp_launch", ir.VoidType(), [POINTER, POINTER, POINTER, I64])
_sync = _calls("jsparse_warp_sync", ir.VoidType(), [I64])
_shuffle = _calls("jsparse_warp_shuffle", I64, [I64, I64, I64])
_borrow = _calls("jsparse_warp_borrow", POINTER, [POINTER, I64, I64, I64])
_give_back = _calls("jsparse_warp_give_back", ir.VoidType(), [POINTER, POINTER, I64, I64, I64])
_shared = _calls("jsparse_warp_shared", POINTER, [I64])


def _site(builder: ir.IRBuilder) -> ir.Constant:
    """A number for a place at which all threads of a warp meet."""
    builder.module.meetings = getattr(builder.module, "meetings", 0) + 1
    return ir.Constant(I64, builder.module.meetings)


class _ThreadExpr(ExprEmitter):
    """Emits the expressions of one thread."""

    def value(self, expr: nodes.Expr) -> Any:
        match expr:
            case Lane():
                return self.names[LANE]
            case Extract(value=value, number=number):
                return self.builder.extract_element(self.value(value), ir.Constant(ir.IntType(32), number))
            case FromThread(value=value, thread=thread):
                return self.exchange(self.value(value), expr.type, self.value(thread))
            case Across(value=value, op=op, width=width, least=least):
                combined, distance = self.value(value), width // 2
                while distance >= least:
                    other = self.builder.xor(self.names[LANE], ir.Constant(I64, distance))
                    combined = self.combine(op, expr.type, combined, self.exchange(combined, expr.type, other))
                    distance //= 2
                return combined
        return super().value(expr)

    def exchange(self, value: Any, type_: Type, thread: Any) -> Any:
        """The value that another thread has, lane by lane, as 64 bits."""
        if type_.lanes:
            lanes = ir.Constant(llvm_type(type_), ir.Undefined)
            for n in range(type_.lanes):
                number = ir.Constant(ir.IntType(32), n)
                one = self.exchange(self.builder.extract_element(value, number), type_.scalar, thread)
                lanes = self.builder.insert_element(lanes, one, number)
            return lanes
        result = llvm_type(type_)
        integer = ir.IntType(1) if type_.dtype == "bool" else ir.IntType(8 * bytes_of(type_))
        bits = self.builder.bitcast(value, integer)
        wide = bits if integer == I64 else self.builder.zext(bits, I64)
        moved = _shuffle(self.builder, [wide, thread, _site(self.builder)])
        return self.builder.bitcast(moved if integer == I64 else self.builder.trunc(moved, integer), result)


class _ThreadBody(Body):
    """Emits the statements of one thread."""

    expressions = _ThreadExpr

    def stmt(self, stmt: nodes.Stmt) -> None:
        match stmt:
            case Sync():
                _sync(self.builder, [_site(self.builder)])
            case nodes.Set(var=var) if not isinstance(self.names[var.name], ir.AllocaInstr):
                before = self.names[var.name]  # the register is another launch's: this one has a copy of its own
                register = self.names[var.name] = self.on_stack(llvm_type(var.type), var.name)
                with self.builder.goto_entry_block():
                    self.builder.store(before, register)
                super().stmt(stmt)
            case nodes.LocalArray(buffer=buffer, length=length):
                first = getattr(self.module, "shared_bytes", 0)
                self.module.shared_bytes = first + -(-length * bytes_of(buffer.type) // 64) * 64
                if self.module.shared_bytes > SHARED_BYTES:
                    raise NoWarpProgramError("local arrays that are too large")
                self.expr.buffers[buffer.name] = _shared(self.builder, [ir.Constant(I64, first)])
            case nodes.ParallelFor():
                raise NoWarpProgramError("a parallel loop inside a loop")
            case _:
                super().stmt(stmt)

    def borrow(self, stmt: nodes.Borrow) -> None:
        """Emit a loan to the warp: one thread asks for it, and all have its address."""
        count = self.expr.value(stmt.length)
        bytes_ = self.builder.mul(count, ir.Constant(I64, bytes_of(stmt.buffer.type)))
        flag = [ir.Constant(I64, int(zeros)) for zeros in (stmt.zeros, stmt.stays_empty)]
        data = _borrow(self.builder, [self.context, bytes_, flag[0], _site(self.builder)])
        with self.builder.if_then(self.builder.icmp_unsigned("!=", data, ir.Constant(POINTER, None))):
            self.expr.buffers[stmt.buffer.name] = data
            self.stmt(stmt.body)
            _give_back(self.builder, [self.context, data, bytes_, flag[1], _site(self.builder)])


class _Known(dict[str, Any]):
    """The names that the code between launches has computed."""

    def __missing__(self, name: str) -> Any:
        raise NoWarpProgramError("a value that one launch computes and another one reads")


class _Launches(Body):
    """Emits the code between launches, and the launches."""

    def stmt(self, stmt: nodes.Stmt) -> None:
        group = list[nodes.Stmt]()
        for one in stmt.stmts if isinstance(stmt, nodes.Block) else (stmt,):
            if isinstance(one, nodes.LocalArray):  # in memory that all launches see
                super().stmt(one)
                continue
            if not any(isinstance(n, nodes.ParallelFor | nodes.Borrow) for n in nodes.nodes(one)):
                group.append(one)
                continue
            self.run_by_one_warp(group)
            group = []
            match one:
                case nodes.ParallelFor():
                    self.parallel(one)
                case nodes.Block() | nodes.Borrow() | nodes.If():
                    super().stmt(one)
                case _:
                    raise NoWarpProgramError("a parallel loop inside a loop")
        self.run_by_one_warp(group)

    def parallel(self, loop: nodes.ParallelFor) -> None:
        """Launch warps, which take chunks in turn."""
        count = self.expr.value(loop.count)

        def emit_warp(body: _ThreadBody, warp: ir.Value, warps: ir.Value, lane: ir.Value) -> None:
            chunks, before, start = nodes.Var("number of chunks"), body.builder.block, warp
            body.names[LANE] = lane
            self.names[chunks.name] = count

            def test() -> Any:
                chunk = body.names[loop.var.name] = body.builder.phi(I64, loop.var.name)
                chunk.add_incoming(start, before)
                return body.builder.icmp_signed("<", chunk, body.names[chunks.name])

            def run_chunk() -> None:
                chunk = body.names[loop.var.name]
                body.stmt(loop.body)
                chunk.add_incoming(body.builder.add(chunk, warps), body.builder.block)

            body.loop(test, run_chunk)

        run, frame = self.outline(_ThreadBody, [I64] * 3, emit_warp)
        _launch(self.builder, [self.context, run, frame, ir.Constant(I64, WARPS)])

    def run_by_one_warp(self, group: Sequence[nodes.Stmt]) -> None:
        """Launch one warp for statements that store, and compute the scalars that later launches read."""
        every = [n for one in group for n in nodes.nodes(one)]
        if any(isinstance(n, nodes.Store) for n in every):

            def emit_group(body: _ThreadBody, warp: ir.Value, warps: ir.Value, lane: ir.Value) -> None:
                body.names[LANE] = lane
                for one in group:
                    body.stmt(one)

            run, frame = self.outline(_ThreadBody, [I64] * 3, emit_group)
            _launch(self.builder, [self.context, run, frame, ir.Constant(I64, 1)])
        impure = _impure_names(group, every)
        for one in group:
            for kept in _pure(one, impure):
                Body.stmt(self, kept)
        for name in impure:
            self.names.pop(name, None)


def _is_impure(value: nodes.Expr, impure: set[str], stored: set[str]) -> bool:
    return any(
        isinstance(n, Lane | Across | FromThread | Extract)
        or (isinstance(n, nodes.Var) and (n.name in impure or n.type.lanes > 0))
        or (isinstance(n, nodes.Load | nodes.Gather) and n.buffer.name in stored)
        for n in nodes.nodes(value)
    )


def _impure_names(group: Sequence[nodes.Stmt], every: Sequence[nodes.Expr | nodes.Stmt]) -> set[str]:
    """The names whose values differ between threads, or depend on what the statements store."""
    stored = {n.buffer.name for n in every if isinstance(n, nodes.Store | nodes.LocalArray)}
    impure, before = set[str](), -1

    def visit(stmt: nodes.Stmt, apart: bool) -> None:
        match stmt:
            case nodes.Block(stmts=stmts):
                for one in stmts:
                    visit(one, apart)
            case nodes.Bind() | nodes.Declare() | nodes.Set():
                var, value = stmt.var, stmt.value
                if apart or var.type.lanes or _is_impure(value, impure, stored):
                    impure.add(var.name)
            case nodes.For(var=var, start=start, stop=stop, body=body):
                apart = apart or _is_impure(start, impure, stored) or _is_impure(stop, impure, stored)
                impure.update([var.name] if apart else [])
                visit(body, apart)
            case nodes.While(condition=condition, body=body):
                visit(body, apart or _is_impure(condition, impure, stored))
            case nodes.If(condition=condition, then=then, otherwise=otherwise):
                apart = apart or _is_impure(condition, impure, stored)
                visit(then, apart)
                visit(otherwise or nodes.Block(()), apart)

    while len(impure) > before:
        before = len(impure)
        for one in group:
            visit(one, False)
    return impure


def _pure(stmt: nodes.Stmt, impure: set[str]) -> list[nodes.Stmt]:
    """What remains of a statement without stores and without the names that are not pure."""
    match stmt:
        case nodes.Block(stmts=stmts):
            return [kept for one in stmts for kept in _pure(one, impure)]
        case nodes.Bind(var=var) | nodes.Declare(var=var) | nodes.Set(var=var):
            return [] if var.name in impure else [stmt]
        case nodes.For(body=body) | nodes.While(body=body):
            names = {n.name for n in nodes.nodes(stmt) if isinstance(n, nodes.Var)} & impure
            kept = _pure(body, impure)
            if not kept or (isinstance(stmt, nodes.While) and names):
                return []
            return [nodes.map_children(stmt, lambda child: nodes.Block(tuple(kept)) if child is body else child)]
        case nodes.If(condition=condition, then=then, otherwise=otherwise):
            first, second = (nodes.Block(tuple(_pure(x, impure))) for x in (then, otherwise or nodes.Block(())))
            return [nodes.If(condition, first, second)] if first.stmts or second.stmts else []
    return []
