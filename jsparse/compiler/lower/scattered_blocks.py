"""Sums of float32 that are scattered into a large target, in blocks.

A term may be added to any element at any time, so a block is no run of a loop. A byte counts the terms of each
element, or of the elements of one register tile, which are always stored together:

    count[n] < 64:   C[n] += term,                          count[n] += 1
    else:            total[n] += C[n],  C[n] = term,        count[n] = 1         (total in float64)

In the end, C[n] = total[n] + C[n] for the elements that have a total. The memory of totals is not touched for the
others. A float64 copy of the whole target would be cleared, read and written, and take up to five times as long.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import gcd

from jsparse.compiler.dtypes import Type
from jsparse.compiler.kernel.algebra import add, block, cast, const, floor_div, mul
from jsparse.compiler.kernel.nodes import (
    Binary,
    Borrow,
    Buffer,
    Compare,
    Const,
    Expr,
    For,
    If,
    Let,
    Load,
    Select,
    Stmt,
    Store,
)
from jsparse.compiler.loops.chain import path_to
from jsparse.compiler.loops.domain import Tiles
from jsparse.compiler.loops.nest import Stmt as LoopStmt
from jsparse.compiler.loops.nest import Widened, assignments
from jsparse.compiler.lower.chunks import in_chunks
from jsparse.compiler.lower.scope import Blocks, Scope
from jsparse.compiler.lower.targets import CLEAR_GRAIN, clear_elements
from jsparse.compiler.problem import Problem

BYTE = Type("int8")
SIGN = -128  # the bit of a count that says that there is a total
TOTAL = Type("float64")


def stores_alike(stmt: Widened) -> bool:
    """Whether one assignment adds to the target itself: not several, and not to copies of it for each chunk."""
    path = path_to(stmt.body, stmt.target.tensor) or []
    if any(loop.parallel is not None and loop.parallel.mode == "reduced" for loop in path):
        return False
    return sum(assign.target.tensor == stmt.target.tensor for assign in assignments(stmt.body)) == 1


def in_blocks(stmt: Widened, scope: Scope, lowered: Callable[[LoopStmt, Scope], Stmt]) -> Stmt:
    """Clear the target, run the body with the memory of blocks, and add the totals to the last blocks."""
    storage, name = scope.storage, stmt.target.tensor
    target, size, grain = storage.by_name[name], storage.size_of(stmt.target), _grain(stmt, storage.problem)
    totals, counts = (Buffer(scope.fresh(f"{name} {what}").name, type_, -1, True) for what, type_ in _MEMORY.items())
    blocks, length = Blocks(name, stmt.block, totals, counts, grain), floor_div(size, const(grain))

    def add_totals(start: Expr, stop: Expr) -> Stmt:
        n, m = scope.fresh("n"), scope.fresh("n")
        at = add(mul(n, const(grain)), m)
        whole = Binary("+", Load(totals, at), cast(Load(target, at), TOTAL.dtype))
        done = For(m, const(0), const(grain), Store(target, at, cast(whole, target.type.dtype)))
        return For(n, start, stop, If(_has_total(Load(counts, n)), done, rare=True))

    # What an earlier term of a sum has written counts as the first part of a block.
    clear = in_chunks(scope, size, CLEAR_GRAIN, lambda lo, hi: clear_elements(target, scope.fresh("n"), lo, hi))
    body = block(
        *([] if stmt.adds else [clear]),
        lowered(stmt.body, replace(scope, blocks=blocks)),
        in_chunks(scope, length, CLEAR_GRAIN, add_totals),
    )
    return Borrow(totals, size, Borrow(counts, length, body), zeros=False)


_MEMORY = {"totals": TOTAL, "counts": BYTE}


def add_in_block(blocks: Blocks, address: Expr, value: Expr, scope: Scope) -> Stmt:
    """Add a value, or a vector of values, to the target's elements from `address` on."""
    target, totals, counts = scope.storage.by_name[blocks.target], blocks.totals, blocks.counts
    lanes = value.type.lanes
    at, place, n = scope.fresh("at"), scope.fresh("place"), scope.fresh("n")
    count, term = scope.fresh("count", BYTE), scope.fresh("term", value.type)
    before = cast(Load(target, at, lanes), TOTAL.dtype)
    mark = Store(counts, add(place, n), Const(SIGN, BYTE))
    full = block(
        If(
            _has_total(count),
            Store(totals, at, before, accumulate=True),
            block(Store(totals, at, before), For(n, const(0), const(max(lanes, 1) // blocks.grain), mark)),
        ),
        Store(target, at, term),
        Store(counts, place, Const(SIGN + 1, BYTE)),
    )
    more = block(
        Store(target, at, term, accumulate=True, rounded=True), Store(counts, place, Binary("+", count, Const(1, BYTE)))
    )
    limit = Select(_has_total(count), Const(SIGN + blocks.size, BYTE), Const(blocks.size, BYTE))
    return block(
        Let(at, address),
        Let(place, floor_div(at, const(blocks.grain))),
        Let(count, Load(counts, place)),
        Let(term, value),
        If(Compare("==", count, limit), full, more, rare=True),
    )


def _has_total(count: Expr) -> Expr:
    return Compare("<", count, Const(0, BYTE))


def _grain(stmt: Widened, problem: Problem) -> int:
    """Return the largest number of elements that divides all tiles of the target's innermost index; 1 without tiles."""
    last = stmt.target.indices[-1] if stmt.target.indices else None
    for loop in path_to(stmt.body, stmt.target.tensor) or []:
        size = problem.size.get(loop.var)
        if isinstance(loop.domain, Tiles) and loop.var == last and size:
            return gcd(loop.domain.lanes, loop.domain.wide, size)
    return 1
