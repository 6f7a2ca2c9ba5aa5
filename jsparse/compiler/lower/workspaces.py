"""Sparse workspaces: they mark the coordinates that are written, and return them in order.

Beside the values there is a bit for each coordinate, in words of 64. A further bit for each word says whether any bit
of it is set. A short workspace has at most 64 words, so that their bits fit in a register. Coordinates come out sorted
without comparisons, at a cost per nonzero and not per coordinate.
"""

from __future__ import annotations

from collections.abc import Callable

from jsparse.compiler.kernel import nodes as ir
from jsparse.compiler.kernel.algebra import add, block, cast, const, mul, zero
from jsparse.compiler.kernel.types import BOOL, I64, Type
from jsparse.compiler.loops.domain import WorkspaceNonzeros
from jsparse.compiler.loops.nest import Assign, Forall, SparseWorkspace, Where
from jsparse.compiler.loops.nest import Stmt as LoopStmt
from jsparse.compiler.lower.bits import has_bit, mask_of, set_bit, word_of
from jsparse.compiler.lower.scope import Scope, WorkspaceBuffers
from jsparse.compiler.semiring import identity

__all__ = [
    "add_if",
    "add_to_workspace",
    "is_sparse_workspace",
    "new_workspace",
    "nonzeros_loop",
    "sparse_where",
    "with_memory",
]

SHORT = 64 * 64  # coordinates of a workspace whose bits for words are one word


def new_workspace(scope: Scope, row: SparseWorkspace) -> Scope:
    """The scope with a workspace's buffers; `with_memory` borrows their memory."""
    assert row.var is not None
    size = scope.storage.size(row.var)
    values = ir.Buffer(scope.fresh(row.name).name, Type(row.dtype), -1, True) if row.dtype else None
    bits = ir.Buffer(scope.fresh("bits").name, I64, -1, True)
    short = isinstance(size, ir.Const) and size.value <= SHORT
    words = None if short else ir.Buffer(scope.fresh("words").name, I64, -1, True)
    return scope.with_workspace(row.name, WorkspaceBuffers(values, bits, words))


def with_memory(scope: Scope, row: SparseWorkspace, body: ir.Stmt) -> ir.Stmt:
    """The body with memory for an empty workspace: every chunk borrows its own."""
    assert row.var is not None
    size, store = scope.storage.size(row.var), scope.workspaces[row.name]
    length = word_of(add(size, const(63)))
    if store.words is not None:
        body = ir.Borrow(store.words, word_of(add(length, const(63))), body, stays_empty=True)
    body = ir.Borrow(store.bits, length, body, stays_empty=True)
    return body if store.values is None else ir.Borrow(store.values, size, body, stays_empty=True)


def sparse_where(
    where: Where, row: SparseWorkspace, scope: Scope, lower: Callable[[LoopStmt, Scope], ir.Stmt]
) -> ir.Stmt:
    """Producer, then consumer if anything was written. A scalar workspace is declared here."""
    is_short = row.var is not None and scope.workspaces[row.name].words is None
    written = scope.fresh("written", I64 if is_short else BOOL)  # the bits for words, or whether there is any
    inner = scope.with_register(_written(row.name), written)
    start: list[ir.Stmt] = [ir.Declare(written, zero(written.type))]
    if row.dtype and row.var is None:
        value = scope.fresh(row.name, Type(row.dtype))
        inner = inner.with_register(row.name, value)
        start.append(ir.Declare(value, ir.Const(row.monoid.zero, value.type)))
    some = ir.Compare("!=", written, const(0)) if is_short else written
    return block(*start, lower(where.producer, inner), ir.If(some, lower(where.consumer, inner)))


def add_to_workspace(assign: Assign, index: ir.Expr | None, value: ir.Expr | None, scope: Scope) -> ir.Stmt:
    """Add a value at an index and mark the index. A scalar has no index; a workspace without values is only marked."""
    name, operation = assign.target.tensor, assign.monoid.add
    if index is None:
        mark = ir.Set(scope.registers[_written(name)], ir.Const(1, BOOL))
        register = scope.registers.get(name)
        if value is None or register is None:
            return mark
        return block(ir.Set(register, ir.Binary(operation, register, cast(value, register.type.dtype))), mark)
    row = scope.workspaces[name]
    word, written = scope.fresh("word"), scope.registers[_written(name)]
    marks = [set_bit(row.bits, word, index)]
    if row.words is not None:
        marks += [ir.Set(written, ir.Const(1, BOOL)), set_bit(row.words, word_of(word), word)]
    else:
        marks.append(ir.Set(written, ir.Binary("|", written, mask_of(word))))
    if value is None or row.values is None:
        return block(ir.Let(word, word_of(index)), *marks)
    value = cast(value, row.values.type.dtype)
    store: ir.Stmt = ir.Store(row.values, index, value, accumulate=True, op=operation)
    if not identity(operation, row.values.type.dtype):  # borrowed memory is zero: a first write may add
        return block(ir.Let(word, word_of(index)), *marks, store)
    again = has_bit(row.bits, word, index)
    return block(ir.Let(word, word_of(index)), ir.If(again, store, ir.Store(row.values, index, value)), *marks)


def add_if(condition: ir.Expr, assign: Assign, value: ir.Expr | None, scope: Scope) -> ir.Stmt:
    """Add a value to a scalar workspace, and mark it, if the condition holds; without a branch."""
    name = assign.target.tensor
    mark, register = scope.registers[_written(name)], scope.registers.get(name)
    marked = ir.Set(mark, ir.Binary("|", mark, condition))
    if value is None or register is None:
        return marked
    added = ir.Binary(assign.monoid.add, register, cast(value, register.type.dtype))
    return block(ir.Set(register, ir.Select(condition, added, register)), marked)


def nonzeros_loop(loop: Forall, domain: WorkspaceNonzeros, scope: Scope, body: Callable[[Scope], ir.Stmt]) -> ir.Stmt:
    """The body at each marked coordinate, with the workspace's value. The loop empties the workspace."""
    row = scope.workspaces[domain.workspace]
    size = scope.storage.size(loop.var)

    def at(coordinate: ir.Expr) -> ir.Stmt:
        here = scope.fresh(loop.var)
        inner = scope.with_index(loop.var, here)
        if row.values is None:
            return block(ir.Let(here, coordinate), body(inner))
        value = scope.fresh("value", row.values.type)
        read: list[ir.Stmt] = [
            ir.Let(here, coordinate),
            ir.Let(value, ir.Load(row.values, here)),
            ir.Store(row.values, here, zero(value.type)),
        ]
        return block(*read, body(inner.with_register(domain.workspace, value)))

    def of_word(word: ir.Expr) -> ir.Stmt:
        return _each_bit(scope, row.bits, word, at)

    if row.words is None:
        left = scope.fresh("words")
        return block(ir.Declare(left, scope.registers[_written(domain.workspace)]), _each_of(scope, left, of_word))
    n = scope.fresh("n")
    length = word_of(add(size, const(63)))
    return ir.For(n, const(0), word_of(add(length, const(63))), _each_bit(scope, row.words, n, of_word))


def _each_bit(scope: Scope, buffer: ir.Buffer, index: ir.Expr, body: Callable[[ir.Expr], ir.Stmt]) -> ir.Stmt:
    """The body for the number of each set bit of a word in memory, which is cleared."""
    left = scope.fresh("left")
    some = ir.Compare("!=", left, const(0))
    each = _each_of(scope, left, lambda bit: body(add(mul(index, const(64)), bit)))
    return block(ir.Declare(left, ir.Load(buffer, index)), ir.If(some, block(ir.Store(buffer, index, const(0)), each)))


def _each_of(scope: Scope, left: ir.Var, body: Callable[[ir.Expr], ir.Stmt]) -> ir.Stmt:
    """The body for the number of each set bit of a word in a register, which is cleared."""
    number = scope.fresh("bit")
    step = block(
        ir.Let(number, ir.LowestBit(left)),
        ir.Set(left, ir.Binary("&", left, ir.Binary("-", left, const(1)))),
        body(number),
    )
    return ir.While(ir.Compare("!=", left, const(0)), step)


def _written(name: str) -> str:
    return f"{name}'s mark"


def is_sparse_workspace(name: str, scope: Scope) -> bool:
    """Whether a workspace is sparse."""
    return name in scope.workspaces or _written(name) in scope.registers
