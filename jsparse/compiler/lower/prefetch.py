"""Software prefetching in loops over stored coordinates, some entries ahead.

The coordinate of an entry determines the addresses of rows of dense tensors, and of segments of other patterns, where
the coordinate is looked up. These rows and segments are prefetched for the next entries of the level, even if the
entries lie in the next segments.

If a loop over all coordinates of a dense level is inside a panel, it prefetches the rows of the target to which the
panel adds, and the first entries of each segment in the panel. Neither of them lies next to memory that was read
before. A loop over panels of positions prefetches the rows of the next panel.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import reduce
from math import prod

import numpy as np

from jsparse.compiler.kernel import nodes as ir
from jsparse.compiler.kernel.algebra import add, block, const, minimum
from jsparse.compiler.levels import PositionRange
from jsparse.compiler.loops.domain import LevelIteration, PositionPanels, Runs, Tiles
from jsparse.compiler.loops.nest import Forall, Where, assignments, children
from jsparse.compiler.loops.nest import Stmt as LoopStmt
from jsparse.compiler.lower.levels import Entry, LevelWalk
from jsparse.compiler.lower.scope import Scope
from jsparse.compiler.problem import Dense, Positions, Problem, TensorType
from jsparse.notation.assignment import Access, IndexVar

NEAR_BYTES = 1 << 21  # a tensor of at most this size stays in the second-level cache of large cores
MOST = 256  # the most elements of a row that are prefetched
LINES = 128  # bytes of a segment that are prefetched: a short segment may straddle two cache lines


def prefetches(loop: Forall, domain: LevelIteration, entry: Entry, scope: Scope) -> list[ir.Stmt]:
    """Return prefetches for the entry `loop.prefetch` positions after `entry`.

    A loop over runs of equal coordinates has no prefetches. A loop over a range level has no prefetches, because it
    reads rows that follow one another in memory, and the CPU's own prefetcher loads such rows.
    """
    level = LevelWalk(scope, domain, loop.var)
    if level.kind.is_full and not domain.bound:
        return _ahead_of_all(loop, domain, level, entry, scope)
    if entry.position is None or level.kind.stores_runs:
        return []
    last = add(level.capacity(), const(-1))
    ahead, position = scope.fresh("ahead"), minimum(add(entry.position, const(loop.prefetch)), last)
    derived, there, rows = _locate_rows(loop, domain, position, ahead, scope)
    found = [*rows, *_segments(loop, there, level.type.dynamic), *_first_entries_of_panel(loop.body, domain, there)]
    return [ir.Let(ahead, level.coordinate(position)), *derived, *found] if found else []


def _locate_rows(
    loop: Forall, domain: LevelIteration, position: ir.Expr, ahead: ir.Var, scope: Scope
) -> tuple[list[ir.Stmt], Scope, list[ir.Stmt]]:
    """Return three results for one entry: loads of the coordinates that the entry has in lower levels, the scope at the
    entry, and prefetches of the rows at these coordinates."""
    there = scope.with_index(loop.var, ahead).with_positions(domain, PositionRange(position))
    dynamic = LevelWalk(scope, domain, loop.var).type.dynamic
    derived, there = ([], there) if dynamic else _load_derived_coordinates(loop.body, there)
    own = {loop.var, *(there.indices.keys() - scope.indices.keys())}
    return derived, there, list(_rows(loop, there, own))


def prefetches_of_panel(loop: Forall, domain: PositionPanels, start: ir.Expr, scope: Scope) -> list[ir.Stmt]:
    """Return prefetches of the rows at the coordinates in the panel of positions from `start` on. The rows go
    into all caches except the nearest cache, where they would evict the rows of the previous panel."""
    walked = LevelIteration(domain.pattern, domain.level)
    level = LevelWalk(scope, walked, loop.var)
    if level.kind.stores_runs:
        return []
    inner = next(x for x in _loops(loop.body) if isinstance(x.domain, LevelIteration) and x.var == loop.var)
    position, ahead = scope.fresh("position"), scope.fresh("ahead")
    derived, _, rows = _locate_rows(inner, walked, position, ahead, scope)
    far = [replace(x, near=False) if isinstance(x, ir.Prefetch) else x for x in rows]
    stop = minimum(add(start, const(domain.size)), level.capacity())
    return (
        [ir.For(position, start, stop, block(ir.Let(ahead, level.coordinate(position)), *derived, *far))] if far else []
    )


def _ahead_of_all(loop: Forall, domain: LevelIteration, level: LevelWalk, entry: Entry, scope: Scope) -> list[ir.Stmt]:
    """Return prefetches for the coordinate that is `loop.prefetch` iterations ahead, in a loop over all coordinates."""
    ahead = scope.fresh("ahead")
    there = scope.with_index(loop.var, ahead).with_positions(domain, level.full_entry(ahead).positions)
    found = [*_rows(loop, there, {loop.var}), *_first_entries_of_panel(loop.body, domain, there)]
    last = add(level.extent(), const(-1))
    return [ir.Let(ahead, minimum(add(entry.coordinate, const(loop.prefetch)), last)), *found] if found else []


def _first_entries_of_panel(stmt: LoopStmt, above: LevelIteration, there: Scope) -> Iterator[ir.Stmt]:
    """Yield prefetches of the present panel's first entries in a segment: the segment below the position in `there`."""
    below = replace(above, level=above.level + 1, panel=True)
    loop = next((x for x in _loops(stmt) if x.domain == below), None)
    panel = None if loop is None else there.panels[loop.var]
    if loop is None or panel is None or panel.bounds is None:
        return
    walk, storage = LevelWalk(there, below, loop.var), there.storage
    first = there.fresh("segment")
    parent = walk.above.first
    yield ir.Let(first, panel.bounds.load(add(panel.first_bound, parent)))
    if walk.kind.has_coordinates:
        yield _request(storage.index_array(below.pattern, below.level, "coordinates"), first)
    for tensor in storage.problem.operands if storage.problem.wants_values else ():
        if len(tensor.axes) == 1 and tensor.positions is not None and tensor.positions.pattern == below.pattern:
            yield _request(storage.by_name[tensor.name], first)


def _loops(stmt: LoopStmt) -> Iterator[Forall]:
    """Yield the loops of a statement, outermost first."""
    if isinstance(stmt, Forall):
        yield stmt
    for inner in children(stmt):
        yield from _loops(inner)


def _load_derived_coordinates(stmt: LoopStmt, there: Scope) -> tuple[list[ir.Stmt], Scope]:
    """Return loads of the coordinates that an entry has in the singleton and dense levels below it, and the scope with
    these coordinates."""
    found: list[ir.Stmt] = []
    while True:
        match stmt:
            case Where(producer=inner) | Forall(domain=Tiles() | Runs(), body=inner):
                stmt = inner
                continue
            case Forall(var=var, domain=LevelIteration() as domain, body=inner):
                stmt = inner
            case _:
                return found, there
        level, above = LevelWalk(there, domain, var), there.positions.get((domain.pattern, domain.level - 1))
        if domain.bound and level.kind.is_full:
            there = there.with_positions(domain, level.full_entry(there.indices[var]).positions)
        elif level.kind.is_branchless and above is not None and above.stop is None and not level.type.dynamic:
            there = there.with_positions(domain, PositionRange(above.first))
            if not domain.bound:
                ahead = there.fresh("ahead")
                found.append(ir.Let(ahead, level.coordinate(above.first)))
                there = there.with_index(var, ahead)
        else:
            return found, there


def _rows(loop: Forall, there: Scope, own: AbstractSet[IndexVar]) -> Iterator[ir.Stmt]:
    """Yield prefetches of the dense rows that variables in `own` select. Loops read these rows, or add sums to them.

    A prefetch covers the present tile of a row. Without tiles, it covers the elements that inner loops read, but at
    most the first `MOST` elements. A single element is prefetched if its tensor exceeds near caches, since the loop
    has loaded the coordinate already for the rows of other tensors.
    """
    problem = there.storage.problem
    walked = {v for names in problem.walks for v in names}
    for access in _accesses_in(loop.body, problem):
        names, type_ = access.variables(), problem.type_of[access.tensor]
        if type_.positions is not None or access.indirections() or own.isdisjoint(names):
            continue
        buffer, left = there.storage.by_name[access.tensor], [v for v in names if v not in there.indices]
        if not left and there.tiled in names:
            yield ir.Prefetch(buffer, there.dense_address(access), there.lanes)
        elif not left and there.tiled is not None and _bytes(access, problem) > NEAR_BYTES:
            yield ir.Prefetch(buffer, there.dense_address(access), 1)
        elif left and walked.isdisjoint(left) and set(left) == set(_innermost(type_, access, len(left))):
            start = reduce(lambda scope, v: scope.with_index(v, const(0)), left, there)
            elements = prod(problem.size[v] or 1 for v in left)
            yield ir.Prefetch(buffer, start.dense_address(access), min(elements, MOST))


def _bytes(access: Access, problem: Problem) -> int:
    """The size of a dense tensor; 0 if it is known at run time only."""
    sizes = [problem.size[v] for v in access.variables()]
    return prod(size or 0 for size in sizes) * np.dtype(problem.type_of[access.tensor].dtype).itemsize


def _innermost(tensor: TensorType, access: Access, count: int) -> list[object]:
    """Return the indices of the `count` innermost storage axes, with None for an axis of positions."""
    return [access.indices[axis.dim] if isinstance(axis, Dense) else None for axis in tensor.axes[-count:]]


def _accesses_in(stmt: LoopStmt, problem: Problem) -> list[Access]:
    """Return the accesses that read tensors, then the targets to which assignments add in memory."""
    inside = list(assignments(stmt))
    reads = [access for assign in inside for access in assign.reads]
    adds = [assign.target for assign in inside if assign.accumulate]
    return [access for access in dict.fromkeys((*reads, *adds)) if access.tensor in problem.type_of]


def _segments(loop: Forall, there: Scope, dynamic: bool) -> Iterator[ir.Stmt]:
    """Yield prefetches of segments in other patterns, and of their values. The segments lie below the value of the
    loop's variable in a dense level."""
    storage, problem = there.storage, there.storage.problem
    for pattern in _patterns_looked_up(loop.body, loop.var):
        levels, size = problem.patterns[pattern].levels, storage.size(loop.var)
        if len(levels) < 2 or not (levels[1].kind.has_pointers and levels[1].kind.has_coordinates):
            continue
        if not levels[0].kind.is_full:  # the coordinate is no position
            continue
        coordinate: ir.Expr = there.indices[loop.var]
        if dynamic:  # a coordinate out of range has no segment
            coordinate = ir.Binary("max", minimum(coordinate, add(size, const(-1))), const(0))
        inner = LevelWalk(there, LevelIteration(pattern, 1), loop.var)
        first = there.fresh("segment")
        yield ir.Let(first, inner.load("pointers", coordinate))
        yield _request(storage.index_array(pattern, 1, "coordinates"), first)
        for tensor in problem.operands if problem.wants_values else ():
            if tensor.axes == (Positions(pattern, (0, 1)),):
                yield _request(storage.by_name[tensor.name], first)


def _request(buffer: ir.Buffer, first: ir.Expr) -> ir.Stmt:
    return ir.Prefetch(buffer, first, LINES // np.dtype(buffer.type.dtype).itemsize)


def _patterns_looked_up(stmt: LoopStmt, var: IndexVar) -> Iterator[int]:
    """Yield the index of each pattern in whose outermost level the variable is looked up."""
    while (
        isinstance(stmt, Forall) and isinstance(stmt.domain, LevelIteration) and stmt.domain.bound and stmt.var == var
    ):
        if stmt.domain.level == 0:
            yield stmt.domain.pattern
        stmt = stmt.body
