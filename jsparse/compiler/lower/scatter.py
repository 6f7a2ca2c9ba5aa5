"""Maps of segments: the coordinates of a segment's entries, scattered into memory in which lookups take one step.

A map has a mark for each coordinate of the dimension, one more mark after these that is never set, and the position of
each entry, which is read only where the mark is set. Marks are bytes, or bits if the bytes would not fit a cache. When
the loops inside are done, the marks of the segment's entries are removed, so that the memory is empty for the next
segment; the positions may stay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from jsparse.compiler.kernel import nodes as ir
from jsparse.compiler.kernel.algebra import add, block, cast, const
from jsparse.compiler.kernel.traverse import rebuilt
from jsparse.compiler.kernel.types import I64, Type
from jsparse.compiler.loops.nest import Scatter, with_children
from jsparse.compiler.loops.nest import Stmt as LoopStmt
from jsparse.compiler.lower.bits import set_bit, word_of
from jsparse.compiler.lower.levels import Entry, LevelWalk
from jsparse.compiler.lower.scope import Map, Scope

__all__ = ["has_maps", "scattered", "with_hoisted_memory"]

BYTE = Type("int8")
BYTES = 1 << 20  # the most coordinates of a dimension whose marks are bytes


def scattered(stmt: Scatter, scope: Scope, body: Callable[[Scope], ir.Stmt]) -> ir.Stmt:
    """The body with a map of the segment, in borrowed memory that is empty before and after."""
    level = LevelWalk(scope, replace(stmt.domain, bound=False, scattered=False), stmt.var)
    size = scope.storage.problem.size[stmt.var]
    in_bytes = size is not None and size <= BYTES
    marks = ir.Buffer(scope.fresh("marks").name, BYTE if in_bytes else I64, -1, True)
    positions = (
        ir.Buffer(scope.fresh("positions").name, Type(level.type.index_dtype), -1, True) if stmt.positions else None
    )

    def marked(entry: Entry, mark: int) -> ir.Stmt:
        if in_bytes:
            return ir.Store(marks, entry.coordinate, ir.Const(mark, BYTE))
        word = scope.fresh("word")
        store = set_bit(marks, word, entry.coordinate) if mark else ir.Store(marks, word, const(0))
        return block(ir.Let(word, word_of(entry.coordinate)), store)

    def put(entry: Entry) -> ir.Stmt:
        if positions is None:
            return marked(entry, 1)
        store = ir.Store(positions, entry.coordinate, cast(entry.positions.first, level.type.index_dtype))
        return block(marked(entry, 1), store)

    inner = body(scope.with_map(stmt.domain, Map(marks, positions)))
    run: ir.Stmt = block(level.serial(put), inner, level.serial(lambda entry: marked(entry, 0)))
    if positions is not None:
        run = ir.Borrow(positions, level.extent(), run, zeros=False)
    length = add(level.extent(), const(ir.FILTER_ROOM)) if in_bytes else add(word_of(level.extent()), const(1))
    return ir.Borrow(marks, length, run, stays_empty=True)


def has_maps(stmt: LoopStmt) -> bool:
    """Whether a statement scatters a segment into a map."""
    found = isinstance(stmt, Scatter)

    def visit(inner: LoopStmt) -> LoopStmt:
        nonlocal found
        found = found or has_maps(inner)
        return inner

    with_children(stmt, visit)
    return found


def with_hoisted_memory(stmt: ir.Stmt) -> ir.Stmt:
    """The kernel in which each chunk borrows workspaces once, outside of its loops, unless it needs new zeros."""
    found: list[ir.Borrow] = []

    def visit(node: Any) -> Any:
        if isinstance(node, ir.Borrow) and (node.stays_empty or not node.zeros):
            found.append(node)
            return visit(node.body)
        if isinstance(node, ir.Parallel):
            return replace(node, body=with_hoisted_memory(node.body))
        return rebuilt(node, visit)

    body = visit(stmt)
    for borrow in reversed(found):
        body = replace(borrow, body=body)
    return body
