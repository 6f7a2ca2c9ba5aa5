"""Emits expressions of KernelIR as LLVM instructions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from jsparse.compiler.backends.llvm.functions import emit_function
from jsparse.compiler.backends.llvm.types import (
    CONTEXT,
    I32,
    I64,
    POINTER,
    Caster,
    bytes_of,
    integer_comparison,
    llvm_type,
    memory_type,
)
from jsparse.compiler.dtypes import Type
from jsparse.compiler.kernel import Kernel, nodes
from jsparse.compiler.kernel.lanes import lane
from jsparse.compiler.semiring import Add, identity
from jsparse.errors import ScheduleError


class Scopes:
    """Metadata of a kernel's loads and stores. It tells LLVM that buffers do not overlap and that shapes never change.

    LLVM can declare only arguments as `noalias`, but the body of a parallel loop loads the addresses of its buffers
    from memory. Therefore the metadata of every access names the buffer. (See `alias.scope`, `noalias` and
    `invariant.load` in LLVM's language reference.)
    """

    def __init__(self, module: ir.Module, kernel: Kernel) -> None:
        names = [buffer.name for buffer in kernel.buffers]
        arrays = (node for node in nodes.nodes(kernel.body) if isinstance(node, nodes.LocalArray | nodes.Borrow))
        names += [node.buffer.name for node in arrays]
        domain = module.add_metadata(["buffers"])
        self._own = {name: module.add_metadata([name, domain]) for name in names}
        self._scopes = {name: module.add_metadata([own]) for name, own in self._own.items()}
        self._others = {
            name: module.add_metadata([own for other, own in self._own.items() if other != name]) for name in names
        }
        self._nothing = module.add_metadata([])

    def of_buffer(self, access: Any, name: str) -> Any:
        """Mark a load or store as an access to the named buffer only."""
        access.set_metadata("alias.scope", self._scopes[name])
        access.set_metadata("noalias", self._others[name])
        return access

    def constant(self, load: Any) -> Any:
        """Mark a load as invariant: nothing writes its memory while the kernel runs."""
        load.set_metadata("invariant.load", self._nothing)
        return load


# Multiply-adds may fuse. No other fast-math flag is set: NaN, Inf and the order of additions are part of the result.
CONTRACT = ("contract",)

# Methods of the builder. LLVM's integers have no sign; `//` and `%` take numbers that are not negative.
FLOAT_OPERATORS = {"+": "fadd", "-": "fsub", "*": "fmul", "/": "fdiv"}
INTEGER_OPERATORS = {"+": "add", "-": "sub", "*": "mul", "//": "udiv", "%": "urem"}
INTEGER_OPERATORS |= {"&": "and_", "|": "or_", "<<": "shl", ">>": "lshr"}


class ExprEmitter:
    """Emits expressions at the builder's position.

    Attributes:
        names: the value of each name; for a register of KernelIR, the address of its variable on the stack.
        buffers: the address of each buffer.
        context: the address of the call's context.
        dims: the address of the table of shapes.
        scopes: alias metadata of the kernel's memory.
    """

    def __init__(
        self,
        builder: ir.IRBuilder,
        names: dict[str, Any],
        buffers: dict[str, Any],
        context: Any,
        dims: Any,
        scopes: Scopes,
    ) -> None:
        self.builder, self.names, self.buffers, self.scopes = builder, names, buffers, scopes
        self.context, self.dims = context, dims

    def value(self, expr: nodes.Expr) -> Any:
        """The LLVM value of an expression."""
        match expr:
            case nodes.Const():
                return self.constant(expr)
            case nodes.Var(name=name, type=type_):
                bound = self.names[name]
                return self.builder.load(bound, typ=llvm_type(type_)) if isinstance(bound, ir.AllocaInstr) else bound
            case nodes.Binary(op=op, left=left, right=right):
                return self.combine(op, expr.type, self.value(left), self.value(right))
            case nodes.Compare(op=op, left=left, right=right):
                # If a float is NaN, "!=" is true and all other comparisons are false.
                compare = self.builder.fcmp_unordered if op == "!=" else self.builder.fcmp_ordered
                compare = compare if left.type.is_float else integer_comparison(self.builder, left.type)
                return compare(op, self.value(left), self.value(right))
            case nodes.LowestBit(value=value):
                return self.builder.cttz(self.value(value), ir.Constant(ir.IntType(1), 1))
            case nodes.Select(condition=condition, then=then, otherwise=otherwise):
                selected = self.builder.select(self.value(condition), self.value(then), self.value(otherwise))
                selected.set_metadata("unpredictable", self.builder.module.add_metadata([]))  # else LLVM may branch
                return selected
            case nodes.Call(function=function, arguments=arguments):
                return emit_function(self.builder, function, [(self.value(x), x.type) for x in arguments])
            case nodes.Load(buffer=buffer, index=index):
                return self.emit_load(expr.type, buffer, self.address(buffer, self.value(index)))
            case nodes.Gather():
                return self.emit_gather(expr)
            case nodes.Ramp(first=first, lanes=lanes):
                return self.builder.add(self.splat(self.value(first), lanes), self.numbers(lanes))
            case nodes.Cast(value=value):
                return Caster(self.builder).cast(self.value(value), value.type, expr.type)
            case nodes.Splat(value=value, lanes=lanes):
                return self.splat(self.value(value), lanes)
            case nodes.WidenLanes(value=value, lanes=lanes, fill=fill):
                return self.widen(self.value(value), value.type, lanes, fill)
            case nodes.HorizontalReduce(value=value, op=op, lanes=lanes):
                return self.fold(self.value(value), value.type, op, lanes)
            case nodes.BuildVector(values=values):
                return self.vector(values)
            case nodes.Extent():
                return self.extent(expr)
            case nodes.Threads():
                place = self.builder.gep(self.context, [ir.Constant(I32, 0), ir.Constant(I32, 1)], source_etype=CONTEXT)
                return self.scopes.constant(self.builder.load(place, typ=I64))

    def extent(self, extent: nodes.Extent) -> Any:
        """The size of a buffer along an axis, loaded from the table of shapes that the caller passes."""
        shape = self.builder.load(self.offset(self.dims, extent.buffer.slot, POINTER), typ=POINTER)
        place = self.offset(self.scopes.constant(shape), extent.axis, I64)
        return self.scopes.constant(self.builder.load(place, typ=I64))

    def offset(self, base: Any, index: Any, element: ir.Type) -> Any:
        """The address `base` plus `index` elements."""
        index = ir.Constant(I64, index) if isinstance(index, int) else index
        return self.builder.gep(base, [index], source_etype=element)

    def address(self, buffer: nodes.Buffer, index: Any) -> Any:
        """The address of `buffer[index]`."""
        return self.offset(self.buffers[buffer.name], index, memory_type(buffer.type.scalar))

    def emit_load(self, type_: Type, buffer: nodes.Buffer, address: Any) -> Any:
        """Load a value from an address in a buffer."""
        return self.of_memory(self.bytes_at(type_, buffer, address), type_)

    def bytes_at(self, type_: Type, buffer: nodes.Buffer, address: Any) -> Any:
        """Load a value from an address in a buffer, without conversion: a bool stays the byte that memory holds."""
        load = self.builder.load(address, align=bytes_of(type_), typ=memory_type(type_))
        return self.scopes.of_buffer(load, buffer.name)

    def of_memory(self, value: Any, type_: Type) -> Any:
        """Convert a loaded value from its form in memory to its form in registers."""
        is_bool = type_.dtype == "bool"
        return self.builder.icmp_unsigned("!=", value, ir.Constant(value.type, None)) if is_bool else value

    def emit_gather(self, expr: nodes.Gather) -> Any:
        """Emit one load for each lane. Gather instructions took up to 2.6 times as long, measured on Cascade Lake."""
        element = expr.buffer.type
        vector = ir.Constant(memory_type(expr.type), ir.Undefined)
        for n in range(expr.type.lanes):
            address = self.address(expr.buffer, self.value(lane(expr.index, n)))
            loaded = self.bytes_at(element, expr.buffer, address)
            vector = self.builder.insert_element(vector, loaded, ir.Constant(I32, n))
        return self.of_memory(vector, expr.type)

    def store(self, value: Any, type_: Type, buffer: nodes.Buffer, address: Any) -> None:
        """Write a value to an address in a buffer."""
        if type_.dtype == "bool":
            value = self.builder.zext(value, memory_type(type_))
        self.scopes.of_buffer(self.builder.store(value, address, align=bytes_of(type_)), buffer.name)

    def constant(self, expr: nodes.Const) -> ir.Constant:
        number = float(expr.value) if expr.type.is_float else int(expr.value)
        most = 2**63 if expr.type.is_signed else 2**64
        if not (expr.type.is_float or -(2**63) <= number < most):
            raise ScheduleError(
                f"Expected loops and workspaces whose sizes fit 64 bits, but got size {number:,}. Store the large "
                "dimensions in compressed levels."
            )
        scalar = ir.Constant(llvm_type(expr.type.scalar), number)
        return ir.Constant(llvm_type(expr.type), [scalar] * expr.type.lanes) if expr.type.lanes else scalar

    def combine(self, op: str, type_: Type, left: Any, right: Any, flags: tuple[str, ...] = CONTRACT) -> Any:
        """Emit `left op right` for two values of a type. `flags` are LLVM's flags of operations on floats."""
        if op in ("min", "max"):
            return self.extreme("<" if op == "min" else ">", type_, left, right)
        if type_.is_float:
            return getattr(self.builder, FLOAT_OPERATORS[op])(left, right, flags=flags)
        return getattr(self.builder, INTEGER_OPERATORS[op])(left, right)

    def extreme(self, order: str, type_: Type, left: Any, right: Any) -> Any:
        """The smaller value (order "<") or the larger value (order ">"); NaN if a value is NaN."""
        if type_.dtype == "bool":
            return self.builder.and_(left, right) if order == "<" else self.builder.or_(left, right)
        if not type_.is_float:
            return self.builder.select(integer_comparison(self.builder, type_)(order, left, right), left, right)
        # An ordered comparison with NaN is false and selects `left`, so only a NaN in `right` needs another test.
        first = self.builder.select(self.builder.fcmp_ordered(order, right, left), right, left)
        return self.builder.select(self.builder.fcmp_unordered("uno", right, right), right, first)

    def splat(self, value: Any, lanes: int) -> Any:
        vector = ir.VectorType(value.type, lanes)
        first = self.builder.insert_element(ir.Constant(vector, ir.Undefined), value, ir.Constant(I32, 0))
        return self.shuffle(first, first, [0] * lanes)

    def numbers(self, lanes: int) -> ir.Constant:
        """The vector 0, 1, …, lanes - 1."""
        return ir.Constant(ir.VectorType(I64, lanes), [ir.Constant(I64, n) for n in range(lanes)])

    def shuffle(self, left: Any, right: Any, mask: list[int]) -> Any:
        return self.builder.shuffle_vector(left, right, ir.Constant(ir.VectorType(I32, len(mask)), mask))

    def widen(self, value: Any, type_: Type, lanes: int, fill: float) -> Any:
        filled = self.constant(nodes.Const(fill, type_)) if fill else ir.Constant(llvm_type(type_), None)
        return self.shuffle(value, filled, [min(n, type_.lanes) for n in range(lanes)])

    def fold(self, value: Any, type_: Type, op: Add, left: int) -> Any:
        """Combine the halves of a vector by `op` until `left` lanes are left; `left` = 0 gives a scalar."""
        lanes = 1 << (type_.lanes - 1).bit_length()
        if lanes != type_.lanes:
            fill = identity(op, type_.dtype)
            value, type_ = self.widen(value, type_, lanes, fill), type_.with_lanes(lanes)
        while lanes > max(left, 1):
            lanes //= 2
            low = self.shuffle(value, value, list(range(lanes)))
            high = self.shuffle(value, value, list(range(lanes, 2 * lanes)))
            value = self.combine(op, type_.with_lanes(lanes), low, high)
        return value if left else self.builder.extract_element(value, ir.Constant(I32, 0))

    def vector(self, values: Sequence[nodes.Expr]) -> Any:
        """Build a vector from scalars, one in each lane."""
        folds = [x for x in values if isinstance(x, nodes.HorizontalReduce) and not x.lanes]
        alike = len(folds) == len(values) and len({(x.op, x.value.type) for x in folds}) == 1
        powers = not any(n & (n - 1) for n in (len(values), folds[0].value.type.lanes)) if alike else False
        if alike and powers:
            return self.fold_together([self.value(x.value) for x in folds], folds[0].value.type, folds[0].op)
        type_ = values[0].type.with_lanes(len(values))
        vector = ir.Constant(llvm_type(type_), ir.Undefined)
        for n, value in enumerate(values):
            vector = self.builder.insert_element(vector, self.value(value), ir.Constant(I32, n))
        return vector

    def fold_together(self, vectors: list[Any], type_: Type, op: Add) -> Any:
        """Fold each vector to a scalar, as `fold` does, and return the scalars as the lanes of one vector.

        While the vectors have more lanes than there are vectors, each vector is folded separately. Then two vectors are
        folded into one: one operand has the lower halves of the two vectors, and the other operand has the upper
        halves, so that no lane is idle.
        """
        # Invariant: each of `vectors` holds the partial sums of `held` of the vectors, `lanes` of each, side by side.
        # Both loops combine the upper half of these lanes with the lower half, so the order of additions is that of
        # `fold`.
        lanes, held = type_.lanes, 1
        while lanes > max(len(vectors), 1):
            lanes //= 2
            halves = list(range(lanes)), list(range(lanes, 2 * lanes))
            vectors = [
                self.combine(op, type_.with_lanes(lanes), *(self.shuffle(x, x, half) for half in halves))
                for x in vectors
            ]
        while lanes > 1 or len(vectors) > 1:
            if lanes == 1:  # more vectors than lanes
                couples = zip(vectors[::2], vectors[1::2], strict=True)
                vectors, held = [self.shuffle(x, y, list(range(2 * held))) for x, y in couples], 2 * held
                continue
            lanes //= 2
            both = len(vectors) > 1
            count = 2 * held if both else held
            low = [2 * lanes * n + k for n in range(count) for k in range(lanes)]
            high = [at + lanes for at in low]
            pairs = list(zip(vectors[::2], vectors[1::2], strict=True)) if both else [(vectors[0], vectors[0])]
            narrow = type_.with_lanes(lanes * count)
            vectors = [self.combine(op, narrow, self.shuffle(x, y, low), self.shuffle(x, y, high)) for x, y in pairs]
            held = count
        return vectors[0]
