"""Sums of float32 that are scattered into a large target, in blocks.

A term may be added to any element at any time, so a block is not a run of a loop. A byte counts the terms of each
element, or of the elements of one register tile, which are always stored together:

    count[n] < 64:   C[n] += term,                          count[n] += 1
    else:            total[n] += C[n],  C[n] = term,        count[n] = 1         (total in float64)

In the end, C[n] = total[n] + C[n] for the elements that have a total. The memory of totals is not touched for the
others. A float64 copy of the whole target would be cleared, read and written, and take up to five times as long.
"""

from __future__ import annotations

from dataclasses import replace
from math import gcd

from jsparse.compiler.dtypes import Type
from jsparse.compiler.kernel import nodes as ir
from jsparse.compiler.kernel.algebra import add, block, cast, const, floor_div, mul
from jsparse.compiler.loops.chain import path_to
from jsparse.compiler.loops.domain import Tiles
from jsparse.compiler.loops.nest import Widened, assignments
from jsparse.compiler.lower.chunks import Lower, in_chunks
from jsparse.compiler.lower.scope import BlockedTarget, Scope
from jsparse.compiler.lower.targets import CLEAR_GRAIN, clear_elements

BYTE = Type("int8")
SIGN = -128  # the bit of a count that says that there is a total
TOTAL = Type("float64")


def stores_alike(stmt: Widened) -> bool:
    """Whether one assignment adds to the target itself: not several, and not to copies of it for each chunk."""
    path = path_to(stmt.body, stmt.target.tensor) or []
    if any(loop.parallel is not None and loop.parallel.mode == "reduced" for loop in path):
        return False
    return sum(assign.target.tensor == stmt.target.tensor for assign in assignments(stmt.body)) == 1


def lower_in_blocks(stmt: Widened, scope: Scope, lower: Lower) -> ir.Stmt:
    """Clear the target, run the body with the memory of blocks, and add the totals to the last blocks."""
    storage, name, grain = scope.storage, stmt.target.tensor, 1
    target, size = storage.by_name[name], storage.size_of(stmt.target)
    for loop in path_to(stmt.body, name) or []:
        extent = storage.problem.size.get(loop.var)
        if isinstance(loop.domain, Tiles) and (loop.var,) == stmt.target.indices[-1:] and extent:
            # The elements of a tile are stored together, so that they share a count.
            grain = gcd(loop.domain.lanes, loop.domain.wide, extent)
            break
    totals, counts = (
        ir.Buffer(scope.fresh(f"{name} {what}").name, type_, -1, True)
        for what, type_ in (("totals", TOTAL), ("counts", BYTE))
    )
    length = floor_div(size, const(grain))

    def add_totals(start: ir.Expr, stop: ir.Expr) -> ir.Stmt:
        n, m = scope.fresh("n"), scope.fresh("n")
        at = add(mul(n, const(grain)), m)
        total = ir.Binary("+", ir.Load(totals, at), cast(ir.Load(target, at), TOTAL.dtype))
        store = ir.For(m, const(0), const(grain), ir.Store(target, at, cast(total, target.type.dtype)))
        return ir.For(n, start, stop, ir.If(_has_total(ir.Load(counts, n)), store, rare=True))

    # The value that an earlier term of a sum has written counts as the first part of a block.
    clear = in_chunks(scope, size, CLEAR_GRAIN, lambda lo, hi: clear_elements(target, scope.fresh("n"), lo, hi))
    body = block(
        *([] if stmt.adds else [clear]),
        lower(stmt.body, replace(scope, blocked=BlockedTarget(name, stmt.block, totals, counts, grain))),
        in_chunks(scope, length, CLEAR_GRAIN, add_totals),
    )
    return ir.Borrow(totals, size, ir.Borrow(counts, length, body), zeros=False)


def add_to_blocks(blocks: BlockedTarget, address: ir.Expr, value: ir.Expr, scope: Scope) -> ir.Stmt:
    """Add a value, or a vector of values, to the target's elements, starting at `address`."""
    target, totals, counts = scope.storage.by_name[blocks.target], blocks.totals, blocks.counts
    lanes = value.type.lanes
    at, place, n = scope.fresh("at"), scope.fresh("place"), scope.fresh("n")
    count, term = scope.fresh("count", BYTE), scope.fresh("term", value.type)
    before = cast(ir.Load(target, at, lanes), TOTAL.dtype)
    mark = ir.Store(counts, add(place, n), ir.Const(SIGN, BYTE))
    full = block(
        ir.If(
            _has_total(count),
            ir.Store(totals, at, before, accumulate=True),
            block(ir.Store(totals, at, before), ir.For(n, const(0), const(max(lanes, 1) // blocks.grain), mark)),
        ),
        ir.Store(target, at, term),
        ir.Store(counts, place, ir.Const(SIGN + 1, BYTE)),
    )
    more = block(
        ir.Store(target, at, term, accumulate=True, rounded=True),
        ir.Store(counts, place, ir.Binary("+", count, ir.Const(1, BYTE))),
    )
    limit = ir.Select(_has_total(count), ir.Const(SIGN + blocks.size, BYTE), ir.Const(blocks.size, BYTE))
    return block(
        ir.Bind(at, address),
        ir.Bind(place, floor_div(at, const(blocks.grain))),
        ir.Bind(count, ir.Load(counts, place)),
        ir.Bind(term, value),
        ir.If(ir.Compare("==", count, limit), full, more, rare=True),
    )


def _has_total(count: ir.Expr) -> ir.Expr:
    return ir.Compare("<", count, ir.Const(0, BYTE))
