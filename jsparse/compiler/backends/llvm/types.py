"""KernelIR types as LLVM types, and casts between them, for scalars and vectors.

Narrow floats are converted by integer operations on their bits, so that vectors stay vectors and no library function is
called. If the CPU has instructions for `float16`, these are used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from jsparse.compiler.backends.llvm.cpu import has_half_instructions
from jsparse.compiler.dtypes import Type

I1, I32, I64 = ir.IntType(1), ir.IntType(32), ir.IntType(64)
POINTER = ir.PointerType()

# struct Context of csrc/kernel/abi.h: the fields that generated code reads
CONTEXT = ir.LiteralStructType([I64, I64, POINTER, POINTER, POINTER, POINTER, POINTER])

# Narrow floats are their bits until they are cast.
_SCALARS: dict[str, tuple[ir.Type, int]] = {
    "bool": (I1, 1),
    "int8": (ir.IntType(8), 1),
    "uint8": (ir.IntType(8), 1),
    "int16": (ir.IntType(16), 2),
    "uint16": (ir.IntType(16), 2),
    "int32": (I32, 4),
    "uint32": (I32, 4),
    "int64": (I64, 8),
    "uint64": (I64, 8),
    "float16": (ir.IntType(16), 2),
    "bfloat16": (ir.IntType(16), 2),
    "float32": (ir.FloatType(), 4),
    "float64": (ir.DoubleType(), 8),
}


def llvm_type(type_: Type) -> ir.Type:
    """The LLVM type of a KernelIR type in registers."""
    return _lanes(_SCALARS[type_.dtype][0], type_.lanes)


def memory_type(type_: Type) -> ir.Type:
    """The LLVM type of a KernelIR type in memory, where a bool is a byte."""
    return _lanes(ir.IntType(8), type_.lanes) if type_.dtype == "bool" else llvm_type(type_)


def _lanes(scalar: ir.Type, lanes: int) -> ir.Type:
    return ir.VectorType(scalar, lanes) if lanes else scalar


def bytes_of(type_: Type) -> int:
    """The size in bytes of one lane."""
    return _SCALARS[type_.dtype][1]


def integer_comparison(builder: ir.IRBuilder, type_: Type) -> Callable[..., Any]:
    """The builder's method that compares integers of a type as signed or unsigned: LLVM's integers have no sign."""
    compare: Callable[..., Any] = builder.icmp_signed if type_.is_signed else builder.icmp_unsigned
    return compare


F32 = Type("float32")


class Caster:
    """Emits casts at the builder's position."""

    def __init__(self, builder: ir.IRBuilder, half_instructions: bool | None = None) -> None:
        self.builder = builder
        self.half_instructions = has_half_instructions() if half_instructions is None else half_instructions

    def cast(self, value: Any, source: Type, target: Type) -> Any:
        """Convert a value from type `source` to type `target`. The two types have the same number of lanes."""
        if source.dtype == target.dtype:
            return value
        if source.is_narrow_float:
            return self.cast(self.widen_float(value, source), F32.with_lanes(source.lanes), target)
        if target.is_narrow_float:
            return self.narrow_float(self.cast(value, source, F32.with_lanes(source.lanes)), target)
        build, into, wider = self.builder, llvm_type(target), bytes_of(target) - bytes_of(source)
        if target.dtype == "bool":
            differ = build.fcmp_unordered if source.is_float else build.icmp_unsigned
            return differ("!=", value, ir.Constant(value.type, None))
        if source.is_float and target.is_float:
            return build.fpext(value, into) if wider > 0 else build.fptrunc(value, into)
        if source.is_float:
            return build.fptosi(value, into) if target.is_signed else build.fptoui(value, into)
        if target.is_float:
            return build.sitofp(value, into) if source.is_signed else build.uitofp(value, into)
        if source.dtype != "bool" and wider <= 0:
            return build.trunc(value, into) if wider else value
        return build.sext(value, into) if source.is_signed else build.zext(value, into)

    def widen_float(self, value: Any, source: Type) -> Any:
        """Convert a narrow float to float32. The conversion is exact."""
        if source.dtype == "bfloat16":
            bits = self.builder.zext(value, self.words(source))
            return self.floats(self.builder.shl(bits, self.word(source, 16)), source)
        if self.half_instructions:
            halves = self.builder.bitcast(value, _halves(source))
            return self.builder.fpext(halves, llvm_type(F32.with_lanes(source.lanes)))
        return self.half_widened(value, source)

    def narrow_float(self, value: Any, target: Type) -> Any:
        """Convert a float32 to a narrow float, rounded to nearest, ties to even."""
        if target.dtype == "float16" and self.half_instructions:
            return self.builder.bitcast(self.builder.fptrunc(value, _halves(target)), llvm_type(target))
        bits = self.builder.bitcast(value, self.words(target))
        narrow = self.half_bits(value, bits, target) if target.dtype == "float16" else self.brain_bits(bits, target)
        return self.builder.trunc(narrow, llvm_type(target))

    def brain_bits(self, bits: Any, target: Type) -> Any:
        """float32 → bfloat16: the upper half of the bits, rounded; a NaN stays a NaN."""
        build, word = self.builder, lambda value: self.word(target, value)
        upper = build.lshr(bits, word(16))
        # Adding 0x7FFF + (the last bit that stays) carries exactly when rounding to nearest even goes up.
        rounded = build.lshr(build.add(bits, build.add(word(0x7FFF), build.and_(upper, word(1)))), word(16))
        magnitude = build.and_(bits, word(0x7FFFFFFF))
        is_nan = build.icmp_unsigned(">", magnitude, word(0x7F800000))
        return build.select(is_nan, build.or_(upper, word(0x40)), rounded)

    def half_widened(self, value: Any, source: Type) -> Any:
        """float16 → float32: shift the exponent into place and change its bias from 15 to 127."""
        build, word = self.builder, lambda value: self.word(source, value)
        wide = build.zext(value, self.words(source))
        bits = build.shl(build.and_(wide, word(0x7FFF)), word(13))
        exponent = build.and_(bits, word(0x7C00 << 13))
        special = build.add(bits, word((255 - 31) << 23))
        normal = build.add(bits, word((127 - 15) << 23))
        # A subnormal m·2⁻²⁴ is (1 + m·2⁻¹⁰)·2⁻¹⁴ - 2⁻¹⁴; 113 is the biased exponent of 2⁻¹⁴. The difference is exact.
        least = self.floats(word(113 << 23), source)
        tiny = build.fsub(self.floats(build.add(bits, word(113 << 23)), source), least)
        small = build.select(
            build.icmp_unsigned("==", exponent, word(0)), build.bitcast(tiny, self.words(source)), normal
        )
        magnitude = build.select(build.icmp_unsigned("==", exponent, word(0x7C00 << 13)), special, small)
        sign = build.shl(build.and_(wide, word(0x8000)), word(16))
        return self.floats(build.or_(magnitude, sign), source)

    def half_bits(self, value: Any, bits: Any, target: Type) -> Any:
        """float32 → float16: one integer addition changes the exponent's bias and rounds the mantissa."""
        build, word = self.builder, lambda value: self.word(target, value)
        sign = build.and_(bits, word(0x80000000))
        magnitude = build.xor(bits, sign)
        is_nan = build.icmp_unsigned(">", magnitude, word(255 << 23))
        special = build.select(is_nan, word(0x7E00), word(0x7C00))
        # Subnormals are multiples of 2⁻²⁴. This is the spacing of float32 at 1/2, so adding 1/2 rounds to them.
        last = word((127 - 15 + 23 - 10 + 1) << 23)
        shifted = build.fadd(self.floats(magnitude, target), self.floats(last, target))
        tiny = build.sub(build.bitcast(shifted, self.words(target)), last)
        odd = build.and_(build.lshr(magnitude, word(13)), word(1))
        biased = build.add(magnitude, word((((15 - 127) << 23) + 0xFFF) & 0xFFFFFFFF))
        normal = build.lshr(build.add(biased, odd), word(13))
        finite = build.select(build.icmp_unsigned("<", magnitude, word(113 << 23)), tiny, normal)
        large = build.icmp_unsigned(">=", magnitude, word((127 + 16) << 23))
        return build.or_(build.select(large, special, finite), build.lshr(sign, word(16)))

    def words(self, like: Type) -> ir.Type:
        """The LLVM type of 32-bit integers with as many lanes as `like`."""
        return llvm_type(Type("int32", like.lanes))

    def word(self, like: Type, value: int) -> ir.Constant:
        scalar = ir.Constant(ir.IntType(32), value)
        return ir.Constant(self.words(like), [scalar] * like.lanes) if like.lanes else scalar

    def floats(self, bits: Any, like: Type) -> Any:
        return self.builder.bitcast(bits, llvm_type(F32.with_lanes(like.lanes)))


def _halves(like: Type) -> ir.Type:
    return ir.VectorType(ir.HalfType(), like.lanes) if like.lanes else ir.HalfType()
