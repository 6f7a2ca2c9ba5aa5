"""Constructors of KernelIR that fold constants.

They apply these rules: `0 + x = x`; `1 * x = x`; `0 * x = 0`; `min(x, x) = x`; an operation on two constants is
computed; a cast to the value's own dtype is the value; a block of one statement is that statement; nested blocks are
flattened.
"""

from __future__ import annotations

from jsparse.compiler.kernel.nodes import Binary, Block, Cast, Compare, Const, Expr, Stmt
from jsparse.compiler.kernel.types import BOOL, I64, Type

__all__ = ["add", "block", "both", "cast", "ceil_div", "const", "floor_div", "less", "minimum", "mul", "sub", "zero"]


def const(value: int) -> Const:
    """A 64-bit integer."""
    return Const(value, I64)


def zero(type_: Type) -> Const:
    """Zero of a type."""
    return Const(0, type_)


def _number(expr: Expr) -> float | None:
    return expr.value if isinstance(expr, Const) else None


def cast(value: Expr, dtype: str) -> Expr:
    """The value in another dtype."""
    return value if value.type.dtype == dtype else Cast(value, dtype)


def add(left: Expr, right: Expr) -> Expr:
    """left + right"""
    a, b = _number(left), _number(right)
    if a is not None and b is not None:
        return Const(a + b, left.type)
    return right if a == 0 else left if b == 0 else Binary("+", left, right)


def sub(left: Expr, right: Expr) -> Expr:
    """left - right"""
    a, b = _number(left), _number(right)
    if a is not None and b is not None:
        return Const(a - b, left.type)
    return left if b == 0 else Binary("-", left, right)


def mul(left: Expr, right: Expr) -> Expr:
    """left * right of integers"""
    a, b = _number(left), _number(right)
    if a is not None and b is not None:
        return Const(a * b, left.type)
    if 0 in (a, b):
        return zero(left.type)
    return right if a == 1 else left if b == 1 else Binary("*", left, right)


def floor_div(left: Expr, right: Expr) -> Expr:
    """left // right of non-negative integers"""
    a, b = _number(left), _number(right)
    if a is not None and b:
        return Const(a // b, left.type)
    return left if b == 1 else Binary("//", left, right)


def ceil_div(left: Expr, divisor: int) -> Expr:
    """⌈left / divisor⌉"""
    return floor_div(add(left, const(divisor - 1)), const(divisor))


def minimum(left: Expr, right: Expr) -> Expr:
    """The smaller integer."""
    a, b = _number(left), _number(right)
    if a is not None and b is not None:
        return Const(min(a, b), left.type)
    return left if left == right else Binary("min", left, right)


def less(left: Expr, right: Expr) -> Expr:
    """left < right"""
    a, b = _number(left), _number(right)
    return Const(int(a < b), BOOL) if a is not None and b is not None else Compare("<", left, right)


def both(left: Expr, right: Expr) -> Expr:
    """left and right, which are bool"""
    a, b = _number(left), _number(right)
    if 0 in (a, b):
        return Const(0, BOOL)
    return right if a == 1 else left if b == 1 else Binary("&", left, right)


def block(*stmts: Stmt) -> Stmt:
    """The statements one after the other."""
    flat: list[Stmt] = []
    for stmt in stmts:
        flat.extend(stmt.stmts if isinstance(stmt, Block) else (stmt,))
    return flat[0] if len(flat) == 1 else Block(tuple(flat))
