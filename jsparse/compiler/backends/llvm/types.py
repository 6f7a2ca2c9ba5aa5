"""KernelIR types as LLVM types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from jsparse.compiler.kernel.types import Type

__all__ = ["CONTEXT", "I1", "I32", "I64", "POINTER", "bytes_of", "integer_comparison", "llvm_type", "memory_type"]

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
    """The builder's comparison of integers of a type: signed or unsigned, which LLVM's integer types do not say."""
    compare: Callable[..., Any] = builder.icmp_signed if type_.is_signed else builder.icmp_unsigned
    return compare
