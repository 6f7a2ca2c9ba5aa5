"""What a loop over stored coordinates asks memory for, some entries ahead of where it stands.

Two things lie at places that only coordinates tell: rows of dense tensors, and the segments of other patterns that the
loop's variable locates. Both are asked for across the ends of the loop's own segments.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from jsparse.compiler.kernel.algebra import add, const, minimum
from jsparse.compiler.kernel.nodes import Binary, Buffer, Expr, Let, Prefetch, Stmt
from jsparse.compiler.loops.domain import Stored, Tiles
from jsparse.compiler.loops.nest import Forall, Where
from jsparse.compiler.loops.nest import Stmt as LoopStmt
from jsparse.compiler.lower.levels import Entry, LevelWalk
from jsparse.compiler.lower.scope import Scope
from jsparse.compiler.problem import Positions
from jsparse.formats.level import LevelKind
from jsparse.notation.assignment import IndexVar

__all__ = ["prefetches"]

MOST = 256  # elements of a row asked for at once
LINES = 128  # bytes of a segment asked for: one that fits a line may lie on two


def prefetches(loop: Forall, domain: Stored, entry: Entry, scope: Scope) -> list[Stmt]:
    """Requests for what the entry `loop.prefetch` places ahead of `entry` will gather; none where entries are not
    walked one by one."""
    if entry.position is None:
        return []
    level = LevelWalk(scope, domain, loop.var)
    last = add(level.capacity(), const(-1))
    ahead, place = scope.fresh("ahead"), minimum(add(entry.position, const(loop.prefetch)), last)
    there = scope.with_index(loop.var, ahead)
    found = [*_rows(loop, there), *_segments(loop, there, level.type.padded)]
    return [Let(ahead, level.coordinate(place)), *found] if found else []


def _rows(loop: Forall, there: Scope) -> Iterator[Stmt]:
    """Rows of dense tensors: the present tile of them, or, if the loop over tiles stands inside, their beginnings."""
    problem = there.storage.problem
    inside = _tiled_inside(loop.body) if there.tiled is None else None
    if inside is not None:
        there = there.with_tile(inside, const(0), min(problem.size[inside] or 0, MOST))
    if there.tiled is None:
        return
    for factor in problem.assignment.factors:
        names = set(factor.variables())
        gathered = problem.type_of[factor.tensor].positions is None and not factor.nested()
        if gathered and {loop.var, there.tiled} <= names <= set(there.indices):  # one row, wherever loops inside are
            yield Prefetch(there.storage.by_name[factor.tensor], there.dense_address(factor), there.lanes)


def _tiled_inside(stmt: LoopStmt) -> IndexVar | None:
    """The index whose tiles a statement runs over."""
    match stmt:
        case Forall(var=var, domain=Tiles()):
            return var
        case Forall(body=body):
            return _tiled_inside(body)
        case Where(producer=producer):
            return _tiled_inside(producer)
    return None


def _segments(loop: Forall, there: Scope, padded: bool) -> Iterator[Stmt]:
    """The segments that the variable locates below the outermost level of other patterns, with their values."""
    storage, problem = there.storage, there.storage.problem
    for pattern in _located(loop.body, loop.var):
        levels, size = problem.patterns[pattern].levels, storage.size(loop.var)
        if len(levels) < 2 or levels[1].kind is not LevelKind.COMPRESSED:
            continue
        place: Expr = there.indices[loop.var]
        if padded:  # a coordinate out of range names no segment
            place = Binary("max", minimum(place, add(size, const(-1))), const(0))
        inner = LevelWalk(there, Stored(pattern, 1), loop.var)
        first = there.fresh("segment")
        yield Let(first, inner.load(storage.pointers(pattern, 1), place))
        yield _request(storage.coordinates(pattern, 1), first)
        for tensor in problem.tensors[1:] if problem.wants_values else ():
            if tensor.axes == (Positions(pattern, (0, 1)),):
                yield _request(storage.by_name[tensor.name], first)


def _request(buffer: Buffer, first: Expr) -> Stmt:
    return Prefetch(buffer, first, LINES // np.dtype(buffer.type.dtype).itemsize)


def _located(stmt: LoopStmt, var: IndexVar) -> Iterator[int]:
    """Patterns whose outermost level is dense and looked up at the variable."""
    while isinstance(stmt, Forall) and isinstance(stmt.domain, Stored) and stmt.domain.bound and stmt.var == var:
        if stmt.domain.level == 0:
            yield stmt.domain.pattern
        stmt = stmt.body
