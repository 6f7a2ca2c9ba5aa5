"""The cost of gathering: a nest reads cache lines of dense factors at the coordinates of stored entries.

A static pattern's locality counts: how often a segment reads coordinates that the previous segment has read, too. In a
band or a mesh neighbouring rows read nearly the same rows of a dense factor, which the nearest cache still holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import NamedTuple

import numpy as np

from jsparse.base.memo import remembered
from jsparse.compiler.problem import Dense, Problem
from jsparse.compiler.schedule.machine import LINE_BYTES, gather_cost
from jsparse.compiler.schedule.stored import Stored
from jsparse.compiler.schedule.summary import Summary
from jsparse.compiler.schedule.trip_counts import UNKNOWN
from jsparse.formats import Pattern
from jsparse.notation.assignment import Access, IndexVar

__all__ = [
    "GatheredRows",
    "extent",
    "gathered_rows",
    "itemsize",
    "line_cost",
    "lines_of",
    "mostly_read_before",
    "read_before",
    "stored_beside",
    "strided",
]

PAGE_BYTES = 1 << 12
NEW_PAGE = 4.0  # a cache line in another page than the line before, relative to a line that is near
PAIRS = 64  # pairs of neighbouring segments that are compared
LONGEST = 512  # the most entries of a segment that are compared
MOSTLY = 0.75  # if the previous segment has read at least this fraction of the rows, a cache is taken to hold them


def extent(problem: Problem, variables: Sequence[IndexVar]) -> int:
    """The size of the variables' iteration space."""
    found, sizes = 1, problem.size
    for v in variables:
        size = sizes[v]
        found *= UNKNOWN if size is None else size
    return found


def itemsize(problem: Problem, access: Access) -> int:
    """The bytes of an element of a tensor."""
    return np.dtype(problem.type_of[access.tensor].dtype).itemsize


def lines_of(columns: int, item: int) -> int:
    """The cache lines of a row."""
    return -(-columns * item // LINE_BYTES)


def line_cost(nest: Summary, columns: int, item: int, rows: int, times: float = 1.0) -> float:
    """The cost of reading one random cache line in `times` · `rows` rows."""
    near = nest.lanes if nest.tiles_first else columns  # the elements of a row that are read consecutively
    return gather_cost(times * rows * near * item, near * item, columns * item)


class GatheredRows(NamedTuple):
    """A dense factor whose rows stored entries select. Its attributes are the same for all orders of the loops.

    Attributes:
        variables: the patterns' variables that select a row.
        in_lanes: whether the elements of a row run in lanes.
        item: the bytes of an element.
        columns: the extent of the variable in lanes.
        block: the elements over summed dense indices, which make a row a block.
        rows: the number of rows, each as large as `block`.
        elements: the number of elements of the factor.
        own, turns: the extents of the loops around the reduction: over variables that the factor has, and that it
            lacks.
        beside: the extent of the variables in `own` that are stored directly around the lanes, so that rows are parts
            of longer rows.
    """

    variables: frozenset[IndexVar]
    in_lanes: bool
    item: int
    columns: int
    block: int
    rows: int
    elements: int
    own: int
    turns: int
    beside: int = 1

    def cost(self, nest: Summary, entries: Sequence[float]) -> float:
        """The cost of all rows. `entries` is `TripCounts.entries`."""
        last = max(map(nest.walk.index, self.variables))
        return self._in_lanes(nest, entries, last) if self.in_lanes else self._summed(nest, entries, last)

    def _in_lanes(self, nest: Summary, entries: Sequence[float], last: int) -> float:
        """The cost of rows in lanes.

        A new row is read for each entry of the level that binds the last of the factor's variables. Entries of levels
        further in read the same row again. Further iterations of loops around the reduction read a row again after at
        most a segment of other rows, so it is still in a near cache.
        """
        leaf = entries[-1]
        bound = min(entries[last], leaf)
        line = line_cost(nest, self.columns, self.item, self.rows * self.beside)
        if self.turns != 1:
            segment = leaf / max(entries[len(nest.head) - 1], 1.0) if nest.head else leaf
            segment = min(segment, nest.position_panel or segment)
            line += (self.turns - 1) * line_cost(nest, self.columns, self.item, self.block, segment)
        lines = bound * line
        if nest.tiles_outermost and self.columns > nest.lanes:  # and each tile of a row for the first time
            lines += min(bound, self.rows) * gather_cost(self.elements * self.item)
        again = line_cost(nest, self.columns, self.item, self.block)
        if leaf != bound:
            lines += (leaf - bound) * self.turns * again
        if self.beside == 1:
            return self.own * self.block * lines_of(self.columns, self.item) * lines
        apart = self.own // self.beside * self.block
        whole, parts = lines_of(self.beside * self.columns, self.item), -(-self.beside // nest.copies)
        read = parts * lines_of(-(-self.beside // parts) * self.columns, self.item)
        return apart * (whole * lines + max(read - whole, 0) * leaf * self.turns * again)

    def _summed(self, nest: Summary, entries: Sequence[float], last: int) -> float:
        """The cost of a factor that is summed over a dense index outside of lanes: contiguous elements, read per
        tile."""
        tiles = -(-self.columns // nest.lanes) if nest.tiles_first else 1
        lines = tiles * lines_of(self.block, self.item)
        return lines * min(entries[last], entries[-1]) * gather_cost(self.elements * self.item)


def gathered_rows(nest: Summary) -> Iterator[GatheredRows]:
    """Yield the dense factors whose rows stored entries select. They are the same for each order of the loops."""
    problem = nest.problem
    columns = extent(problem, (str(nest.vector),))
    for access in problem.assignment.factors:
        type_ = problem.type_of[access.tensor]
        variables = access.variables()
        if type_.positions is not None or access.nested() or nest.pattern_vars.isdisjoint(variables):
            continue
        in_lanes = nest.vector in variables
        summed = [v for v in variables if v in nest.contracted]
        if not summed and not in_lanes:
            continue
        selecting = nest.pattern_vars.intersection(variables)
        yield GatheredRows(
            selecting,
            in_lanes,
            itemsize(problem, access),
            columns,
            extent(problem, summed),
            extent(problem, (*summed, *selecting)),
            extent(problem, variables),
            extent(problem, [v for v in nest.free_dense_vars if v in variables]),
            extent(problem, [v for v in nest.free_dense_vars if v not in variables]),
            extent(problem, stored_beside(nest, access)) if in_lanes else 1,
        )


def strided(nest: Summary, entries: Sequence[float]) -> float:
    """The cost of the cache lines of dense tensors that a loop reads with a stride.

    A tensor is read with a stride if the innermost loop over one of its variables runs over another variable than the
    one stored innermost. Then each iteration reads another line, and in long rows another page. Such a loop runs over a
    pattern, or it is a scalar innermost loop over a dense variable.
    """
    problem, cost = nest.problem, 0.0
    for access in problem.assignment.accesses:
        type_ = problem.type_of[access.tensor]
        if type_.positions is not None or len(type_.axes) < 2:
            continue
        stored = [str(access.indices[axis.dim]) for axis in type_.axes if isinstance(axis, Dense)]
        last = max((v for v in stored if v in nest.order), key=nest.order.index, default="")
        if last in stored[:-1]:
            item = itemsize(problem, access)
            stride = extent(problem, stored[stored.index(last) + 1 :]) * item
            line = gather_cost(extent(problem, stored) * item) * (NEW_PAGE if stride >= PAGE_BYTES else 1.0)
            cost += line * _iterations(nest, entries, last)
    return cost


def _iterations(nest: Summary, entries: Sequence[float], loop: IndexVar) -> float:
    """The iterations of a loop over a pattern, or of a scalar innermost loop over a dense variable; else 0."""
    if loop in nest.walk:
        return entries[nest.walk.index(loop)]
    is_scalar = nest.vector is None and loop == nest.order[-1]
    return (entries[-1] if entries else 1.0) * extent(nest.problem, nest.dense) if is_scalar else 0.0


def stored_beside(nest: Summary, access: Access) -> tuple[IndexVar, ...]:
    """The indices of the target that a dense tensor stores directly around the index in lanes, innermost last."""
    axes = nest.problem.type_of[access.tensor].axes
    indices = [access.indices[axis.dim] for axis in axes if isinstance(axis, Dense)]
    around = [str(v) for v in indices if v != nest.vector]
    found = tuple(takewhile(lambda v: v in nest.free_dense_vars, reversed(around)))
    return found[::-1] if len(indices) == len(axes) else ()


def mostly_read_before(pattern: Stored, level: int) -> bool:
    """Whether a segment of a level shares most coordinates with the previous segment; False if that is not known."""
    return read_before(pattern, level) >= MOSTLY


def read_before(pattern: Stored, level: int) -> float:
    """The fraction of a level's entries whose coordinates are also in the previous segment; 0 if that is not known."""
    if not isinstance(pattern, Pattern) or not pattern.format.levels[level].kind.has_pointers:
        return 0.0
    return _read_before(pattern, level) if pattern.format.levels[level].kind.has_coordinates else 0.0


@remembered(maxsize=64)
def _read_before(pattern: Pattern, level: int) -> float:
    pointers, coordinates = pattern.pointers(level), pattern.coordinates(level)
    chosen = np.unique(np.linspace(1, max(len(pointers) - 2, 1), PAIRS).astype(np.int64))
    found = entries = 0
    for n in chosen if len(pointers) > 2 else ():
        before = coordinates[pointers[n - 1] : pointers[n]][:LONGEST]
        here = coordinates[pointers[n] : pointers[n + 1]][:LONGEST]
        found += len(np.intersect1d(before, here, assume_unique=pattern.format.levels[level].unique))
        entries += len(here)
    return found / entries if entries else 0.0
