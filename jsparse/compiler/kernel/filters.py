"""Filters in simpler terms: a loop without branches that tests one number after the other, or a test in lanes."""

from __future__ import annotations

from jsparse.compiler.dtypes import I64
from jsparse.compiler.kernel import nodes as ir
from jsparse.compiler.kernel.algebra import add, block, cast, const, element, floor_div, less, mul, sub
from jsparse.compiler.kernel.nodes import rebuilt, variables

__all__ = ["in_lanes", "is_short", "one_by_one", "unrolled"]

FEW = 32  # for fewer numbers, one loop is used instead of two
UNROLLED = 4  # numbers that are tested in one iteration


def one_by_one(stmt: ir.Filter) -> ir.Stmt:
    """The filter as a loop. Each number is stored, but the count grows only if the number is kept: no branch depends on
    a number, because the processor could not predict it."""
    one = ir.Var(f"{stmt.var.name}.one")
    return ir.If(is_short(stmt), ir.For(one, const(0), _length(stmt), _test(stmt, one)), unrolled(stmt))


def is_short(stmt: ir.Filter) -> ir.Expr:
    """Whether a filter has few numbers to test."""
    return less(_length(stmt), const(FEW))


def unrolled(stmt: ir.Filter) -> ir.Stmt:
    """The filter as a loop that tests several numbers in one iteration, and a loop for the numbers left over."""
    several, rest, whole = (ir.Var(f"{stmt.var.name}.{name}") for name in ("several", "rest", "whole"))
    tests = block(*(_test(stmt, add(several, const(n))) for n in range(UNROLLED)))
    return block(
        ir.Let(whole, mul(floor_div(_length(stmt), const(UNROLLED)), const(UNROLLED))),
        ir.For(several, const(0), whole, tests, UNROLLED),
        ir.For(rest, whole, _length(stmt), _test(stmt, rest)),
    )


def _length(stmt: ir.Filter) -> ir.Expr:
    return sub(stmt.stop, stmt.start)


def _test(stmt: ir.Filter, distance: ir.Expr) -> ir.Stmt:
    mark = _substituted(stmt.mark, stmt.var, add(stmt.start, distance))
    appended = ir.Store(stmt.found, stmt.count, cast(distance, stmt.found.type.dtype))
    return block(appended, ir.Set(stmt.count, add(stmt.count, cast(mark, I64.dtype))))


def _substituted(expr: ir.Expr, var: ir.Var, value: ir.Expr) -> ir.Expr:
    return value if expr == var else rebuilt(expr, lambda child: _substituted(child, var, value))


def in_lanes(expr: ir.Expr, var: ir.Var, first: ir.Expr, lanes: int) -> ir.Expr:
    """A scalar expression for `lanes` consecutive values of `var`, from `first` on."""
    if var.name not in variables(expr):
        return (
            ir.Splat(expr, lanes) if not isinstance(expr, ir.Const) else ir.Const(expr.value, expr.type.widened(lanes))
        )

    def lane(child: ir.Expr) -> ir.Expr:
        return in_lanes(child, var, first, lanes)

    match expr:
        case ir.Var():
            return ir.Ramp(first, lanes)
        case ir.Load(buffer=buffer, index=index):
            return element(buffer, _ramp(index, var, first, lanes) or lane(index))
        case ir.Binary(op=op, left=left, right=right):
            return ir.Binary(op, lane(left), lane(right))
        case ir.Compare(op=op, left=left, right=right):
            return ir.Compare(op, lane(left), lane(right))
        case ir.Select(condition=condition, then=then, otherwise=otherwise):
            return ir.Select(lane(condition), lane(then), lane(otherwise))
        case ir.Cast(value=value, dtype=dtype):
            return ir.Cast(lane(value), dtype)
    raise TypeError(f"Expected an expression that can be computed in lanes, but got {type(expr).__name__}.")


def _ramp(index: ir.Expr, var: ir.Var, first: ir.Expr, lanes: int) -> ir.Expr | None:
    """The ramp of an index that is the variable plus a term that does not depend on it; None for any other index."""
    match index:
        case ir.Var() if index == var:
            return ir.Ramp(first, lanes)
        case ir.Binary(op="+", left=left, right=right) if var.name not in variables(left):
            found = _ramp(right, var, first, lanes)
            return found if found is None else add(left, found)
        case ir.Binary(op="+", left=left, right=right) if var.name not in variables(right):
            found = _ramp(left, var, first, lanes)
            return found if found is None else add(found, right)
    return None
