"""KernelIR → an LLVM module that exports one function, `kernel`, with the ABI of `csrc/kernel/abi.h`.

The body of a parallel loop becomes a separate function, `run`. The values that the body reads from outside are passed
in a struct on the caller's stack. No function of the module calls another one directly, so LLVM has nothing to inline.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from llvmlite.ir import values

from jsparse.compiler.backends.backend import ENTRY
from jsparse.compiler.backends.llvm.cpu import has_fast_gathers, has_many_registers
from jsparse.compiler.backends.llvm.expr import CONTRACT, ExprEmitter, Scopes
from jsparse.compiler.backends.llvm.types import CONTEXT, I1, I32, I64, POINTER, bytes_of, llvm_type, memory_type
from jsparse.compiler.dtypes import Type
from jsparse.compiler.kernel import Kernel, nodes
from jsparse.compiler.kernel.jam import with_jams
from jsparse.compiler.kernel.lanes import in_lanes, in_pieces, is_short, one_by_one, unroll_filter
from jsparse.compiler.kernel.nodes import FILTER_LANES, Buffer, Expr, Filter, Gather, Load, Var

I32_LANES = Type("int32", FILTER_LANES)
BYTES = ir.VectorType(ir.IntType(8), FILTER_LANES)
MASK = ir.VectorType(I1, FILTER_LANES)
NUMBERS = ir.Constant(ir.VectorType(I32, FILTER_LANES), [ir.Constant(I32, n) for n in range(FILTER_LANES)])


def append_kept(expr: ExprEmitter, stmt: Filter, first: Var) -> None:
    """Test the numbers of a filter in `FILTER_LANES` lanes, starting at `first`. Store the numbers that pass in
    `found`.

    A mask disables the lanes after the end of the filter's range, in loads and gathers too. The numbers that pass are
    packed in a register and stored together. So a range shorter than a vector takes a single test.
    """
    builder, here = expr.builder, expr.value(first)
    distances = builder.sub(here, expr.value(stmt.start)), builder.sub(expr.value(stmt.stop), here)
    before, left = (builder.trunc(distance, I32) for distance in distances)
    active = builder.icmp_signed("<", NUMBERS, expr.splat(left, FILTER_LANES))
    mark = _Masked(expr, active).value(in_lanes(stmt.mark, stmt.var, first, FILTER_LANES))
    marked = builder.icmp_unsigned("!=", mark, ir.Constant(mark.type, None))
    keep, count = builder.and_(active, marked), expr.value(stmt.count)
    # The numbers that pass move to the front of the vector.
    numbers, name = builder.add(NUMBERS, expr.splat(before, FILTER_LANES)), f"v{FILTER_LANES}i32"
    arguments = [numbers.type, MASK, numbers.type]
    compress = _intrinsic(builder, f"llvm.experimental.vector.compress.{name}", numbers.type, arguments)
    packed = builder.call(compress, [numbers, keep, ir.Constant(numbers.type, ir.Undefined)])
    expr.store(packed, stmt.found.type.with_lanes(FILTER_LANES), stmt.found, expr.address(stmt.found, count))
    count_of_kept = builder.ctpop(builder.bitcast(keep, ir.IntType(FILTER_LANES)))
    builder.store(builder.add(count, builder.zext(count_of_kept, I64)), expr.names[stmt.count.name])


class _Masked(ExprEmitter):
    """Emits vector expressions that read memory only in the lanes of a mask. The other lanes are 0."""

    def __init__(self, outer: ExprEmitter, mask: Any) -> None:
        super().__init__(outer.builder, outer.names, outer.buffers, outer.context, outer.dims, outer.scopes)
        self.mask = mask

    def value(self, expr: Expr) -> Any:
        """The LLVM value of an expression."""
        if isinstance(expr, Load) and expr.lanes:
            address = self.address(expr.buffer, super().value(expr.index))
            return self.read("load", expr.type, expr.buffer, address, POINTER)
        return super().value(expr)

    def emit_gather(self, expr: Gather) -> Any:
        """Emit a masked gather, one instruction for all lanes."""
        addresses = self.address(expr.buffer, self.value(expr.index))
        addresses.type = ir.VectorType(POINTER, expr.type.lanes)  # llvmlite takes it for one address
        is_byte = bytes_of(expr.type) == 1  # no instruction gathers bytes
        read = I32_LANES if is_byte else expr.type
        elements = self.read("gather", read, expr.buffer, addresses, addresses.type)
        return self.of_memory(self.builder.trunc(elements, BYTES), expr.type) if is_byte else elements

    def read(self, kind: str, type_: Type, buffer: Buffer, address: Any, addresses: ir.Type) -> Any:
        """Emit a load or a gather of the lanes in the mask."""
        result = llvm_type(type_)
        # LLVM names an intrinsic by its vector of integers, and by one address or one for each lane.
        suffix = f"v{type_.lanes}i{8 * bytes_of(type_)}.{f'v{type_.lanes}p0' if kind == 'gather' else 'p0'}"
        function = _intrinsic(self.builder, f"llvm.masked.{kind}.{suffix}", result, [addresses, I32, MASK, result])
        align = ir.Constant(I32, bytes_of(buffer.type))
        call = self.builder.call(function, [address, align, self.mask, ir.Constant(result, None)])
        return self.scopes.of_buffer(call, buffer.name)


def _intrinsic(builder: ir.IRBuilder, name: str, result: ir.Type, arguments: list[ir.Type]) -> Any:
    return builder.module.globals.get(name) or ir.Function(builder.module, ir.FunctionType(result, arguments), name)


CACHE_LINE = 64
LONGEST = 2**56  # elements of borrowed memory: no machine has as many
JAMMED_BYTES = 768  # of sums that stay in registers, on CPUs with 2,048 bytes of vector registers


def emit_module(kernel: Kernel) -> ir.Module:
    """Emit the module of a kernel. LLVM verifies the module later, when it parses the module."""
    kernel = in_pieces(with_jams(kernel, JAMMED_BYTES if has_many_registers() else JAMMED_BYTES // 2))
    return emit_entry(kernel, Body, {})


def emit_entry(kernel: Kernel, kind: type[Body], names: dict[str, Any]) -> ir.Module:
    """Emit a module whose function `kernel` runs a kernel's body, by an emitter of this class."""
    module = ir.Module(name="jsparse")
    entry = ir.Function(module, ir.FunctionType(I32, [POINTER] * 3), ENTRY)
    builder = ir.IRBuilder(entry.append_basic_block("entry"))
    context, table, dims = entry.args
    buffers = {}
    for buffer in kernel.buffers:
        slot = builder.gep(table, [ir.Constant(I64, buffer.slot)], source_etype=POINTER)
        buffers[buffer.name] = builder.load(slot, typ=POINTER)
    kind(builder, context, dims, buffers, names, Scopes(module, kernel)).stmt(kernel.body)
    failed = builder.icmp_unsigned("!=", _field_of(builder, context, CONTEXT, 3), ir.Constant(POINTER, None))
    builder.ret(builder.zext(failed, I32))
    return module


def _place(builder: ir.IRBuilder, struct: Any, type_: ir.Type, field: int) -> Any:
    """The address of a field of a struct."""
    return builder.gep(struct, [ir.Constant(I32, 0), ir.Constant(I32, field)], source_etype=type_)


def _field_of(builder: ir.IRBuilder, struct: Any, type_: ir.Type, field: int) -> Any:
    """The value of a field of a struct."""
    return builder.load(_place(builder, struct, type_, field), typ=type_.elements[field])


class Body:
    """Emits statements into a function, at the builder's position. At first, the builder is in the entry block.

    `buffers` maps the buffers in scope to their addresses; `names` maps variables to their values.
    """

    expressions = ExprEmitter

    def __init__(
        self,
        builder: ir.IRBuilder,
        context: Any,
        dims: Any,
        buffers: dict[str, Any],
        names: dict[str, Any],
        scopes: Scopes,
    ) -> None:
        self.builder, self.entry, self.module = builder, builder.block, builder.module
        self.context, self.names, self.scopes = context, names, scopes
        self.loops = 0  # emitted so far
        self.expr = self.expressions(builder, names, buffers, context, dims, scopes)

    def stmt(self, stmt: nodes.Stmt) -> None:
        match stmt:
            case nodes.Block(stmts=stmts):
                for inner in stmts:
                    self.stmt(inner)
            case nodes.Bind(var=var, value=value):
                self.names[var.name] = self.expr.value(value)
            case nodes.Declare(var=var, value=value):
                initial = self.expr.value(value)
                self.names[var.name] = self.on_stack(llvm_type(var.type), var.name)
                self.builder.store(initial, self.names[var.name])
            case nodes.Set(var=var, value=value):
                self.builder.store(self.expr.value(value), self.names[var.name])
            case nodes.Store():
                self.store(stmt)
            case nodes.For(var=var, start=start, stop=stop, step=step, body=body):
                self.each(var, start, stop, step, lambda: self.stmt(body))
            case nodes.While(condition=condition, body=body):
                self.loop(lambda: self.expr.value(condition), lambda: self.stmt(body))
            case nodes.Filter():
                self.filter(stmt)
            case nodes.If(condition=condition, then=then, otherwise=otherwise):
                test = self.expr.value(condition)
                if otherwise is None:
                    with self.builder.if_then(test, likely=False if stmt.rare else None):
                        self.stmt(then)
                else:
                    with self.builder.if_else(test) as (holds, fails):
                        with holds:
                            self.stmt(then)
                        with fails:
                            self.stmt(otherwise)
            case nodes.ParallelFor():
                self.parallel(stmt)
            case nodes.PrefetchLines():
                self.prefetch(stmt)
            case nodes.Borrow():
                self.borrow(stmt)
            case nodes.LocalArray(buffer=buffer, length=length):
                array = ir.ArrayType(memory_type(buffer.type), length)
                memory = self.expr.buffers[buffer.name] = self.on_stack(array, buffer.name)
                memory.align = CACHE_LINE

    def on_stack(self, type_: ir.Type, name: str) -> Any:
        """Allocate stack memory at a fixed position in the function's frame.

        LLVM gives a fixed position only to allocations in the entry block. LLVM may split that block at an integer
        division, so allocations come before all other instructions.
        """
        with self.builder.goto_block(self.entry):
            self.builder.position_at_start(self.entry)
            memory = self.builder.alloca(type_, name=name)
        memory.type = POINTER  # llvmlite would type it by its element
        return memory

    def store(self, stmt: nodes.Store) -> None:
        address = self.expr.address(stmt.buffer, self.expr.value(stmt.index))
        value = self.expr.value(stmt.value)
        if stmt.accumulate:
            old = self.expr.emit_load(stmt.value.type, stmt.buffer, address)
            value = self.expr.combine(stmt.op, stmt.value.type, old, value, () if stmt.rounded else CONTRACT)
        self.expr.store(value, stmt.value.type, stmt.buffer, address)

    def each(self, var: nodes.Var, first: nodes.Expr, last: nodes.Expr, step: int, inner: Callable[[], None]) -> None:
        """Emit a loop over `var` = `first`, `first + step`, …, up to but excluding `last`."""
        start, stop = self.expr.value(first), self.expr.value(last)
        before = self.builder.block

        def test() -> Any:
            counter = self.names[var.name] = self.builder.phi(I64, var.name)
            counter.add_incoming(start, before)
            return self.builder.icmp_signed("<", counter, stop)

        def body() -> None:
            counter = self.names[var.name]
            inner()
            after = self.builder.add(counter, ir.Constant(I64, step), flags=("nsw",))
            counter.add_incoming(after, self.builder.block)

        self.loop(test, body)

    def loop(self, test: Callable[[], Any], inner: Callable[[], None]) -> None:
        """Emit a loop that tests a condition at its head."""
        head, body, done = (self.builder.append_basic_block(n) for n in ("head", "body", "done"))
        self.builder.branch(head)
        self.builder.position_at_end(head)
        self.builder.cbranch(test(), body, done)
        self.builder.position_at_end(body)
        loops = self.loops
        inner()
        self.loops += 1
        branch = self.builder.branch(head)
        if self.loops == loops + 1:
            # An innermost loop is aligned to 32 bytes. CPUs fetch code in blocks of 32 bytes: a loop of a few
            # instructions takes a fifth longer if it crosses from one to the next, and LLVM aligns to 16 bytes only.
            align = self.module.add_metadata(["llvm.loop.align", ir.Constant(I32, 32)])
            metadata = values.MDValue(self.module, [], name=str(len(self.module.metadata)))
            metadata.operands = (metadata, align)  # it refers to itself, so that no two loops share it
            branch.set_metadata("llvm.loop", metadata)
        self.builder.position_at_end(done)

    def filter(self, stmt: nodes.Filter) -> None:
        """Emit a filter by the fastest code for this CPU.

        If gathers are fast, short ranges are tested in vector lanes, and long ranges by an unrolled loop, which is no
        slower. If gathers are slow, no range is tested in lanes.
        """
        if not has_fast_gathers():
            self.stmt(one_by_one(stmt))
            return
        first = nodes.Var(f"{stmt.var.name}.first")
        with self.builder.if_else(self.expr.value(is_short(stmt))) as (few, many):
            with few:
                self.each(first, stmt.start, stmt.stop, nodes.FILTER_LANES, lambda: append_kept(self.expr, stmt, first))
            with many:
                self.stmt(unroll_filter(stmt))

    def prefetch(self, stmt: nodes.PrefetchLines) -> None:
        """Prefetch each cache line for reading: into every level of cache, or into every level but the nearest one."""
        intrinsic = _intrinsic(self.builder, "llvm.prefetch.p0", ir.VoidType(), [POINTER, I32, I32, I32])
        first = self.expr.value(stmt.index)
        for n in range(0, max(stmt.length, 1), CACHE_LINE // bytes_of(stmt.buffer.type)):
            address = self.expr.address(stmt.buffer, self.builder.add(first, ir.Constant(I64, n)))
            self.builder.call(intrinsic, [address, *(ir.Constant(I32, flag) for flag in (0, 3 if stmt.near else 2, 1))])

    def borrow(self, stmt: nodes.Borrow) -> None:
        """Emit data = context->borrow(context, bytes, zeros) and, unless data is null, the body followed by
        context->give_back(context, data, bytes, zeros).

        If the number of bytes does not fit 64 bits, the code requests -1 bytes, and that request fails.
        """
        length = self.expr.value(stmt.length)
        bytes_ = self.builder.mul(length, ir.Constant(I64, bytes_of(stmt.buffer.type)))
        long = self.builder.icmp_unsigned(">", length, ir.Constant(I64, LONGEST))
        bytes_ = self.builder.select(long, ir.Constant(I64, -1), bytes_)
        data = self.call_context(4, [self.context, bytes_, ir.Constant(I64, int(stmt.zeros))])
        with self.builder.if_then(self.builder.icmp_unsigned("!=", data, ir.Constant(POINTER, None))):
            self.expr.buffers[stmt.buffer.name] = data
            self.stmt(stmt.body)
            self.call_context(5, [self.context, data, bytes_, ir.Constant(I64, int(stmt.stays_empty))])

    def call_context(self, field: int, arguments: list[Any]) -> Any:
        """Emit a call of the function to which a field of the context points."""
        function = _LoadedFunction(self.builder.block, _place(self.builder, self.context, CONTEXT, field), typ=POINTER)
        function.function_type = _CONTEXT_FUNCTIONS[field]
        self.builder._insert(function)
        return self.builder.call(function, arguments)

    def parallel(self, loop: nodes.ParallelFor) -> None:
        """Emit context->parallel_for(context, count, run, &captured); `void run(captured*, chunk)` runs one chunk."""

        def emit_chunk(body: Body, chunk: Any) -> None:
            body.names[loop.var.name] = chunk
            body.stmt(loop.body)

        run, frame = self.outline(type(self), [I64], emit_chunk)
        self.call_context(2, [self.context, self.expr.value(loop.count), run, frame])

    def outline(self, kind: type[Body], arguments: list[ir.Type], emit: Callable[..., None]) -> tuple[Any, Any]:
        """Emit a function `void run(captured*, arguments…)` by `emit(body, *arguments)`.

        Returns the function's address, and that of the values that it reads from here.
        """
        type_ = ir.FunctionType(ir.VoidType(), [POINTER, *arguments])
        run = ir.Function(self.module, type_, self.module.get_unique_name("run"))
        run.linkage = "internal"
        captured = _Captured(ir.IRBuilder(run.append_basic_block("entry")), run.args[0])
        context, dims = captured.capture(self.context), captured.capture(self.expr.dims)
        buffers = _Lazy(lambda name: captured.capture(self.expr.buffers[name]))
        names = _Lazy(lambda name: captured.capture(self.current(name)))
        emit(kind(captured.builder, context, dims, buffers, names, self.scopes), *run.args[1:])
        captured.builder.ret_void()
        frame = self.on_stack(captured.struct, "captured")
        for n, value in enumerate(captured.values):
            self.builder.store(value, _place(self.builder, frame, captured.struct, n))
        run.type = POINTER  # it is only ever passed on
        return run, frame

    def current(self, name: str) -> Any:
        """The current value of a variable, which is loaded if the variable has a stack slot."""
        value = self.names[name]
        return self.builder.load(value, typ=value.allocated_type) if isinstance(value, ir.AllocaInstr) else value


class _Captured:
    """A struct of the values that a parallel body reads from outside. The struct grows while the body is emitted."""

    def __init__(self, builder: ir.IRBuilder, frame: Any) -> None:
        self.builder, self.entry, self.frame = builder, builder.block, frame
        self.struct, self.values = ir.LiteralStructType([]), []  # type: ignore[var-annotated]

    def capture(self, value: Any) -> Any:
        """Add a value of the caller to the struct. Returns the value that `run` loads from the struct."""
        self.values.append(value)
        self.struct.elements = tuple(value.type for value in self.values)
        with self.builder.goto_block(self.entry):
            return _field_of(self.builder, self.frame, self.struct, len(self.values) - 1)


class _Lazy(dict[str, Any]):
    """A map from names to values that calls `find` for a name at its first use."""

    def __init__(self, find: Callable[[str], Any]) -> None:
        super().__init__()
        self.find = find

    def __missing__(self, name: str) -> Any:
        value = self[name] = self.find(name)
        return value


class _LoadedFunction(ir.LoadInstr):  # type: ignore[misc]
    """A function pointer loaded from the context, with its signature, because LLVM's pointers have no type."""

    function_type: ir.FunctionType | None = None


_CONTEXT_FUNCTIONS = {
    2: ir.FunctionType(ir.VoidType(), [POINTER, I64, POINTER, POINTER]),  # parallel_for
    4: ir.FunctionType(POINTER, [POINTER, I64, I64]),  # borrow
    5: ir.FunctionType(ir.VoidType(), [POINTER, POINTER, I64, I64]),  # give_back
}
