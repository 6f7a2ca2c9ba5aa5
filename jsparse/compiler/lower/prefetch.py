"""Software prefetching in loops over stored coordinates, some entries ahead.

The coordinate of an entry determines the addresses of rows of dense tensors, and of segments of other patterns, where
the coordinate is looked up. These rows and segments are prefetched for the next entries of the level, even if the
entries are in the next segments. The load of a later coordinate is clamped to the level's last entry, so that it needs
no branch (Ainsworth and Jones, "Software prefetching for indirect memory accesses", CGO 2017).

If a loop over all coordinates of a dense level is inside a panel, it prefetches the rows of the target to which the
panel adds, and the first entries of each segment in the panel. Neither of them is next to memory that was read before.
A loop over panels of positions prefetches the rows of the next panel.
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
from jsparse.compiler.loops.nest import Forall, Where, assignments, statements
from jsparse.compiler.loops.nest import Stmt as LoopStmt
from jsparse.compiler.lower.levels import Entry, LevelWalk
from jsparse.compiler.lower.scope import Scope
from jsparse.compiler.problem import Dense, Positions
from jsparse.notation.assignment import IndexVar

NEAR_BYTES = 1 << 21  # a tensor of at most this size stays in the second-level cache of large cores
MOST = 256  # the maximum number of elements of a row that are prefetched
LINES = 128  # bytes of a segment that are prefetched: a short segment may straddle two cache lines


def prefetches(loop: Forall, domain: LevelIteration, entry: Entry, scope: Scope) -> list[ir.Stmt]:
    """Return prefetches for the entry `loop.prefetch` positions after `entry`.

    A loop over runs of equal coordinates has no prefetches. A loop over a range level has no prefetches, because it
    reads rows that follow one another in memory, and the CPU's own prefetcher loads such rows.
    """
    level, ahead = LevelWalk(scope, domain, loop.var), scope.fresh("ahead")
    if level.kind.is_full and not domain.bound:
        last = add(level.extent(), const(-1))
        there = scope.with_index(loop.var, ahead).with_positions(domain, level.full_entry(ahead).positions)
        derived, rows = list[ir.Stmt](), [*_rows(loop, there, {loop.var})]
        coordinate = minimum(add(entry.coordinate, const(loop.prefetch)), last)
    elif entry.position is None or level.kind.stores_runs:
        return []
    else:
        position = minimum(add(entry.position, const(loop.prefetch)), add(level.capacity(), const(-1)))
        derived, there, rows = _locate_rows(loop, domain, position, ahead, scope)
        rows += _segments(loop, there, level.type.dynamic)
        coordinate = level.coordinate(position)
    requests = [*rows, *_first_entries_of_panel(loop.body, domain, there)]
    return [ir.Bind(ahead, coordinate), *derived, *requests] if requests else []


def _locate_rows(
    loop: Forall, domain: LevelIteration, position: ir.Expr, ahead: ir.Var, scope: Scope
) -> tuple[list[ir.Stmt], Scope, list[ir.Stmt]]:
    """Return three results for one entry: loads of the coordinates that the entry has in lower levels, the scope at the
    entry, and prefetches of the rows at these coordinates."""
    there = scope.with_index(loop.var, ahead).with_positions(domain, PositionRange(position))
    dynamic = LevelWalk(scope, domain, loop.var).type.dynamic
    derived, there = ([], there) if dynamic else _load_derived_coordinates(loop.body, there)
    variables = {loop.var, *(there.indices.keys() - scope.indices.keys())}
    return derived, there, list(_rows(loop, there, variables))


def prefetches_of_panel(loop: Forall, domain: PositionPanels, start: ir.Expr, scope: Scope) -> list[ir.Stmt]:
    """Return prefetches of the rows at the coordinates in the panel of positions that begins at `start`. The rows go
    into all caches except the nearest cache, where they would evict the rows of the previous panel."""
    walked = LevelIteration(domain.pattern, domain.level)
    level = LevelWalk(scope, walked, loop.var)
    if level.kind.stores_runs:
        return []
    loops = (x for x in statements(loop.body) if isinstance(x, Forall) and x.var == loop.var)
    inner = next(x for x in loops if isinstance(x.domain, LevelIteration))
    position, ahead = scope.fresh("position"), scope.fresh("ahead")
    derived, _, rows = _locate_rows(inner, walked, position, ahead, scope)
    far = [replace(x, near=False) if isinstance(x, ir.PrefetchLines) else x for x in rows]
    stop = minimum(add(start, const(domain.size)), level.capacity())
    step = block(ir.Bind(ahead, level.coordinate(position)), *derived, *far)
    return [ir.For(position, start, stop, step)] if far else []


def _first_entries_of_panel(stmt: LoopStmt, above: LevelIteration, there: Scope) -> Iterator[ir.Stmt]:
    """Yield prefetches of the present panel's first entries in a segment: the segment below the position in `there`."""
    below = replace(above, level=above.level + 1, panel=True)
    loop = next((x for x in statements(stmt) if isinstance(x, Forall) and x.domain == below), None)
    panel = None if loop is None else there.panels[loop.var]
    if loop is None or panel is None or panel.bounds is None:
        return
    walk, storage = LevelWalk(there, below, loop.var), there.storage
    first = there.fresh("segment")
    parent = walk.above.first
    yield ir.Bind(first, panel.bounds.load(add(panel.first_bound, parent)))
    if walk.kind.has_coordinates:
        yield _request(storage.index_array(below.pattern, below.level, "coordinates"), first)
    for tensor in storage.problem.operands if storage.problem.wants_values else ():
        if len(tensor.axes) == 1 and tensor.positions is not None and tensor.positions.pattern == below.pattern:
            yield _request(storage.by_name[tensor.name], first)


def _load_derived_coordinates(stmt: LoopStmt, there: Scope) -> tuple[list[ir.Stmt], Scope]:
    """Return loads of the coordinates that an entry has in the singleton and dense levels below it, and the scope with
    these coordinates."""
    loads: list[ir.Stmt] = []
    while True:
        match stmt:
            case Where(producer=inner) | Forall(domain=Tiles() | Runs(), body=inner):
                stmt = inner
                continue
            case Forall(var=var, domain=LevelIteration() as domain, body=inner):
                stmt = inner
            case _:
                return loads, there
        level, above = LevelWalk(there, domain, var), there.positions.get((domain.pattern, domain.level - 1))
        if domain.bound and level.kind.is_full:
            there = there.with_positions(domain, level.full_entry(there.indices[var]).positions)
        elif level.kind.is_branchless and above is not None and above.stop is None and not level.type.dynamic:
            there = there.with_positions(domain, PositionRange(above.first))
            if not domain.bound:
                ahead = there.fresh("ahead")
                loads.append(ir.Bind(ahead, level.coordinate(above.first)))
                there = there.with_index(var, ahead)
        else:
            return loads, there


def _rows(loop: Forall, there: Scope, variables: AbstractSet[IndexVar]) -> Iterator[ir.Stmt]:
    """Yield prefetches of the dense rows that these variables select. Loops read these rows, or add sums to them.

    A prefetch covers the present tile of a row. Without tiles, it covers the elements that inner loops read, but at
    most the first `MOST` elements. A single element is prefetched if its tensor exceeds near caches, because the loop
    has loaded the coordinate already for the rows of other tensors.
    """
    problem, inside = there.storage.problem, list(assignments(loop.body))
    walked = {v for names in problem.walks for v in names}
    reads = [access for assign in inside for access in assign.reads]
    for access in dict.fromkeys((*reads, *(assign.target for assign in inside if assign.accumulate))):
        if access.tensor not in problem.type_of:
            continue
        names, type_ = access.variables(), problem.type_of[access.tensor]
        if type_.positions is not None or access.indirections() or variables.isdisjoint(names):
            continue
        buffer, free = there.storage.by_name[access.tensor], [v for v in names if v not in there.indices]
        innermost = [access.indices[axis.dim] for axis in type_.axes[-len(free) :] if isinstance(axis, Dense)]
        # The size of a tensor counts as 0 if it is known at run time only.
        nbytes = prod(problem.size[v] or 0 for v in names) * np.dtype(type_.dtype).itemsize
        if not free and there.tiled in names:
            yield ir.PrefetchLines(buffer, there.dense_address(access), there.lanes)
        elif not free and there.tiled is not None and nbytes > NEAR_BYTES:
            yield ir.PrefetchLines(buffer, there.dense_address(access), 1)
        elif free and walked.isdisjoint(free) and set(free) == set(innermost):
            start = reduce(lambda scope, v: scope.with_index(v, const(0)), free, there)
            elements = prod(problem.size[v] or 1 for v in free)
            yield ir.PrefetchLines(buffer, start.dense_address(access), min(elements, MOST))


def _segments(loop: Forall, there: Scope, dynamic: bool) -> Iterator[ir.Stmt]:
    """Yield prefetches of segments in other patterns, and of their values. The segments lie below the value of the
    loop's variable in a dense level."""
    storage, problem, lookup = there.storage, there.storage.problem, loop.body
    while isinstance(lookup, Forall) and isinstance(lookup.domain, LevelIteration) and lookup.domain.bound:
        if lookup.var != loop.var:
            return
        pattern, is_outermost, lookup = lookup.domain.pattern, lookup.domain.level == 0, lookup.body
        levels, size = problem.patterns[pattern].levels, storage.size(loop.var)
        if not is_outermost or len(levels) < 2 or not levels[0].kind.is_full:
            continue  # the coordinate is not a position
        if not (levels[1].kind.has_pointers and levels[1].kind.has_coordinates):
            continue
        coordinate: ir.Expr = there.indices[loop.var]
        if dynamic:  # a coordinate out of range has no segment
            coordinate = ir.Binary("max", minimum(coordinate, add(size, const(-1))), const(0))
        inner = LevelWalk(there, LevelIteration(pattern, 1), loop.var)
        first = there.fresh("segment")
        yield ir.Bind(first, inner.load("pointers", coordinate))
        yield _request(storage.index_array(pattern, 1, "coordinates"), first)
        for tensor in problem.operands if problem.wants_values else ():
            if tensor.axes == (Positions(pattern, (0, 1)),):
                yield _request(storage.by_name[tensor.name], first)


def _request(buffer: ir.Buffer, first: ir.Expr) -> ir.Stmt:
    return ir.PrefetchLines(buffer, first, LINES // np.dtype(buffer.type.dtype).itemsize)
