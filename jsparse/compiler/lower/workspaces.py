"""Workspaces, and maps of segments.

An array workspace is borrowed memory for the part of a temporary that one iteration of the enclosing loops needs
(Kjolstad, Ahrens, Kamil and Amarasinghe, "Tensor algebra compilation with workspaces", CGO 2019).

A sparse workspace is the dense row in which Gustavson ("Two fast algorithms for sparse matrices", 1978) adds up a row
of a sparse product. It marks the coordinates that are written, and returns them in order. Beside the values there is a
bit for each coordinate, in words of 64 bits. For each of these words, another bit says whether the word is not zero. A
short workspace has at most 64 words, so that these other bits fit in a register. The coordinates are sorted without
comparisons, and the cost depends on the number of nonzeros, not on the number of coordinates.

A map of a segment holds the coordinates of its entries, scattered into memory in which lookups take one step. It has a
mark for each coordinate of the dimension. One more mark, for the size of the dimension, is never set. The map also has
the position of each entry, which is read only where the mark is set. Marks are bytes, or bits if the bytes would not
fit a cache. After the loops inside, the marks of the segment's entries are removed, so that the memory is empty for the
next segment. The positions are not removed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from jsparse.compiler.dtypes import BOOL, I64, Type
from jsparse.compiler.kernel import nodes as ir
from jsparse.compiler.kernel.algebra import add, block, cast, const, minimum, mul, sub, zero
from jsparse.compiler.kernel.nodes import Binary, Bind, Borrow, Const, Expr, Ramp, Stmt, map_children
from jsparse.compiler.loops.domain import LevelIteration, WorkspaceNonzeros
from jsparse.compiler.loops.nest import ArrayWorkspace, Assign, Forall, Scatter, SparseWorkspace, Where, statements
from jsparse.compiler.loops.nest import Stmt as LoopStmt
from jsparse.compiler.lower.chunks import Lower
from jsparse.compiler.lower.levels import Entry, LevelWalk
from jsparse.compiler.lower.scope import Array, Map, Scope, WorkspaceBuffers, has_bit, mask_of, set_bit, word_of
from jsparse.compiler.problem import Dense, Positions
from jsparse.compiler.semiring import identity

MOST_LANES = 64  # the maximum number of positions that are worked on at a time


def array_where(where: Where, workspace: ArrayWorkspace, scope: Scope, lower: Lower) -> Stmt:
    """Run the producer, then the consumer, with memory for the elements. Each chunk borrows its own memory."""
    problem, below, prelude = scope.storage.problem, workspace.below, list[Stmt]()
    type_, axes = problem.type_of[workspace.name], list[tuple[int, Expr, Expr]]()
    stride: Expr = const(1)
    used: Expr = stride
    for number in reversed(workspace.axes):
        axis = type_.axes[number]
        first: Expr = const(0)
        extent: Expr
        count: Expr | None = None
        index = workspace.target.indices[axis.dim] if isinstance(axis, Dense) else None
        if isinstance(index, str) and index in scope.panels and index not in scope.indices:
            # The loops around fix the panel, but not the coordinate.
            first, extent = scope.panels[index].start, const(scope.panels[index].size)
        elif isinstance(axis, Dense):
            extent = scope.storage.dense_extent(workspace.target, number)
        else:
            extent = _most(axis, below, scope)
            if below is not None:
                first, (start, stop) = scope.fresh("first"), _bounds(axis, below, scope)
                prelude.append(Bind(first, start))
                count = None if stop is None else sub(stop, first)
        axes.append((number, first, stride))
        used = mul(stride, extent if count is None else count)
        stride = mul(stride, extent)
    # The index arrays of a dynamic pattern may hold anything, so positions may lie outside of the array. If it is for
    # one segment, they lie inside: it has room for the pattern's capacity, and no segment is longer.
    clamps = False
    if type_.positions is not None:
        pattern = problem.patterns[type_.positions.pattern]
        one_segment = below is not None and not below.panel and below.level == len(pattern.levels) - 2
        clamps = pattern.dynamic and not one_segment
    inner = replace(scope, arrays={**scope.arrays, workspace.name: Array(tuple(axes), stride, used, clamps)})
    body = block(*prelude, lower(where.producer, inner), lower(where.consumer, inner))
    return Borrow(scope.storage.by_name[workspace.name], stride, body, zeros=False)


def _most(axis: Positions, below: LevelIteration | None, scope: Scope) -> Expr:
    """An upper bound of the number of positions below one position of a level, or below the positions of a panel.

    For a dynamic pattern, it is the pattern's capacity plus the most lanes. This is enough for any index arrays,
    because addresses are clamped to the array, and all lanes of a clamped address lie inside the array.
    """
    storage, type_ = scope.storage, scope.storage.problem.patterns[axis.pattern]
    most = storage.position_count(axis.pattern)
    if type_.dynamic:
        return add(most, const(MOST_LANES))
    if below is None or any(type_.repeats(level) for level in range(below.level, len(type_.levels))):
        return most
    names = storage.problem.level_variables[axis.pattern]
    product: Expr = const(scope.panels[names[below.level]].size if below.panel else 1)
    for name in names[below.level + 1 :]:
        product = mul(product, storage.size(name))
    return minimum(product, most)


def _bounds(axis: Positions, below: LevelIteration, scope: Scope) -> tuple[Expr, Expr | None]:
    """The first position of the pattern's last level below the present position of `below`, or below the first position
    of the present panel, and the end of these positions, or None if only a loop could find it.

    The upper bound `_most` is far larger than their number: the number of all coordinates of the levels below, or of
    all positions.
    """
    name = scope.storage.problem.level_variables[axis.pattern][below.level]
    walk = LevelWalk(scope, below, name)
    if below.panel:
        return walk.leaf(walk.full_entry(scope.panels[name].start).positions.first, below.level + 1), None
    position = scope.positions[axis.pattern, below.level]
    first = walk.leaf(position.first, below.level + 1)
    if position.present is not None or (walk.repeats and position.stop is None):
        return first, None
    stop = add(position.first, const(1)) if position.stop is None else position.stop
    return first, walk.leaf(stop, below.level + 1)


def address_in(array: Array, coordinates: Sequence[Expr]) -> Expr:
    """The address of the element at these coordinates of the storage axes, clamped to the array if necessary."""
    address: Expr = const(0)
    for number, first, stride in array.axes:
        address = add(address, mul(sub(coordinates[number], first), stride))
    return _inside(address, array.length) if array.clamps else address


def _inside(address: Expr, length: Expr) -> Expr:
    """The nearest address inside the array; for a ramp, the nearest ramp whose elements all lie inside."""
    if isinstance(address, Ramp):
        return Ramp(_inside(address.first, sub(length, const(address.lanes - 1))), address.lanes)
    nearest = minimum(address, sub(length, const(1)))
    return Binary("max", nearest, Const(0, nearest.type))


def array_names(stmt: LoopStmt) -> frozenset[str]:
    """The names of the temporaries of a statement that are array workspaces."""
    wheres = (inner for inner in statements(stmt) if isinstance(inner, Where))
    return frozenset(w.workspace.name for w in wheres if isinstance(w.workspace, ArrayWorkspace))


SHORT = 64 * 64  # coordinates of a workspace whose bits for words are one word


def new_workspace(scope: Scope, row: SparseWorkspace) -> Scope:
    """The scope with a workspace's buffers; `with_memory` borrows their memory."""
    assert row.var is not None
    size = scope.storage.size(row.var)
    values = ir.Buffer(scope.fresh(row.name).name, Type(row.dtype), -1, True) if row.dtype else None
    bits = ir.Buffer(scope.fresh("bits").name, I64, -1, True)
    short = isinstance(size, ir.Const) and size.value <= SHORT
    words = None if short else ir.Buffer(scope.fresh("words").name, I64, -1, True)
    return replace(scope, workspaces={**scope.workspaces, row.name: WorkspaceBuffers(values, bits, words)})


def with_memory(scope: Scope, row: SparseWorkspace, body: ir.Stmt) -> ir.Stmt:
    """Run the body with memory for an empty workspace. Every chunk borrows its own memory."""
    assert row.var is not None
    size, store = scope.storage.size(row.var), scope.workspaces[row.name]
    length = word_of(add(size, const(63)))
    if store.words is not None:
        body = ir.Borrow(store.words, word_of(add(length, const(63))), body, stays_empty=True)
    body = ir.Borrow(store.bits, length, body, stays_empty=True)
    return body if store.values is None else ir.Borrow(store.values, size, body, stays_empty=True)


def sparse_where(where: Where, row: SparseWorkspace, scope: Scope, lower: Lower) -> ir.Stmt:
    """Run the producer, then the consumer if anything was written. A scalar workspace is declared here."""
    is_short = row.var is not None and scope.workspaces[row.name].words is None
    # In a short workspace, the bits for words fit this register. Else it only tells whether anything was written, so
    # that a row without entries does not scan the words.
    written = scope.fresh("written", I64 if is_short else BOOL)
    inner = scope.with_register(_mark_name(row.name), written)
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
        mark = ir.Set(scope.registers[_mark_name(name)], ir.Const(1, BOOL))
        register = scope.registers.get(name)
        if value is None or register is None:
            return mark
        return block(ir.Set(register, ir.Binary(operation, register, cast(value, register.type.dtype))), mark)
    row = scope.workspaces[name]
    word, written = scope.fresh("word"), scope.registers[_mark_name(name)]
    marks = [set_bit(row.bits, word, index)]
    if row.words is not None:
        marks += [ir.Set(written, ir.Const(1, BOOL)), set_bit(row.words, word_of(word), word)]
    else:
        marks.append(ir.Set(written, ir.Binary("|", written, mask_of(word))))
    if value is None or row.values is None:
        return block(ir.Bind(word, word_of(index)), *marks)
    value = cast(value, row.values.type.dtype)
    store: ir.Stmt = ir.Store(row.values, index, value, accumulate=True, op=operation)
    if not identity(operation, row.values.type.dtype):  # borrowed memory is zero, so the first write may add as well
        return block(ir.Bind(word, word_of(index)), *marks, store)
    again = has_bit(row.bits, word, index)
    return block(ir.Bind(word, word_of(index)), ir.If(again, store, ir.Store(row.values, index, value)), *marks)


def add_if(condition: ir.Expr, assign: Assign, value: ir.Expr | None, scope: Scope) -> ir.Stmt:
    """If a condition holds, add a value to a scalar workspace and mark the workspace. This takes no branch."""
    name = assign.target.tensor
    mark, register = scope.registers[_mark_name(name)], scope.registers.get(name)
    marked = ir.Set(mark, ir.Binary("|", mark, condition))
    if value is None or register is None:
        return marked
    added = ir.Binary(assign.monoid.add, register, cast(value, register.type.dtype))
    return block(ir.Set(register, ir.Select(condition, added, register)), marked)


def nonzeros_loop(loop: Forall, domain: WorkspaceNonzeros, scope: Scope, body: Callable[[Scope], ir.Stmt]) -> ir.Stmt:
    """Run the body at each marked coordinate, with the workspace's value there. The loop empties the workspace."""
    row = scope.workspaces[domain.workspace]
    size = scope.storage.size(loop.var)

    def at(coordinate: ir.Expr) -> ir.Stmt:
        here = scope.fresh(loop.var)
        inner = scope.with_index(loop.var, here)
        if row.values is None:
            return block(ir.Bind(here, coordinate), body(inner))
        value = scope.fresh("value", row.values.type)
        return block(
            ir.Bind(here, coordinate),
            ir.Bind(value, ir.Load(row.values, here)),
            ir.Store(row.values, here, zero(value.type)),
            body(inner.with_register(domain.workspace, value)),
        )

    def of_word(word: ir.Expr) -> ir.Stmt:
        return _each_bit(scope, row.bits, word, at)

    if row.words is None:
        words = scope.fresh("words")
        return block(ir.Declare(words, scope.registers[_mark_name(domain.workspace)]), _each_of(scope, words, of_word))
    n = scope.fresh("n")
    length = word_of(add(size, const(63)))
    return ir.For(n, const(0), word_of(add(length, const(63))), _each_bit(scope, row.words, n, of_word))


def _each_bit(scope: Scope, buffer: ir.Buffer, index: ir.Expr, body: Callable[[ir.Expr], ir.Stmt]) -> ir.Stmt:
    """Run the body for each set bit of a word in memory, with the bit's index in the buffer. The word is cleared."""
    word = scope.fresh("left")
    some = ir.Compare("!=", word, const(0))
    each = _each_of(scope, word, lambda bit: body(add(mul(index, const(64)), bit)))
    return block(ir.Declare(word, ir.Load(buffer, index)), ir.If(some, block(ir.Store(buffer, index, const(0)), each)))


def _each_of(scope: Scope, word: ir.Var, body: Callable[[ir.Expr], ir.Stmt]) -> ir.Stmt:
    """Run the body for each set bit of a word in a register, with the bit's index in the word. The word is cleared."""
    number = scope.fresh("bit")
    # word & (word - 1) clears the lowest set bit, so there are as many steps as set bits, in ascending order.
    step = block(
        ir.Bind(number, ir.LowestBit(word)),
        ir.Set(word, ir.Binary("&", word, ir.Binary("-", word, const(1)))),
        body(number),
    )
    return ir.While(ir.Compare("!=", word, const(0)), step)


def _mark_name(name: str) -> str:
    return f"{name}'s mark"


def is_sparse_workspace(name: str, scope: Scope) -> bool:
    return name in scope.workspaces or _mark_name(name) in scope.registers


BYTE = Type("int8")
BYTES = 1 << 20  # the maximum number of coordinates of a dimension whose marks are bytes


def lower_scatter(stmt: Scatter, scope: Scope, body: Callable[[Scope], ir.Stmt]) -> ir.Stmt:
    """Run the body with a map of the segment, in borrowed memory whose marks are empty before and after."""
    level = LevelWalk(scope, replace(stmt.domain, bound=False, scattered=False), stmt.var)
    size = scope.storage.problem.size[stmt.var]
    in_bytes = size is not None and size <= BYTES
    marks = ir.Buffer(scope.fresh("marks").name, BYTE if in_bytes else I64, -1, True)
    index = Type(level.type.index_dtype)
    positions = ir.Buffer(scope.fresh("positions").name, index, -1, True) if stmt.positions else None

    def set_mark(entry: Entry, mark: int) -> ir.Stmt:
        if in_bytes:
            return ir.Store(marks, entry.coordinate, ir.Const(mark, BYTE))
        word = scope.fresh("word")
        store = set_bit(marks, word, entry.coordinate) if mark else ir.Store(marks, word, const(0))
        return block(ir.Bind(word, word_of(entry.coordinate)), store)

    def put(entry: Entry) -> ir.Stmt:
        if positions is None:
            return set_mark(entry, 1)
        store = ir.Store(positions, entry.coordinate, cast(entry.positions.first, level.type.index_dtype))
        return block(set_mark(entry, 1), store)

    key = stmt.domain.pattern, stmt.domain.level
    inner = body(replace(scope, maps={**scope.maps, key: Map(marks, positions)}))
    run: ir.Stmt = block(level.serial(put), inner, level.serial(lambda entry: set_mark(entry, 0)))
    if positions is not None:
        run = ir.Borrow(positions, level.extent(), run, zeros=False)
    length = add(level.extent(), const(ir.FILTER_ROOM)) if in_bytes else add(word_of(level.extent()), const(1))
    return ir.Borrow(marks, length, run, stays_empty=True)


def with_hoisted_memory(stmt: ir.Stmt) -> ir.Stmt:
    """Move the borrowing of memory out of loops, so that each chunk borrows it once. If memory has to be cleared each
    time, it is still borrowed inside the loops, and so is memory whose length the kernel counts."""
    hoisted: list[ir.Borrow] = []

    def visit(node: Any) -> Any:
        if isinstance(node, ir.Borrow) and (node.stays_empty or not node.zeros) and not ir.variables(node.length):
            hoisted.append(node)
            return visit(node.body)
        if isinstance(node, ir.ParallelFor):
            return replace(node, body=with_hoisted_memory(node.body))
        return map_children(node, visit)

    body = visit(stmt)
    for borrow in reversed(hoisted):
        body = replace(borrow, body=body)
    return body
