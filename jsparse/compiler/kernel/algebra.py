"""Constructors of KernelIR that fold constants.

They apply these rules: `0 + x = x`; `1 * x = x`; `0 * x = 0`; `min(x, x) = x`; an operation on two constants is
computed; a cast to the value's own dtype is the value; a block of one statement is that statement; nested blocks are
flattened. A scalar that meets a vector is broadcast. A ramp plus a scalar is a ramp, and a gather at a ramp is a load.
"""

from __future__ import annotations

from jsparse.compiler.kernel.nodes import (
    Binary,
    Block,
    Buffer,
    Cast,
    Compare,
    Const,
    Expr,
    Gather,
    Load,
    Ramp,
    Splat,
    Stmt,
)
from jsparse.compiler.kernel.types import BOOL, I64, Type

__all__ = [
    "add",
    "at_most",
    "block",
    "both",
    "broadcast",
    "cast",
    "ceil_div",
    "const",
    "element",
    "floor_div",
    "less",
    "minimum",
    "mul",
    "ramp",
    "sub",
    "zero",
]


def const(value: int) -> Const:
    """A 64-bit integer."""
    return Const(value, I64)


def zero(type_: Type) -> Const:
    """Zero of a type."""
    return Const(0, type_)


def broadcast(value: Expr, lanes: int) -> Expr:
    """A scalar in `lanes` lanes; a vector stays as it is."""
    return value if not lanes or value.type.lanes else Splat(value, lanes)


def ramp(first: Expr, lanes: int) -> Expr:
    """Consecutive integers from `first` on; `first` itself without lanes."""
    return Ramp(first, lanes) if lanes else first


def element(buffer: Buffer, index: Expr) -> Expr:
    """`buffer[index]`, in as many lanes as the index has."""
    if isinstance(index, Ramp):
        return Load(buffer, index.first, index.lanes)
    return Gather(buffer, index) if index.type.lanes else Load(buffer, index)


def _number(expr: Expr) -> float | None:
    return expr.value if isinstance(expr, Const) else None


def _alike(left: Expr, right: Expr) -> tuple[Expr, Expr]:
    """Two operands in as many lanes as the wider of them."""
    lanes = max(left.type.lanes, right.type.lanes)
    return broadcast(left, lanes), broadcast(right, lanes)


def cast(value: Expr, dtype: str) -> Expr:
    """The value in another dtype."""
    return value if value.type.dtype == dtype else Cast(value, dtype)


def add(left: Expr, right: Expr) -> Expr:
    """left + right"""
    a, b = _number(left), _number(right)
    if a is not None and b is not None:
        return Const(a + b, left.type)
    if a == 0 or b == 0:
        return right if a == 0 else left
    if isinstance(left, Ramp) and not right.type.lanes:
        return Ramp(add(left.first, right), left.lanes)
    if isinstance(right, Ramp) and not left.type.lanes:
        return Ramp(add(left, right.first), right.lanes)
    return Binary("+", *_alike(left, right))


def sub(left: Expr, right: Expr) -> Expr:
    """left - right"""
    a, b = _number(left), _number(right)
    if a is not None and b is not None:
        return Const(a - b, left.type)
    if isinstance(left, Ramp) and not right.type.lanes:
        return Ramp(sub(left.first, right), left.lanes)
    return left if b == 0 else Binary("-", *_alike(left, right))


def mul(left: Expr, right: Expr) -> Expr:
    """left * right of integers"""
    a, b = _number(left), _number(right)
    if a is not None and b is not None:
        return Const(a * b, left.type)
    if 0 in (a, b):
        return zero(left.type.scalar)
    return right if a == 1 else left if b == 1 else Binary("*", *_alike(left, right))


def floor_div(left: Expr, right: Expr) -> Expr:
    """left // right of non-negative integers"""
    a, b = _number(left), _number(right)
    if a is not None and b:
        return Const(a // b, left.type)
    return left if b == 1 else Binary("//", left, right)


def ceil_div(left: Expr, divisor: int) -> Expr:
    """⌈left / divisor⌉. The sum may exceed int64, but not uint64, in which division is done."""
    return floor_div(add(left, const(divisor - 1)), const(divisor))


def minimum(left: Expr, right: Expr) -> Expr:
    """The smaller integer."""
    a, b = _number(left), _number(right)
    if a is not None and b is not None:
        return Const(min(a, b), left.type)
    return left if left == right else Binary("min", *_alike(left, right))


def at_most(left: Expr, right: Expr) -> Expr:
    """left <= right"""
    return Compare("<=", *_alike(left, right))


def less(left: Expr, right: Expr) -> Expr:
    """left < right"""
    a, b = _number(left), _number(right)
    if a is not None and b is not None:
        return Const(int(a < b), BOOL)
    return Compare("<", *_alike(left, right))


def both(left: Expr, right: Expr) -> Expr:
    """left and right, which are bool"""
    a, b = _number(left), _number(right)
    if 0 in (a, b):
        return Const(0, BOOL)
    return right if a == 1 else left if b == 1 else Binary("&", *_alike(left, right))


def block(*stmts: Stmt) -> Stmt:
    """The statements one after the other."""
    flat: list[Stmt] = []
    for stmt in stmts:
        flat.extend(stmt.stmts if isinstance(stmt, Block) else (stmt,))
    return flat[0] if len(flat) == 1 else Block(tuple(flat))
