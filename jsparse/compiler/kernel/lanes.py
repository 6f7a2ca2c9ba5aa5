"""Rewrites of vectors and filters into simpler nodes, before code is generated.

Vectors are split into pieces whose lengths are powers of two: 40 lanes into 32 and 8, 17 into 16 and a scalar. LLVM
computes with vectors of any length. Between basic blocks, though, it passes a vector lane by lane unless its length is
a power of two: an accumulator of 40 lanes in a loop would take three times as long as one of 64.

A filter (`nodes.Filter`) becomes a loop without branches that tests one number after the other, or its test is computed
in lanes.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial, reduce
from typing import Any

from jsparse.compiler.dtypes import I64, Type
from jsparse.compiler.kernel import Kernel
from jsparse.compiler.kernel import nodes as ir
from jsparse.compiler.kernel.algebra import add, block, cast, const, element, floor_div, less, mul, ramp, sub
from jsparse.compiler.kernel.nodes import map_children, nodes, variables


def in_pieces(kernel: Kernel) -> Kernel:
    """Split the kernel's vectors into pieces whose lengths are powers of two. A kernel stays unchanged if it has a
    `WidenLanes` from or to a length that is not a power of two."""
    widened = (n for n in nodes(kernel.body) if isinstance(n, ir.WidenLanes))
    if any(_is_odd(n.type) or any(isinstance(m, ir.Var) and _is_odd(m.type) for m in nodes(n)) for n in widened):
        return kernel
    return replace(kernel, body=_split_vectors(kernel.body))


def lane(expr: ir.Expr, number: int) -> ir.Expr:
    """Return one lane of a vector expression as a scalar. The expression must not use variables that are vectors."""
    return _piece(expr, number, 0)


def _is_odd(type_: Type) -> bool:
    return type_.lanes & (type_.lanes - 1) != 0


def _runs(lanes: int) -> list[tuple[int, int]]:
    """Return (first lane, length) of each piece of a vector, the longest piece first. A scalar piece has length 0."""
    runs, first = [], 0
    while first < lanes:
        length = 1 << ((lanes - first).bit_length() - 1)
        runs.append((first, length if length > 1 else 0))
        first += length
    return runs


def _split_vectors(node: Any) -> Any:
    """A statement, or a scalar expression, with its vectors split into pieces."""
    match node:
        case ir.Bind(var=var) | ir.Declare(var=var) | ir.Set(var=var) if _is_odd(var.type):
            return _each(node, var.type.lanes)
        case ir.Store(value=value) if _is_odd(value.type):
            return _each(node, value.type.lanes)
        case ir.HorizontalReduce(value=value, op=op) if _is_odd(value.type):
            pieces = (_piece(value, *run) for run in _runs(value.type.lanes))
            folded = (ir.HorizontalReduce(piece, op) if piece.type.lanes else piece for piece in pieces)
            return reduce(partial(ir.Binary, op), folded)
    return map_children(node, _split_vectors)


def _each(stmt: ir.Bind | ir.Declare | ir.Set | ir.Store, lanes: int) -> ir.Stmt:
    """Split a statement on vectors of `lanes` lanes into one statement for each piece of the vectors."""
    parts: list[ir.Stmt] = []
    for first, length in _runs(lanes):
        value = _piece(stmt.value, first, length)
        if isinstance(stmt, ir.Store):
            parts.append(replace(stmt, index=add(_split_vectors(stmt.index), const(first)), value=value))
        else:
            parts.append(replace(stmt, var=_part(stmt.var, first, length), value=value))
    return block(*parts)


def _part(var: ir.Var, first: int, lanes: int) -> ir.Var:
    return ir.Var(f"{var.name}:{first}", var.type.with_lanes(lanes))


def _piece(expr: ir.Expr, first: int, lanes: int) -> ir.Expr:
    """Return `lanes` lanes of a vector from lane `first` on; the scalar in lane `first` if `lanes` is 0."""
    match expr:
        case _ if not expr.type.lanes:
            return _split_vectors(expr)
        case ir.Var():
            return _part(expr, first, lanes)
        case ir.Const(value=value, type=type_):
            return ir.Const(value, type_.with_lanes(lanes))
        case ir.Load(buffer=buffer, index=index):
            return ir.Load(buffer, add(_split_vectors(index), const(first)), lanes)
        case ir.Ramp(first=start):
            return ramp(add(_split_vectors(start), const(first)), lanes)
        case ir.Gather(buffer=buffer, index=index):
            part = _piece(index, first, lanes)
            return ir.Gather(buffer, part) if lanes else ir.Load(buffer, part)
        case ir.Splat(value=value):
            return ir.Splat(_split_vectors(value), lanes) if lanes else _split_vectors(value)
        case ir.Binary() | ir.Compare() | ir.Select() | ir.Call() | ir.Cast():  # lane by lane
            return map_children(expr, lambda child: _piece(child, first, lanes))
    raise TypeError(f"Expected an expression that splits into pieces, but got {type(expr).__name__}.")


FEW = 32  # for fewer numbers, one loop is used instead of two
UNROLLED = 4  # numbers that are tested in one iteration


def one_by_one(stmt: ir.Filter) -> ir.Stmt:
    """Return the filter as loops that test one number after the other: one loop for few numbers, else two.

    Each number is stored, but the count grows only if the number passes. So no branch depends on a number. The
    processor could not predict such a branch (Ross, "Selection conditions in main memory", 2004).
    """
    one = ir.Var(f"{stmt.var.name}.one")
    return ir.If(is_short(stmt), ir.For(one, const(0), _length(stmt), _test(stmt, one)), unroll_filter(stmt))


def is_short(stmt: ir.Filter) -> ir.Expr:
    """The condition that a filter has few numbers to test, fewer than `FEW`."""
    return less(_length(stmt), const(FEW))


def unroll_filter(stmt: ir.Filter) -> ir.Stmt:
    """Return two loops for a filter: one tests several numbers in each iteration, the other tests what remains."""
    several, last, full = (ir.Var(f"{stmt.var.name}.{name}") for name in ("several", "rest", "whole"))
    tests = block(*(_test(stmt, add(several, const(n))) for n in range(UNROLLED)))
    return block(
        ir.Bind(full, mul(floor_div(_length(stmt), const(UNROLLED)), const(UNROLLED))),
        ir.For(several, const(0), full, tests, UNROLLED),
        ir.For(last, full, _length(stmt), _test(stmt, last)),
    )


def _length(stmt: ir.Filter) -> ir.Expr:
    return sub(stmt.stop, stmt.start)


def _test(stmt: ir.Filter, distance: ir.Expr) -> ir.Stmt:
    mark = _substitute_var(stmt.mark, stmt.var, add(stmt.start, distance))
    appended = ir.Store(stmt.found, stmt.count, cast(distance, stmt.found.type.dtype))
    return block(appended, ir.Set(stmt.count, add(stmt.count, cast(mark, I64.dtype))))


def _substitute_var(expr: ir.Expr, var: ir.Var, value: ir.Expr) -> ir.Expr:
    return value if expr == var else map_children(expr, lambda child: _substitute_var(child, var, value))


def in_lanes(expr: ir.Expr, var: ir.Var, first: ir.Expr, lanes: int) -> ir.Expr:
    """Evaluate a scalar expression in lanes, for `lanes` consecutive values of `var`, starting at `first`."""
    if var.name not in variables(expr):
        if isinstance(expr, ir.Const):
            return ir.Const(expr.value, expr.type.with_lanes(lanes))
        return ir.Splat(expr, lanes)

    def lane(child: ir.Expr) -> ir.Expr:
        return in_lanes(child, var, first, lanes)

    match expr:
        case ir.Var():
            return ir.Ramp(first, lanes)
        case ir.Load(buffer=buffer, index=index):
            return element(buffer, _ramp(index, var, first, lanes) or lane(index))
        case ir.Binary() | ir.Compare() | ir.Select() | ir.Cast():
            return map_children(expr, lane)
    raise TypeError(f"Expected an expression that can be computed in lanes, but got {type(expr).__name__}.")


def _ramp(index: ir.Expr, var: ir.Var, first: ir.Expr, lanes: int) -> ir.Expr | None:
    """Return an index as a ramp if it is the variable plus a term that does not use the variable; else None."""
    match index:
        case ir.Var() if index == var:
            return ir.Ramp(first, lanes)
        case ir.Binary(op="+", left=left, right=right) if var.name not in variables(left):
            terms = _ramp(right, var, first, lanes)
            return terms if terms is None else add(left, terms)
        case ir.Binary(op="+", left=left, right=right) if var.name not in variables(right):
            terms = _ramp(left, var, first, lanes)
            return terms if terms is None else add(terms, right)
    return None
