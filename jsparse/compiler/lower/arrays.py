"""Array workspaces: the elements of a temporary that one iteration of the loops around needs, in borrowed memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jsparse.compiler.kernel.algebra import add, block, const, minimum, mul, sub
from jsparse.compiler.kernel.nodes import Binary, Borrow, Const, Expr, Let, Ramp, Stmt
from jsparse.compiler.loops.domain import LevelIteration
from jsparse.compiler.loops.nest import ArrayWorkspace, Where, with_children
from jsparse.compiler.loops.nest import Stmt as LoopStmt
from jsparse.compiler.lower.levels import LevelWalk
from jsparse.compiler.lower.scope import Array, Panel, Scope
from jsparse.compiler.problem import Dense, Positions

MOST_LANES = 64  # the most positions that are worked on at a time

__all__ = ["address_in", "array_names", "array_where"]


def array_where(
    where: Where, workspace: ArrayWorkspace, scope: Scope, lower: Callable[[LoopStmt, Scope], Stmt]
) -> Stmt:
    """Producer, then consumer, with memory for the elements. Each chunk borrows its own."""
    prelude, array = _array(workspace, scope)
    inner = scope.with_array(workspace.name, array)
    body = block(*prelude, lower(where.producer, inner), lower(where.consumer, inner))
    return Borrow(scope.storage.by_name[workspace.name], array.length, body, zeros=False)


def _array(workspace: ArrayWorkspace, scope: Scope) -> tuple[list[Stmt], Array]:
    prelude: list[Stmt] = []
    axes: list[tuple[int, Expr, Expr]] = []
    stride: Expr = const(1)
    types = scope.storage.problem.type_of[workspace.name].axes
    for number in reversed(workspace.axes):
        axis = types[number]
        first: Expr = const(0)
        panel = _panel(axis, workspace, scope)
        extent: Expr
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
        axes.append((number, first, stride))
        stride = mul(stride, extent)
    return prelude, Array(tuple(axes), stride, _may_leave(workspace, scope))


def _may_leave(workspace: ArrayWorkspace, scope: Scope) -> bool:
    """Whether positions may lie outside the array, because the index arrays of a dynamic pattern may hold anything.

    A single segment is never longer than the capacity, so the positions of one segment always lie inside.
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

    For a dynamic pattern it is valid for any index arrays, because addresses are clamped to the array. The array then
    has room for all lanes.
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
    """The first position of the pattern's last level below the present position of `below`, or below the first
    position of its panel."""
    name = scope.storage.problem.level_variables[axis.pattern][below.level]
    walk = LevelWalk(scope, below, name)
    if below.panel:
        return walk.leaf(walk.full_entry(scope.panels[name].start).positions.first, below.level + 1)
    return walk.leaf(scope.positions[axis.pattern, below.level].first, below.level + 1)


def address_in(array: Array, coordinates: Sequence[Expr]) -> Expr:
    """The address of the element at these coordinates of the storage axes, clamped to the array if necessary."""
    address: Expr = const(0)
    for number, first, stride in array.axes:
        address = add(address, mul(sub(coordinates[number], first), stride))
    return _inside(address, array.length) if array.clamps else address


def _inside(address: Expr, length: Expr) -> Expr:
    """The nearest address inside the array; for a ramp, the nearest one whose elements all lie inside."""
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
