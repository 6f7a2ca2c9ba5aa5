"""Filters in lanes: coordinates are loaded and marks gathered under a mask of the numbers that are left. The numbers
that are kept are packed in a register. So a segment that is shorter than a vector costs no more than one test."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from jsparse.compiler.backends.llvm.expr import ExprEmitter
from jsparse.compiler.backends.llvm.types import I1, I32, I64, POINTER, bytes_of, llvm_type
from jsparse.compiler.kernel.filters import in_lanes
from jsparse.compiler.kernel.nodes import FILTER_LANES, Buffer, Expr, Filter, Gather, Load, Var
from jsparse.compiler.kernel.types import Type

__all__ = ["append_kept"]

I32_LANES = Type("int32", FILTER_LANES)
BYTES = ir.VectorType(ir.IntType(8), FILTER_LANES)
MASK = ir.VectorType(I1, FILTER_LANES)
NUMBERS = ir.Constant(ir.VectorType(I32, FILTER_LANES), [ir.Constant(I32, n) for n in range(FILTER_LANES)])


def append_kept(expr: ExprEmitter, stmt: Filter, first: Var) -> None:
    """Test the `FILTER_LANES` numbers from `first` on, or fewer at the end of the filter's range."""
    builder = expr.builder
    before, left = (builder.trunc(x, I32) for x in _distances(expr, stmt, first))
    active = builder.icmp_signed("<", NUMBERS, expr.splat(left, FILTER_LANES))
    mark = _Masked(expr, active).value(in_lanes(stmt.mark, stmt.var, first, FILTER_LANES))
    marked = builder.icmp_unsigned("!=", mark, ir.Constant(mark.type, None))
    keep, count = builder.and_(active, marked), expr.value(stmt.count)
    packed = _packed(builder, builder.add(NUMBERS, expr.splat(before, FILTER_LANES)), keep)
    expr.store(packed, stmt.found.type.widened(FILTER_LANES), stmt.found, expr.address(stmt.found, count))
    kept = builder.ctpop(builder.bitcast(keep, ir.IntType(FILTER_LANES)))
    builder.store(builder.add(count, builder.zext(kept, I64)), expr.names[stmt.count.name])


def _distances(expr: ExprEmitter, stmt: Filter, first: Var) -> tuple[Any, Any]:
    """How far a number is from both ends of the filter's range."""
    here = expr.value(first)
    return expr.builder.sub(here, expr.value(stmt.start)), expr.builder.sub(expr.value(stmt.stop), here)


class _Masked(ExprEmitter):
    """Emits vectors, and reads memory only in the lanes of a mask. The other lanes are 0."""

    def __init__(self, outer: ExprEmitter, mask: Any) -> None:
        super().__init__(outer.builder, outer.names, outer.buffers, outer.context, outer.dims, outer.scopes)
        self.mask = mask

    def value(self, expr: Expr) -> Any:
        """The LLVM value of an expression."""
        if isinstance(expr, Load) and expr.lanes:
            address = self.address(expr.buffer, super().value(expr.index))
            return self.read("load", expr.type, expr.buffer, address, POINTER)
        return super().value(expr)

    def gathered(self, expr: Gather) -> Any:
        """One instruction for all lanes."""
        addresses = self.address(expr.buffer, self.value(expr.index))
        addresses.type = ir.VectorType(POINTER, expr.type.lanes)  # llvmlite takes it for one address
        is_byte = bytes_of(expr.type) == 1  # no instruction gathers bytes
        read = I32_LANES if is_byte else expr.type
        found = self.read("gather", read, expr.buffer, addresses, addresses.type)
        return self.of_memory(self.builder.trunc(found, BYTES), expr.type) if is_byte else found

    def read(self, kind: str, type_: Type, buffer: Buffer, address: Any, addresses: ir.Type) -> Any:
        """Load or gather the lanes of the mask."""
        result = llvm_type(type_)
        suffix = f"{_name(type_)}.{f'v{type_.lanes}p0' if kind == 'gather' else 'p0'}"
        function = _intrinsic(self.builder, f"llvm.masked.{kind}.{suffix}", result, [addresses, I32, MASK, result])
        align = ir.Constant(I32, bytes_of(buffer.type))
        call = self.builder.call(function, [address, align, self.mask, ir.Constant(result, None)])
        return self.scopes.of_buffer(call, buffer.name)


def _packed(builder: ir.IRBuilder, value: Any, keep: Any) -> Any:
    """The vector with its kept lanes moved to the front."""
    name, type_ = f"llvm.experimental.vector.compress.v{FILTER_LANES}i32", value.type
    function = _intrinsic(builder, name, type_, [type_, MASK, type_])
    return builder.call(function, [value, keep, ir.Constant(type_, ir.Undefined)])


def _name(type_: Type) -> str:
    """The name of a vector's type in names of intrinsics."""
    return f"v{type_.lanes}i{8 * bytes_of(type_)}"


def _intrinsic(builder: ir.IRBuilder, name: str, result: ir.Type, arguments: list[ir.Type]) -> Any:
    return builder.module.globals.get(name) or ir.Function(builder.module, ir.FunctionType(result, arguments), name)
