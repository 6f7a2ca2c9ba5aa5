"""Filters in simpler terms: a loop without branches that tests one number after the other, or a test in lanes."""

from __future__ import annotations

from jsparse.compiler.kernel.algebra import add, block, cast, const, element, floor_div, less, mul, sub
from jsparse.compiler.kernel.nodes import (
    Binary,
    Cast,
    Compare,
    Const,
    Expr,
    Filter,
    For,
    If,
    Let,
    Load,
    Ramp,
    Select,
    Set,
    Splat,
    Stmt,
    Store,
    Var,
)
from jsparse.compiler.kernel.traverse import rebuilt, variables
from jsparse.compiler.kernel.types import I64

__all__ = ["in_lanes", "is_short", "one_by_one", "unrolled"]

FEW = 32  # numbers that are not worth two loops
UNROLLED = 4  # numbers that are tested in one iteration


def one_by_one(stmt: Filter) -> Stmt:
    """The filter as a loop. Each number is appended and counted only if it is kept, so that no branch depends on it,
    which the processor could not predict."""
    one = Var(f"{stmt.var.name}.one")
    return If(is_short(stmt), For(one, const(0), _length(stmt), _test(stmt, one)), unrolled(stmt))


def is_short(stmt: Filter) -> Expr:
    """Whether a filter has few numbers to test."""
    return less(_length(stmt), const(FEW))


def unrolled(stmt: Filter) -> Stmt:
    """The filter as a loop that tests several numbers in one iteration, and one for those that are left."""
    several, rest, whole = (Var(f"{stmt.var.name}.{name}") for name in ("several", "rest", "whole"))
    tests = block(*(_test(stmt, add(several, const(n))) for n in range(UNROLLED)))
    return block(
        Let(whole, mul(floor_div(_length(stmt), const(UNROLLED)), const(UNROLLED))),
        For(several, const(0), whole, tests, UNROLLED),
        For(rest, whole, _length(stmt), _test(stmt, rest)),
    )


def _length(stmt: Filter) -> Expr:
    return sub(stmt.stop, stmt.start)


def _test(stmt: Filter, distance: Expr) -> Stmt:
    mark = _substituted(stmt.mark, stmt.var, add(stmt.start, distance))
    appended = Store(stmt.found, stmt.count, cast(distance, stmt.found.type.dtype))
    return block(appended, Set(stmt.count, add(stmt.count, cast(mark, I64.dtype))))


def _substituted(expr: Expr, var: Var, value: Expr) -> Expr:
    return value if expr == var else rebuilt(expr, lambda child: _substituted(child, var, value))


def in_lanes(expr: Expr, var: Var, first: Expr, lanes: int) -> Expr:
    """A scalar expression for `lanes` consecutive values of `var`, from `first` on."""
    if var.name not in variables(expr):
        return Splat(expr, lanes) if not isinstance(expr, Const) else Const(expr.value, expr.type.widened(lanes))

    def lane(child: Expr) -> Expr:
        return in_lanes(child, var, first, lanes)

    match expr:
        case Var():
            return Ramp(first, lanes)
        case Load(buffer=buffer, index=index):
            return element(buffer, _ramp(index, var, first, lanes) or lane(index))
        case Binary(op=op, left=left, right=right):
            return Binary(op, lane(left), lane(right))
        case Compare(op=op, left=left, right=right):
            return Compare(op, lane(left), lane(right))
        case Select(condition=condition, then=then, otherwise=otherwise):
            return Select(lane(condition), lane(then), lane(otherwise))
        case Cast(value=value, dtype=dtype):
            return Cast(lane(value), dtype)
    raise TypeError(f"Expected an expression that can be computed in lanes, but got {type(expr).__name__}.")


def _ramp(index: Expr, var: Var, first: Expr, lanes: int) -> Expr | None:
    """An index that is the variable plus what does not depend on it, in lanes; None for other ones."""
    match index:
        case Var() if index == var:
            return Ramp(first, lanes)
        case Binary(op="+", left=left, right=right) if var.name not in variables(left):
            found = _ramp(right, var, first, lanes)
            return found if found is None else add(left, found)
        case Binary(op="+", left=left, right=right) if var.name not in variables(right):
            found = _ramp(left, var, first, lanes)
            return found if found is None else add(found, right)
    return None
