"""Sparse workspaces: they mark the coordinates that are written, and give them back in order.

Beside the values there is a bit for each coordinate, in words of 64. A further bit for each word says whether any bit
of it is set. A short workspace has at most 64 words, so that their bits fit in a register. Coordinates come out sorted
without comparisons, at a cost per nonzero and not per coordinate.
"""

from __future__ import annotations

from collections.abc import Callable

from jsparse.compiler.kernel.algebra import add, block, cast, const, mul, zero
from jsparse.compiler.kernel.nodes import (
    Binary,
    Borrow,
    Buffer,
    Compare,
    Const,
    Declare,
    Expr,
    For,
    If,
    Let,
    Load,
    LowestBit,
    Select,
    Set,
    Stmt,
    Store,
    Var,
    While,
)
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
    values = Buffer(scope.fresh(row.name).name, Type(row.dtype), -1, True) if row.dtype else None
    bits = Buffer(scope.fresh("bits").name, I64, -1, True)
    short = isinstance(size, Const) and size.value <= SHORT
    words = None if short else Buffer(scope.fresh("words").name, I64, -1, True)
    return scope.with_workspace(row.name, WorkspaceBuffers(values, bits, words))


def with_memory(scope: Scope, row: SparseWorkspace, body: Stmt) -> Stmt:
    """The body with memory for an empty workspace: every chunk borrows its own."""
    assert row.var is not None
    size, store = scope.storage.size(row.var), scope.workspaces[row.name]
    length = word_of(add(size, const(63)))
    if store.words is not None:
        body = Borrow(store.words, word_of(add(length, const(63))), body, stays_empty=True)
    body = Borrow(store.bits, length, body, stays_empty=True)
    return body if store.values is None else Borrow(store.values, size, body, stays_empty=True)


def sparse_where(where: Where, row: SparseWorkspace, scope: Scope, lower: Callable[[LoopStmt, Scope], Stmt]) -> Stmt:
    """Producer, then consumer if anything was written. A scalar workspace is declared here."""
    is_short = row.var is not None and scope.workspaces[row.name].words is None
    written = scope.fresh("written", I64 if is_short else BOOL)  # the bits for words, or whether there is any
    inner = scope.with_register(_written(row.name), written)
    start: list[Stmt] = [Declare(written, zero(written.type))]
    if row.dtype and row.var is None:
        value = scope.fresh(row.name, Type(row.dtype))
        inner = inner.with_register(row.name, value)
        start.append(Declare(value, Const(row.monoid.zero, value.type)))
    some = Compare("!=", written, const(0)) if is_short else written
    return block(*start, lower(where.producer, inner), If(some, lower(where.consumer, inner)))


def add_to_workspace(assign: Assign, index: Expr | None, value: Expr | None, scope: Scope) -> Stmt:
    """Add a value, if the workspace holds values, at an index, unless it is a scalar, and mark it."""
    name, operation = assign.target.tensor, assign.monoid.add
    if index is None:
        mark = Set(scope.registers[_written(name)], Const(1, BOOL))
        register = scope.registers.get(name)
        if value is None or register is None:
            return mark
        return block(Set(register, Binary(operation, register, cast(value, register.type.dtype))), mark)
    row = scope.workspaces[name]
    word, written = scope.fresh("word"), scope.registers[_written(name)]
    marks = [set_bit(row.bits, word, index)]
    if row.words is not None:
        marks += [Set(written, Const(1, BOOL)), set_bit(row.words, word_of(word), word)]
    else:
        marks.append(Set(written, Binary("|", written, mask_of(word))))
    if value is None or row.values is None:
        return block(Let(word, word_of(index)), *marks)
    value = cast(value, row.values.type.dtype)
    store: Stmt = Store(row.values, index, value, accumulate=True, op=operation)
    if not identity(operation, row.values.type.dtype):  # borrowed memory is zero: a first write may add
        return block(Let(word, word_of(index)), *marks, store)
    again = has_bit(row.bits, word, index)
    return block(Let(word, word_of(index)), If(again, store, Store(row.values, index, value)), *marks)


def add_if(condition: Expr, assign: Assign, value: Expr | None, scope: Scope) -> Stmt:
    """Add a value to a scalar workspace, and mark it, if the condition holds; without a branch."""
    name = assign.target.tensor
    mark, register = scope.registers[_written(name)], scope.registers.get(name)
    marked = Set(mark, Binary("|", mark, condition))
    if value is None or register is None:
        return marked
    added = Binary(assign.monoid.add, register, cast(value, register.type.dtype))
    return block(Set(register, Select(condition, added, register)), marked)


def nonzeros_loop(loop: Forall, domain: WorkspaceNonzeros, scope: Scope, body: Callable[[Scope], Stmt]) -> Stmt:
    """The body at each marked coordinate, with the workspace's value. The loop empties the workspace."""
    row = scope.workspaces[domain.workspace]
    size = scope.storage.size(loop.var)

    def at(coordinate: Expr) -> Stmt:
        here = scope.fresh(loop.var)
        inner = scope.with_index(loop.var, here)
        if row.values is None:
            return block(Let(here, coordinate), body(inner))
        value = scope.fresh("value", row.values.type)
        read: list[Stmt] = [
            Let(here, coordinate),
            Let(value, Load(row.values, here)),
            Store(row.values, here, zero(value.type)),
        ]
        return block(*read, body(inner.with_register(domain.workspace, value)))

    def of_word(word: Expr) -> Stmt:
        return _each_bit(scope, row.bits, word, at)

    if row.words is None:
        left = scope.fresh("words")
        return block(Declare(left, scope.registers[_written(domain.workspace)]), _each_of(scope, left, of_word))
    n = scope.fresh("n")
    length = word_of(add(size, const(63)))
    return For(n, const(0), word_of(add(length, const(63))), _each_bit(scope, row.words, n, of_word))


def _each_bit(scope: Scope, buffer: Buffer, index: Expr, body: Callable[[Expr], Stmt]) -> Stmt:
    """The body for the number of each set bit of a word in memory, which is cleared."""
    left = scope.fresh("left")
    some = Compare("!=", left, const(0))
    each = _each_of(scope, left, lambda bit: body(add(mul(index, const(64)), bit)))
    return block(Declare(left, Load(buffer, index)), If(some, block(Store(buffer, index, const(0)), each)))


def _each_of(scope: Scope, left: Var, body: Callable[[Expr], Stmt]) -> Stmt:
    """The body for the number of each set bit of a word in a register, which is cleared."""
    number = scope.fresh("bit")
    step = block(
        Let(number, LowestBit(left)),
        Set(left, Binary("&", left, Binary("-", left, const(1)))),
        body(number),
    )
    return While(Compare("!=", left, const(0)), step)


def _written(name: str) -> str:
    return f"{name}'s mark"


def is_sparse_workspace(name: str, scope: Scope) -> bool:
    """Whether a workspace is sparse."""
    return name in scope.workspaces or _written(name) in scope.registers
