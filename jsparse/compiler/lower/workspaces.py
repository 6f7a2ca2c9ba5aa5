"""Workspaces, and maps of segments.

An array workspace is borrowed memory for the part of a temporary that one iteration of the enclosing loops needs.

A sparse workspace marks the coordinates that are written, and returns them in order. Beside the values there is a bit
for each coordinate, in words of 64 bits. For each of these words, another bit says whether the word is not zero. A
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
from jsparse.compiler.kernel.nodes import Binary, Borrow, Const, Expr, Let, Ramp, Stmt, map_children
from jsparse.compiler.loops.domain import LevelIteration, WorkspaceNonzeros
from jsparse.compiler.loops.nest import ArrayWorkspace, Assign, Forall, Scatter, SparseWorkspace, Where, with_children
from jsparse.compiler.loops.nest import Stmt as LoopStmt
from jsparse.compiler.lower.levels import Entry, LevelWalk
from jsparse.compiler.lower.scope import Array, Map, Panel, Scope, WorkspaceBuffers, has_bit, mask_of, set_bit, word_of
from jsparse.compiler.problem import Dense, Positions
from jsparse.compiler.semiring import identity

MOST_LANES = 64  # the most positions that are worked on at a time


def array_where(
    where: Where, workspace: ArrayWorkspace, scope: Scope, lower: Callable[[LoopStmt, Scope], Stmt]
) -> Stmt:
    """Run the producer, then the consumer, with memory for the elements. Each chunk borrows its own memory."""
    prelude, array = _array(workspace, scope)
    inner = scope.with_array(workspace.name, array)
    body = block(*prelude, lower(where.producer, inner), lower(where.consumer, inner))
    return Borrow(scope.storage.by_name[workspace.name], array.length, body, zeros=False)


def _array(workspace: ArrayWorkspace, scope: Scope) -> tuple[list[Stmt], Array]:
    prelude: list[Stmt] = []
    axes: list[tuple[int, Expr, Expr]] = []
    stride: Expr = const(1)
    used: Expr = stride
    types = scope.storage.problem.type_of[workspace.name].axes
    for number in reversed(workspace.axes):
        axis = types[number]
        first: Expr = const(0)
        panel = _panel(axis, workspace, scope)
        extent: Expr
        count: Expr | None = None
        if panel is not None:
            first, extent = panel.start, const(panel.size)
        elif isinstance(axis, Dense):
            extent = scope.storage.dense_extent(workspace.target, number)
        else:
            extent = _most(axis, workspace.below, scope)
            if workspace.below is not None:
                here = scope.fresh("first")
                prelude.append(Let(here, _first(axis, workspace.below, scope)))
                first = here
                count = _count(axis, workspace.below, here, scope) if number == workspace.axes[0] else None
        axes.append((number, first, stride))
        used = mul(stride, extent if count is None else count)
        stride = mul(stride, extent)
    return prelude, Array(tuple(axes), stride, used, _may_leave(workspace, scope))


def _may_leave(workspace: ArrayWorkspace, scope: Scope) -> bool:
    """Whether positions may lie outside the array, because the index arrays of a dynamic pattern may hold anything.

    If the array is for one segment, its positions always lie inside: the array has room for the pattern's capacity, and
    no segment is longer.
    """
    positions = scope.storage.problem.type_of[workspace.name].positions
    if positions is None:
        return False
    type_, below = scope.storage.problem.patterns[positions.pattern], workspace.below
    one_segment = below is not None and not below.panel and below.level == len(type_.levels) - 2
    return type_.dynamic and not one_segment


def _panel(axis: Dense | Positions, workspace: ArrayWorkspace, scope: Scope) -> Panel | None:
    """The panel of an axis, if the loops around fix the panel but not the coordinate; else None."""
    index = workspace.target.indices[axis.dim] if isinstance(axis, Dense) else None
    return scope.panels.get(index) if isinstance(index, str) and index not in scope.indices else None


def _most(axis: Positions, below: LevelIteration | None, scope: Scope) -> Expr:
    """An upper bound of the number of positions below one position of a level, or below the positions of a panel.

    For a dynamic pattern, it is the pattern's capacity plus the most lanes. This is enough for any index arrays,
    because addresses are clamped to the array, and all lanes of a clamped address lie inside the array.
    """
    storage, type_ = scope.storage, scope.storage.problem.patterns[axis.pattern]
    most = storage.position_count(axis.pattern)
    if type_.dynamic:
        return add(most, const(MOST_LANES))
    if below is None or type_.repeats(below.level):
        return most
    inner = range(below.level + 1, len(type_.levels))
    names = storage.problem.level_variables[axis.pattern]
    if any(type_.repeats(level) for level in inner):
        return most
    product: Expr = const(scope.panels[names[below.level]].size if below.panel else 1)
    for level in inner:
        product = mul(product, storage.size(names[level]))
    return minimum(product, most)


def _first(axis: Positions, below: LevelIteration, scope: Scope) -> Expr:
    """The first position of the pattern's last level below the present position of `below`, or below the first position
    of the present panel."""
    name = scope.storage.problem.level_variables[axis.pattern][below.level]
    walk = LevelWalk(scope, below, name)
    if below.panel:
        return walk.leaf(walk.full_entry(scope.panels[name].start).positions.first, below.level + 1)
    return walk.leaf(scope.positions[axis.pattern, below.level].first, below.level + 1)


def _count(axis: Positions, below: LevelIteration, first: Expr, scope: Scope) -> Expr | None:
    """The number of positions of the pattern below a level's present position; None if only a loop could count them.

    The upper bound `_most` is far larger: the number of all coordinates of the levels below, or of all positions.
    """
    if below.panel:
        return None
    position = scope.positions[axis.pattern, below.level]
    repeats = scope.storage.problem.patterns[axis.pattern].repeats(below.level)
    if position.present is not None or (repeats and position.stop is None):
        return None
    stop = add(position.first, const(1)) if position.stop is None else position.stop
    walk = LevelWalk(scope, below, scope.storage.problem.level_variables[axis.pattern][below.level])
    return sub(walk.leaf(stop, below.level + 1), first)


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
    found: set[str] = set()

    def visit(inner: LoopStmt) -> LoopStmt:
        if isinstance(inner, Where) and isinstance(inner.workspace, ArrayWorkspace):
            found.add(inner.workspace.name)
        return with_children(inner, visit)

    visit(stmt)
    return frozenset(found)


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
    """Run the body with memory for an empty workspace. Every chunk borrows its own memory."""
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
    """Run the producer, then the consumer if anything was written. A scalar workspace is declared here."""
    is_short = row.var is not None and scope.workspaces[row.name].words is None
    written = scope.fresh("written", I64 if is_short else BOOL)  # the bits for words, or whether there is any
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
        return block(ir.Let(word, word_of(index)), *marks)
    value = cast(value, row.values.type.dtype)
    store: ir.Stmt = ir.Store(row.values, index, value, accumulate=True, op=operation)
    if not identity(operation, row.values.type.dtype):  # borrowed memory is zero: a first write may add
        return block(ir.Let(word, word_of(index)), *marks, store)
    again = has_bit(row.bits, word, index)
    return block(ir.Let(word, word_of(index)), ir.If(again, store, ir.Store(row.values, index, value)), *marks)


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
        return block(ir.Declare(left, scope.registers[_mark_name(domain.workspace)]), _each_of(scope, left, of_word))
    n = scope.fresh("n")
    length = word_of(add(size, const(63)))
    return ir.For(n, const(0), word_of(add(length, const(63))), _each_bit(scope, row.words, n, of_word))


def _each_bit(scope: Scope, buffer: ir.Buffer, index: ir.Expr, body: Callable[[ir.Expr], ir.Stmt]) -> ir.Stmt:
    """Run the body for each set bit of a word in memory, with the bit's index in the buffer. The word is cleared."""
    left = scope.fresh("left")
    some = ir.Compare("!=", left, const(0))
    each = _each_of(scope, left, lambda bit: body(add(mul(index, const(64)), bit)))
    return block(ir.Declare(left, ir.Load(buffer, index)), ir.If(some, block(ir.Store(buffer, index, const(0)), each)))


def _each_of(scope: Scope, left: ir.Var, body: Callable[[ir.Expr], ir.Stmt]) -> ir.Stmt:
    """Run the body for each set bit of a word in a register, with the bit's index in the word. The word is cleared."""
    number = scope.fresh("bit")
    step = block(
        ir.Let(number, ir.LowestBit(left)),
        ir.Set(left, ir.Binary("&", left, ir.Binary("-", left, const(1)))),
        body(number),
    )
    return ir.While(ir.Compare("!=", left, const(0)), step)


def _mark_name(name: str) -> str:
    return f"{name}'s mark"


def is_sparse_workspace(name: str, scope: Scope) -> bool:
    """Whether a workspace is sparse."""
    return name in scope.workspaces or _mark_name(name) in scope.registers


BYTE = Type("int8")
BYTES = 1 << 20  # the most coordinates of a dimension whose marks are bytes


def lower_scatter(stmt: Scatter, scope: Scope, body: Callable[[Scope], ir.Stmt]) -> ir.Stmt:
    """Run the body with a map of the segment, in borrowed memory whose marks are empty before and after."""
    level = LevelWalk(scope, replace(stmt.domain, bound=False, scattered=False), stmt.var)
    size = scope.storage.problem.size[stmt.var]
    in_bytes = size is not None and size <= BYTES
    marks = ir.Buffer(scope.fresh("marks").name, BYTE if in_bytes else I64, -1, True)
    positions = (
        ir.Buffer(scope.fresh("positions").name, Type(level.type.index_dtype), -1, True) if stmt.positions else None
    )

    def set_mark(entry: Entry, mark: int) -> ir.Stmt:
        if in_bytes:
            return ir.Store(marks, entry.coordinate, ir.Const(mark, BYTE))
        word = scope.fresh("word")
        store = set_bit(marks, word, entry.coordinate) if mark else ir.Store(marks, word, const(0))
        return block(ir.Let(word, word_of(entry.coordinate)), store)

    def put(entry: Entry) -> ir.Stmt:
        if positions is None:
            return set_mark(entry, 1)
        store = ir.Store(positions, entry.coordinate, cast(entry.positions.first, level.type.index_dtype))
        return block(set_mark(entry, 1), store)

    inner = body(scope.with_map(stmt.domain, Map(marks, positions)))
    run: ir.Stmt = block(level.serial(put), inner, level.serial(lambda entry: set_mark(entry, 0)))
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
    """Move the borrowing of memory out of loops, so that each chunk borrows it once. If memory has to be cleared each
    time, it is still borrowed inside the loops, and so is memory whose length the kernel counts."""
    found: list[ir.Borrow] = []

    def visit(node: Any) -> Any:
        if isinstance(node, ir.Borrow) and (node.stays_empty or not node.zeros) and not ir.variables(node.length):
            found.append(node)
            return visit(node.body)
        if isinstance(node, ir.Parallel):
            return replace(node, body=with_hoisted_memory(node.body))
        return map_children(node, visit)

    body = visit(stmt)
    for borrow in reversed(found):
        body = replace(borrow, body=body)
    return body
