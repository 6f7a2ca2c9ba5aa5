"""Constructors of KernelIR that fold constants.

They apply these rules: `0 + x = x`; `1 * x = x`; `0 * x = 0`; `min(x, x) = x`; an operation on two constants is
computed; a cast to the value's own dtype is the value; a block of one statement is that statement; nested blocks are
flattened. A scalar that meets a vector is broadcast. A ramp plus a scalar is a ramp, and a gather at a ramp is a load.
"""

from __future__ import annotations

from jsparse.compiler.dtypes import BOOL, I64, Type
from jsparse.compiler.kernel import nodes as ir


def const(value: int) -> ir.Const:
    """A constant 64-bit integer."""
    return ir.Const(value, I64)


def zero(type_: Type) -> ir.Const:
    """The constant 0 of a type."""
    return ir.Const(0, type_)


def broadcast(value: ir.Expr, lanes: int) -> ir.Expr:
    """A scalar in `lanes` lanes; a vector stays unchanged."""
    return value if not lanes or value.type.lanes else ir.Splat(value, lanes)


def ramp(first: ir.Expr, lanes: int) -> ir.Expr:
    """Consecutive integers that start at `first`, one in each lane. If `lanes` is 0, `first` itself."""
    return ir.Ramp(first, lanes) if lanes else first


def element(buffer: ir.Buffer, index: ir.Expr) -> ir.Expr:
    """`buffer[index]`, in as many lanes as the index has."""
    if isinstance(index, ir.Ramp):
        return ir.Load(buffer, index.first, index.lanes)
    return ir.Gather(buffer, index) if index.type.lanes else ir.Load(buffer, index)


def _number(expr: ir.Expr) -> float | None:
    return expr.value if isinstance(expr, ir.Const) else None


def _alike(left: ir.Expr, right: ir.Expr) -> tuple[ir.Expr, ir.Expr]:
    """Broadcast two operands to the lanes of the wider operand."""
    lanes = max(left.type.lanes, right.type.lanes)
    return broadcast(left, lanes), broadcast(right, lanes)


def cast(value: ir.Expr, dtype: str) -> ir.Expr:
    """The value in another dtype."""
    return value if value.type.dtype == dtype else ir.Cast(value, dtype)


def add(left: ir.Expr, right: ir.Expr) -> ir.Expr:
    """left + right"""
    a, b = _number(left), _number(right)
    if a is not None and b is not None:
        return ir.Const(a + b, left.type)
    if a == 0 or b == 0:
        return right if a == 0 else left
    if isinstance(left, ir.Ramp) and not right.type.lanes:
        return ir.Ramp(add(left.first, right), left.lanes)
    if isinstance(right, ir.Ramp) and not left.type.lanes:
        return ir.Ramp(add(left, right.first), right.lanes)
    return ir.Binary("+", *_alike(left, right))


def sub(left: ir.Expr, right: ir.Expr) -> ir.Expr:
    """left - right"""
    a, b = _number(left), _number(right)
    if a is not None and b is not None:
        return ir.Const(a - b, left.type)
    if isinstance(left, ir.Ramp) and not right.type.lanes:
        return ir.Ramp(sub(left.first, right), left.lanes)
    return left if b == 0 else ir.Binary("-", *_alike(left, right))


def mul(left: ir.Expr, right: ir.Expr) -> ir.Expr:
    """left * right of integers"""
    a, b = _number(left), _number(right)
    if a is not None and b is not None:
        return ir.Const(a * b, left.type)
    if 0 in (a, b):
        return zero(left.type.scalar)
    return right if a == 1 else left if b == 1 else ir.Binary("*", *_alike(left, right))


def floor_div(left: ir.Expr, right: ir.Expr) -> ir.Expr:
    """left // right of non-negative integers"""
    a, b = _number(left), _number(right)
    if a is not None and b:
        return ir.Const(a // b, left.type)
    return left if b == 1 else ir.Binary("//", left, right)


def ceil_div(left: ir.Expr, divisor: int) -> ir.Expr:
    """⌈left / divisor⌉. The sum left + divisor - 1 may exceed int64. It fits uint64, and division is unsigned."""
    return floor_div(add(left, const(divisor - 1)), const(divisor))


def minimum(left: ir.Expr, right: ir.Expr) -> ir.Expr:
    """The smaller of two integers."""
    a, b = _number(left), _number(right)
    if a is not None and b is not None:
        return ir.Const(min(a, b), left.type)
    return left if left == right else ir.Binary("min", *_alike(left, right))


def at_most(left: ir.Expr, right: ir.Expr) -> ir.Expr:
    """left <= right"""
    return ir.Compare("<=", *_alike(left, right))


def less(left: ir.Expr, right: ir.Expr) -> ir.Expr:
    """left < right"""
    a, b = _number(left), _number(right)
    if a is not None and b is not None:
        return ir.Const(int(a < b), BOOL)
    return ir.Compare("<", *_alike(left, right))


def both(left: ir.Expr, right: ir.Expr) -> ir.Expr:
    """left & right, where both operands are bool"""
    a, b = _number(left), _number(right)
    if 0 in (a, b):
        return ir.Const(0, BOOL)
    return right if a == 1 else left if b == 1 else ir.Binary("&", *_alike(left, right))


def block(*stmts: ir.Stmt) -> ir.Stmt:
    """The statements one after the other."""
    flat: list[ir.Stmt] = []
    for stmt in stmts:
        flat.extend(stmt.stmts if isinstance(stmt, ir.Block) else (stmt,))
    return flat[0] if len(flat) == 1 else ir.Block(tuple(flat))
