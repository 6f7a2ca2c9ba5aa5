"""KernelIR → an LLVM module that exports one function, `kernel`, with the ABI of `csrc/kernel/abi.h`.

The body of a parallel loop becomes a function of its own. Buffers are passed to every function as `noalias` arguments,
because only arguments can have that attribute. The values that a parallel body captures are passed in a struct on the
caller's stack.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from jsparse.compiler.backends.llvm.expr import ExprEmitter
from jsparse.compiler.backends.llvm.scopes import Scopes
from jsparse.compiler.backends.llvm.types import CONTEXT, I32, I64, POINTER, bytes_of, llvm_type, memory_type
from jsparse.compiler.kernel.kernel import Kernel
from jsparse.compiler.kernel.lanes import in_pieces
from jsparse.compiler.kernel.nodes import (
    Block,
    Borrow,
    Buffer,
    Declare,
    For,
    If,
    Let,
    LocalArray,
    Parallel,
    Prefetch,
    Set,
    Stmt,
    Store,
    While,
)
from jsparse.compiler.kernel.traverse import variables

__all__ = ["ENTRY", "emit_module"]

ENTRY = "kernel"
CACHE_LINE = 64


def emit_module(kernel: Kernel) -> ir.Module:
    """The module of a kernel. It is verified later, when LLVM parses it."""
    kernel = in_pieces(kernel)
    module = ir.Module(name="jsparse")
    entry = ir.Function(module, ir.FunctionType(I32, [POINTER] * 3), ENTRY)
    builder = ir.IRBuilder(entry.append_basic_block("entry"))
    context, table, dims = entry.args
    buffers = {}
    for buffer in kernel.buffers:
        slot = builder.gep(table, [ir.Constant(I64, buffer.slot)], source_etype=POINTER)
        buffers[buffer.name] = builder.load(slot, typ=POINTER)
    work = _Function(module, "work", kernel.buffers, Scopes(module, kernel), {}, [])
    builder.call(work.function, [context, dims, *buffers.values()])
    field = builder.gep(context, [ir.Constant(I32, 0), ir.Constant(I32, 3)], source_etype=CONTEXT)
    failed = builder.icmp_unsigned("!=", builder.load(field, typ=POINTER), ir.Constant(POINTER, None))
    builder.ret(builder.zext(failed, I32))
    work.emit(kernel.body)
    return module


class _Function:
    """`name(context, dims, buffers…, captured…)`: a serial piece of the kernel."""

    def __init__(
        self,
        module: ir.Module,
        name: str,
        buffers: tuple[Buffer, ...],
        scopes: Scopes,
        captured: dict[str, ir.Type],
        arrays: list[str],
    ) -> None:
        self.module, self.all_buffers, self.scopes = module, buffers, scopes
        types = [POINTER, POINTER, *[POINTER] * len(buffers), *captured.values(), *[POINTER] * len(arrays)]
        self.function = ir.Function(module, ir.FunctionType(ir.VoidType(), types), module.get_unique_name(name))
        self.function.linkage = "internal"
        self.context, dims, *rest = self.function.args
        for argument in rest[: len(buffers)]:
            argument.add_attribute("noalias")
        named = dict(zip([*(b.name for b in buffers), *captured, *arrays], rest, strict=True))
        self.builder = ir.IRBuilder(self.function.append_basic_block("entry"))
        self.entry = self.builder.block
        self.names: dict[str, Any] = {name: named[name] for name in captured}
        addresses = {name: value for name, value in named.items() if name not in captured}
        self.expr = ExprEmitter(self.builder, self.names, addresses, self.context, dims, scopes)
        self.arrays = list(arrays)

    def emit(self, body: Stmt) -> None:
        self.stmt(body)
        self.builder.ret_void()

    def stmt(self, stmt: Stmt) -> None:
        match stmt:
            case Block(stmts=stmts):
                for inner in stmts:
                    self.stmt(inner)
            case Let(var=var, value=value):
                self.names[var.name] = self.expr.value(value)
            case Declare(var=var, value=value):
                initial = self.expr.value(value)
                self.names[var.name] = self.on_stack(llvm_type(var.type), var.name)
                self.builder.store(initial, self.names[var.name])
            case Set(var=var, value=value):
                self.builder.store(self.expr.value(value), self.names[var.name])
            case Store():
                self.store(stmt)
            case For():
                self.for_(stmt)
            case While():
                self.while_(stmt)
            case If():
                self.if_(stmt)
            case Parallel():
                self.parallel(stmt)
            case Prefetch():
                self.prefetch(stmt)
            case Borrow():
                self.borrow(stmt)
            case LocalArray(buffer=buffer, length=length):
                array = ir.ArrayType(memory_type(buffer.type), length)
                place = self.expr.buffers[buffer.name] = self.on_stack(array, buffer.name)
                place.align = CACHE_LINE
                self.arrays.append(buffer.name)

    def on_stack(self, type_: ir.Type, name: str) -> Any:
        """Stack memory. It is allocated in the entry block, so a loop around the statement does not repeat it."""
        with self.builder.goto_block(self.entry):
            place = self.builder.alloca(type_, name=name)
        place.type = POINTER  # llvmlite would type it by its element
        return place

    def store(self, stmt: Store) -> None:
        address = self.expr.address(stmt.buffer, self.expr.value(stmt.index))
        value = self.expr.value(stmt.value)
        if stmt.accumulate:
            old = self.expr.loaded(stmt.value.type, stmt.buffer, address)
            value = self.expr.combine(stmt.op, stmt.value.type, old, value)
        self.expr.store(value, stmt.value.type, stmt.buffer, address)

    def for_(self, loop: For) -> None:
        start, stop = self.expr.value(loop.start), self.expr.value(loop.stop)
        before = self.builder.block
        head, body, done = (self.builder.append_basic_block(n) for n in ("head", "body", "done"))
        self.builder.branch(head)
        self.builder.position_at_end(head)
        counter = self.builder.phi(I64, loop.var.name)
        counter.add_incoming(start, before)
        self.builder.cbranch(self.builder.icmp_signed("<", counter, stop), body, done)
        self.builder.position_at_end(body)
        self.names[loop.var.name] = counter
        self.stmt(loop.body)
        counter.add_incoming(self.builder.add(counter, ir.Constant(I64, loop.step), flags=("nsw",)), self.builder.block)
        self.builder.branch(head)
        self.builder.position_at_end(done)

    def while_(self, loop: While) -> None:
        head, body, done = (self.builder.append_basic_block(n) for n in ("head", "body", "done"))
        self.builder.branch(head)
        self.builder.position_at_end(head)
        self.builder.cbranch(self.expr.value(loop.condition), body, done)
        self.builder.position_at_end(body)
        self.stmt(loop.body)
        self.builder.branch(head)
        self.builder.position_at_end(done)

    def if_(self, branch: If) -> None:
        condition = self.expr.value(branch.condition)
        if branch.otherwise is None:
            with self.builder.if_then(condition, likely=False if branch.rare else None):
                self.stmt(branch.then)
            return
        with self.builder.if_else(condition) as (then, otherwise):
            with then:
                self.stmt(branch.then)
            with otherwise:
                self.stmt(branch.otherwise)

    def prefetch(self, stmt: Prefetch) -> None:
        """Prefetch each cache line for reading, into every level of cache."""
        type_ = ir.FunctionType(ir.VoidType(), [POINTER, I32, I32, I32])
        intrinsic = self.module.globals.get("llvm.prefetch.p0") or ir.Function(self.module, type_, "llvm.prefetch.p0")
        first = self.expr.value(stmt.index)
        for n in range(0, max(stmt.length, 1), CACHE_LINE // bytes_of(stmt.buffer.type)):
            address = self.expr.address(stmt.buffer, self.builder.add(first, ir.Constant(I64, n)))
            self.builder.call(intrinsic, [address, *(ir.Constant(I32, flag) for flag in (0, 3, 1))])

    def borrow(self, stmt: Borrow) -> None:
        """data = context->borrow(context, bytes); unless it is null: the body, context->give_back(context, data)"""
        bytes_ = self.builder.mul(self.expr.value(stmt.length), ir.Constant(I64, bytes_of(stmt.buffer.type)))
        data = self.call_context(4, [self.context, bytes_])
        with self.builder.if_then(self.builder.icmp_unsigned("!=", data, ir.Constant(POINTER, None))):
            self.expr.buffers[stmt.buffer.name] = data
            self.arrays.append(stmt.buffer.name)
            self.stmt(stmt.body)
            self.arrays.remove(stmt.buffer.name)
            self.call_context(5, [self.context, data])

    def call_context(self, field: int, arguments: list[Any]) -> Any:
        """Call a function that the context points to."""
        function = _LoadedFunction(
            self.builder.block, self.field(self.builder, self.context, CONTEXT, field), typ=POINTER
        )
        function.function_type = _CONTEXT_FUNCTIONS[field]
        self.builder._insert(function)
        return self.builder.call(function, arguments)

    def parallel(self, loop: Parallel) -> None:
        """context->parallel_for(context, count, trampoline, &captured values)"""
        used = variables(loop.body)
        values = {n: self.current(n) for n in self.names if n in used}
        arrays = list(self.arrays)
        captured = {name: value.type for name, value in values.items()}
        taken = {**captured, loop.var.name: I64}
        work = _Function(self.module, "chunk", self.all_buffers, self.scopes, taken, arrays)
        shared = [
            self.context,
            self.expr.dims,
            *(self.expr.buffers[b.name] for b in self.all_buffers),
            *values.values(),
        ]
        passed = [*shared, *(self.expr.buffers[name] for name in arrays)]
        struct = ir.LiteralStructType([value.type for value in passed])
        frame = self.on_stack(struct, "captured")
        for n, value in enumerate(passed):
            self.builder.store(value, self.field(self.builder, frame, struct, n))
        run = self.trampoline(struct, work.function, len(shared))
        self.call_context(2, [self.context, self.expr.value(loop.count), run, frame])
        work.emit(loop.body)

    def current(self, name: str) -> Any:
        """The current value of a name; a register is loaded."""
        found = self.names[name]
        return self.builder.load(found, typ=found.allocated_type) if isinstance(found, ir.AllocaInstr) else found

    def field(self, builder: ir.IRBuilder, base: Any, struct: ir.Type, n: int) -> Any:
        return builder.gep(base, [ir.Constant(I32, 0), ir.Constant(I32, n)], source_etype=struct)

    def trampoline(self, struct: ir.Type, work: ir.Function, shared: int) -> ir.Function:
        """`void run(captured*, chunk)`: unpack the struct and call `work`, with the chunk number after the first
        `shared` values."""
        type_ = ir.FunctionType(ir.VoidType(), [POINTER, I64])
        run = ir.Function(self.module, type_, self.module.get_unique_name("run"))
        run.linkage = "internal"
        builder = ir.IRBuilder(run.append_basic_block("entry"))
        frame, chunk = run.args
        values = [
            builder.load(self.field(builder, frame, struct, n), typ=element)
            for n, element in enumerate(struct.elements)
        ]
        builder.call(work, [*values[:shared], chunk, *values[shared:]])
        builder.ret_void()
        run.type = POINTER  # it is only passed as an argument
        return run


class _LoadedFunction(ir.LoadInstr):  # type: ignore[misc]
    """A function loaded from the context. llvmlite asks a callee for its signature, which an opaque pointer lacks."""

    function_type: ir.FunctionType | None = None


_CONTEXT_FUNCTIONS = {
    2: ir.FunctionType(ir.VoidType(), [POINTER, I64, POINTER, POINTER]),  # parallel_for
    4: ir.FunctionType(POINTER, [POINTER, I64]),  # borrow
    5: ir.FunctionType(ir.VoidType(), [POINTER, POINTER]),  # give_back
}
