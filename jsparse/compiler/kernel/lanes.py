"""Splits vectors into pieces whose lengths are powers of two: 40 lanes into 32 and 8, 17 into 16 and a scalar.

LLVM computes with vectors of any length. Between basic blocks, though, it passes a vector lane by lane unless its
length is a power of two: an accumulator of 40 lanes in a loop would take three times as long as one of 64.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from jsparse.compiler.dtypes import Type
from jsparse.compiler.kernel import Kernel
from jsparse.compiler.kernel import nodes as ir
from jsparse.compiler.kernel.algebra import add, block, const, ramp
from jsparse.compiler.kernel.nodes import nodes, rebuilt

__all__ = ["in_pieces", "lane"]


def in_pieces(kernel: Kernel) -> Kernel:
    """The kernel with vectors whose lengths are powers of two. It is unchanged if it widens a vector of another
    length."""
    widened = (n for n in nodes(kernel.body) if isinstance(n, ir.Widen))
    if any(_is_odd(n.type) or any(isinstance(m, ir.Var) and _is_odd(m.type) for m in nodes(n)) for n in widened):
        return kernel
    return replace(kernel, body=_changed(kernel.body))


def lane(expr: ir.Expr, number: int) -> ir.Expr:
    """One lane of a vector's expression, which contains no names of vectors, as a scalar."""
    return _piece(expr, number, 0)


def _is_odd(type_: Type) -> bool:
    return type_.lanes & (type_.lanes - 1) != 0


def _runs(lanes: int) -> list[tuple[int, int]]:
    """(first lane, length) of each piece, the longest first. A single lane is a scalar, whose length is 0."""
    found, first = [], 0
    while first < lanes:
        length = 1 << ((lanes - first).bit_length() - 1)
        found.append((first, length if length > 1 else 0))
        first += length
    return found


def _changed(node: Any) -> Any:
    """A statement, or a scalar expression, with its vectors split into pieces."""
    match node:
        case ir.Let(var=var) | ir.Declare(var=var) | ir.Set(var=var) if _is_odd(var.type):
            return _each(node, var.type.lanes)
        case ir.Store(value=value) if _is_odd(value.type):
            return _each(node, value.type.lanes)
        case ir.HorizontalReduce(value=value, op=op) if _is_odd(value.type):
            folded = [_piece(value, *run) for run in _runs(value.type.lanes)]
            total, *rest = (ir.HorizontalReduce(part, op) if part.type.lanes else part for part in folded)
            for part in rest:
                total = ir.Binary(op, total, part)
            return total
    return rebuilt(node, _changed)


def _each(stmt: ir.Let | ir.Declare | ir.Set | ir.Store, lanes: int) -> ir.Stmt:
    """The statement, repeated for each piece."""
    parts: list[ir.Stmt] = []
    for first, length in _runs(lanes):
        value = _piece(stmt.value, first, length)
        if isinstance(stmt, ir.Store):
            parts.append(replace(stmt, index=add(_changed(stmt.index), const(first)), value=value))
        else:
            parts.append(replace(stmt, var=_part(stmt.var, first, length), value=value))
    return block(*parts)


def _part(var: ir.Var, first: int, lanes: int) -> ir.Var:
    return ir.Var(f"{var.name}:{first}", var.type.widened(lanes))


def _piece(expr: ir.Expr, first: int, lanes: int) -> ir.Expr:
    """Lanes `first` to `first + lanes` of a vector; the scalar at `first` if `lanes` is 0."""
    match expr:
        case _ if not expr.type.lanes:
            return _changed(expr)
        case ir.Var():
            return _part(expr, first, lanes)
        case ir.Const(value=value, type=type_):
            return ir.Const(value, type_.widened(lanes))
        case ir.Load(buffer=buffer, index=index):
            return ir.Load(buffer, add(_changed(index), const(first)), lanes)
        case ir.Ramp(first=start):
            return ramp(add(_changed(start), const(first)), lanes)
        case ir.Gather(buffer=buffer, index=index):
            part = _piece(index, first, lanes)
            return ir.Gather(buffer, part) if lanes else ir.Load(buffer, part)
        case ir.Splat(value=value):
            return ir.Splat(_changed(value), lanes) if lanes else _changed(value)
        case ir.Binary(op=op, left=left, right=right):
            return ir.Binary(op, _piece(left, first, lanes), _piece(right, first, lanes))
        case ir.Compare(op=op, left=left, right=right):
            return ir.Compare(op, _piece(left, first, lanes), _piece(right, first, lanes))
        case ir.Select(condition=condition, then=then, otherwise=otherwise):
            chosen = condition if not condition.type.lanes else _piece(condition, first, lanes)
            return ir.Select(_changed(chosen), _piece(then, first, lanes), _piece(otherwise, first, lanes))
        case ir.Call(function=function, arguments=arguments):
            return ir.Call(function, tuple(_piece(argument, first, lanes) for argument in arguments))
        case ir.Cast(value=value, dtype=dtype):
            return ir.Cast(_piece(value, first, lanes), dtype)
        case ir.Vector(values=values):
            found = tuple(_changed(value) for value in values[first : first + max(lanes, 1)])
            return ir.Vector(found) if lanes else found[0]
    raise TypeError(f"Expected an expression that splits into pieces, but got {type(expr).__name__}.")
