"""The costs of gathering, and of values that are not stored in the order of the loops.

A nest reads cache lines of dense factors at the coordinates of stored entries.

The cost depends on a static pattern's locality: how often a segment reads coordinates that the previous segment has
read, too. In a band or a mesh, neighbouring rows read nearly the same rows of a dense factor, which the nearest cache
still holds.

Values that are not stored in the order of the loops are moved before a nest and after it, or looked up. To move values,
a loop takes one entry from the first segment of the pattern, then one from the next segment, and so on. So a cache has
to hold a few lines of each segment. If segments are long, these lines have fewer bytes than all values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise, takewhile
from math import inf, log2
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from jsparse.base.memo import memoize
from jsparse.compiler.cpu_model import CpuModel
from jsparse.compiler.loops.chain import outer_name
from jsparse.compiler.problem import Dense, Problem
from jsparse.compiler.schedule.layout import Stored
from jsparse.compiler.schedule.summary import Summary
from jsparse.compiler.schedule.trip_counts import UNKNOWN, variables_in_walk_order
from jsparse.formats import Pattern
from jsparse.notation.assignment import Access, IndexVar

PAIRS = 64  # pairs of neighbouring segments that are compared
LONGEST = 512  # the most entries of a segment that are compared


def extent(problem: Problem, variables: Sequence[IndexVar]) -> int:
    """Return the size of the iteration space of the variables."""
    found, sizes = 1, problem.size
    for v in variables:
        size = sizes[v]
        found *= UNKNOWN if size is None else size
    return found


def itemsize(problem: Problem, access: Access) -> int:
    """Return the bytes of an element of the accessed tensor."""
    return np.dtype(problem.type_of[access.tensor].dtype).itemsize


def line_cost(nest: Summary, columns: int, item: int, rows: int, times: float = 1.0) -> float:
    """Return the cost of reading one random cache line of `times` · `rows` rows, each of `columns` · `item` bytes."""
    near = nest.lanes if nest.tiles_first else columns  # the elements of a row that are read consecutively
    return nest.cpu.gather(times * rows * near * item, near * item, columns * item)


class GatheredRows(NamedTuple):
    """A dense factor in which stored entries select rows. The attributes are the same for all orders of the loops.

    Attributes:
        variables: the patterns' variables that select a row.
        in_lanes: whether the elements of a row run in lanes.
        item: the bytes of an element.
        columns: the extent of the variable in lanes.
        block: the extent of the factor's summed dense indices. A stored entry selects this many rows in lanes, or one
            row of this many elements.
        rows: the extent of `variables` times `block`.
        elements: the number of elements of the factor.
        own, turns: the extents of two sets of loops around the reduction: `own` of loops over variables of the factor,
            `turns` of loops over variables that the factor lacks.
        beside: the extent of the variables in `own` that the factor stores directly around the variable in lanes. The
            rows at their coordinates lie side by side in memory.
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
        return self._in_lanes(nest, entries, last) if self.in_lanes else self._cost_of_scalar_rows(nest, entries, last)

    def _in_lanes(self, nest: Summary, entries: Sequence[float], last: int) -> float:
        """The cost of rows whose elements run in lanes.

        A new row is read for each entry of one level, which binds the last of the factor's variables. Entries of levels
        inside this level read the same row again. Loops around the reduction read a row again in their next iteration.
        Until then, they read at most the other rows of one segment, so the row is still in a near cache.
        """
        leaf = entries[-1]
        bound = min(entries[last], leaf)
        line = line_cost(nest, self.columns, self.item, self.rows * self.beside)
        is_tiled = self.turns != 1 and _tiles_around_dense(nest)
        turns = -(-self.turns // nest.passes_saved) if is_tiled else self.turns
        if turns != 1:
            segment = leaf / max(entries[len(nest.head) - 1], 1.0) if nest.head else leaf
            segment = min(segment, nest.position_panel or segment)
            near = nest.lanes if is_tiled else self.columns
            line += (turns - 1) * line_cost(nest, near, self.item, self.block, segment)
        lines = bound * line
        if nest.tiles_outermost and self.columns > nest.lanes:  # and each tile of a row for the first time
            lines += min(bound, self.rows) * nest.cpu.gather(self.elements * self.item)
        again = line_cost(nest, self.columns, self.item, self.block)
        if leaf != bound:
            lines += (leaf - bound) * turns * again
        if self.beside <= 1:
            return self.own * self.block * nest.cpu.lines(self.columns * self.item) * lines
        apart = self.own // self.beside * self.block
        whole, parts = nest.cpu.lines(self.beside * self.columns * self.item), -(-self.beside // nest.copies)
        read = parts * nest.cpu.lines(-(-self.beside // parts) * self.columns * self.item)
        return apart * (whole * lines + max(read - whole, 0) * leaf * turns * again)

    def _cost_of_scalar_rows(self, nest: Summary, entries: Sequence[float], last: int) -> float:
        """The cost of rows whose elements do not run in lanes, but are summed one by one. The elements of a row are
        contiguous, and each register tile reads them again if the loop over tiles is outermost."""
        tiles = -(-self.columns // nest.lanes) if nest.tiles_first else 1
        lines = tiles * nest.cpu.lines(self.block * self.item)
        return lines * min(entries[last], entries[-1]) * nest.cpu.gather(self.elements * self.item)


def _tiles_around_dense(nest: Summary) -> bool:
    """Whether the loop over register tiles is outside of the innermost dense loop over the target."""
    tiles = outer_name(nest.problem, str(nest.vector))
    dense = [name for name in nest.loops if name in nest.free_dense_vars]
    return tiles in nest.loops and bool(dense) and nest.loops.index(tiles) < nest.loops.index(dense[-1])


def find_row_gathers(nest: Summary) -> Iterator[GatheredRows]:
    """Yield the dense factors in which stored entries select rows. The result does not depend on the loop order."""
    problem = nest.problem
    columns = extent(problem, (str(nest.vector),))
    for access in problem.assignment.factors:
        type_ = problem.type_of[access.tensor]
        variables = access.variables()
        if type_.positions is not None or access.indirections() or nest.pattern_vars.isdisjoint(variables):
            continue
        in_lanes = nest.vector in variables
        summed = [v for v in variables if v in nest.scalar_reductions]
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
            extent(problem, indices_beside_lanes(nest, access)) if in_lanes else 1,
        )


def cost_of_strides(nest: Summary, entries: Sequence[float]) -> float:
    """The cost of the cache lines of dense tensors that a loop reads with a stride.

    The innermost loop over one of a tensor's variables reads with a stride if the tensor does not store that variable
    innermost. Each iteration then reads another line, and in long rows another page. Only loops over patterns and
    scalar innermost loops over dense variables are counted.
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
            line = nest.cpu.gather(extent(problem, stored) * item) * (
                nest.cpu.new_page if stride >= nest.cpu.page_bytes else 1.0
            )
            cost += line * _iterations(nest, entries, last)
    return cost


def _iterations(nest: Summary, entries: Sequence[float], loop: IndexVar) -> float:
    """Return the iterations of a loop over a pattern or of a scalar innermost dense loop; 0 for any other loop."""
    if loop in nest.walk:
        return entries[nest.walk.index(loop)]
    is_scalar = nest.vector is None and loop == nest.order[-1]
    return (entries[-1] if entries else 1.0) * extent(nest.problem, nest.dense) if is_scalar else 0.0


def indices_beside_lanes(nest: Summary, access: Access) -> tuple[IndexVar, ...]:
    """Return the target's indices that a dense tensor stores directly around the index in lanes, innermost last."""
    axes = nest.problem.type_of[access.tensor].axes
    indices = [access.indices[axis.dim] for axis in axes if isinstance(axis, Dense)]
    around = [str(v) for v in indices if v != nest.vector]
    found = tuple(takewhile(lambda v: v in nest.free_dense_vars, reversed(around)))
    return found[::-1] if len(indices) == len(axes) else ()


def mostly_read_before(cpu: CpuModel, pattern: Stored, level: int) -> bool:
    """Whether a segment of a level shares most coordinates with the previous segment; False if that is not known."""
    return read_before(pattern, level) >= cpu.read_before


def read_before(pattern: Stored, level: int) -> float:
    """The fraction of a level's entries whose coordinates are also in the previous segment; 0 if that is not known."""
    if not isinstance(pattern, Pattern) or not pattern.format.levels[level].kind.has_pointers:
        return 0.0
    return _read_before(pattern, level) if pattern.format.levels[level].kind.has_coordinates else 0.0


@memoize(maxsize=64)
def _read_before(pattern: Pattern, level: int) -> float:
    pointers, coordinates, stored = pattern.pointers(level), pattern.coordinates(level), pattern.format.levels[level]
    if len(pointers) < 3:
        return 0.0
    chosen = np.unique(np.linspace(1, len(pointers) - 2, PAIRS).astype(np.int64))

    def entries(segments: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return an integer for each entry, made of its coordinate and of its segment's place in `segments`."""
        bounds = zip(pointers[segments].tolist(), pointers[segments + 1].tolist(), strict=True)
        found = [coordinates[first : min(stop, first + LONGEST)] for first, stop in bounds]
        pairs = np.repeat(np.arange(len(found)), [len(one) for one in found])
        return pairs * pattern.shape[stored.dim] + np.concatenate(found)

    here = entries(chosen)
    shared = np.intersect1d(entries(chosen - 1), here, assume_unique=stored.unique)  # of all pairs at once
    return len(shared) / len(here) if len(here) else 0.0


def permutation_cost(nest: Summary, patterns: tuple[Stored, ...]) -> float:
    """Return the cost of moving values to the loops' order. Lookups in a pattern count instead if they cost less."""
    return sum(min(move, _lookups(nest, patterns, n)[0]) for n, move in _moves(nest, patterns).items())


def find_patterns_left_as_stored(nest: Summary, patterns: tuple[Stored, ...]) -> dict[int, int]:
    """Find the patterns whose values stay in their stored order although the loops have another order.

    Each key of the result is the index of a pattern that stays as stored. The value is the index of a pattern with few
    entries: loops walk its entries, and look them up in the pattern of the key.
    """
    found = {n: (move, *_lookups(nest, patterns, n)) for n, move in _moves(nest, patterns).items()}
    return {n: binding for n, (move, lookups, binding) in found.items() if lookups < move}


def _moves(nest: Summary, patterns: tuple[Stored, ...]) -> dict[int, float]:
    """For each pattern that loops do not walk in stored order, return the cost of moving its values."""
    problem, moved = nest.problem, dict[int, float]()
    for access in problem.assignment.accesses:
        axis = problem.type_of[access.tensor].positions
        if axis is None:
            continue
        names = problem.level_variables[axis.pattern]
        walked = variables_in_walk_order(names, nest.walk)
        if walked != names:
            inner, pattern = extent(problem, [v for v in access.variables() if v not in names]), patterns[axis.pattern]
            shared = next(n for n, (stored, var) in enumerate(zip(names, walked, strict=True)) if stored != var)
            # Levels whose coordinates may repeat have fewer segments than they store coordinates.
            apart = min(pattern.level_sizes[shared - 1], extent(problem, names[:shared])) if shared else 1
            cost = nest.cpu.move_call + pattern.nse * _move(
                nest.cpu, pattern, max(apart, 1), inner, itemsize(problem, access)
            )
            moved[axis.pattern] = moved.get(axis.pattern, 0.0) + cost
    return moved


def _lookups(nest: Summary, patterns: tuple[Stored, ...], number: int) -> tuple[float, int]:
    """Return the cost of looking up another pattern's entries in pattern `number`, and the index of the other pattern.

    The stored order of pattern `number` is not the order of the loops. The cost is infinite if the entries of no other
    pattern determine all coordinates of pattern `number`. It is also infinite if pattern `number` is dynamic, has two
    levels of one variable, or holds the result's values.
    """
    names, pattern = nest.problem.level_variables, patterns[number]
    own, on = names[number], nest.problem.type_of[nest.problem.target.tensor].positions
    if not isinstance(pattern, Pattern) or (on is not None and on.pattern == number) or len(set(own)) < len(own):
        return inf, -1
    # A lookup needs the coordinates of all variables of the pattern: the other one binds the walk down to the last.
    around = set(nest.walk[: max(map(nest.walk.index, own)) + 1])
    others = [
        (patterns[n].nse, n)
        for n in nest.statement.patterns
        if n != number and around <= set(names[n]) and variables_in_walk_order(names[n], nest.walk) == names[n]
    ]
    entries, binding = min(others, default=(inf, -1))
    levels = zip(pattern.format.levels, pairwise((1, *pattern.level_sizes)), strict=True)
    located = sum(_bisection(nest.cpu, n / max(above, 1), n) for level, (above, n) in levels if not level.kind.is_full)
    return entries * located, binding


def _bisection(cpu: CpuModel, segment: float, stored: int) -> float:
    """The cost of locating a coordinate in a segment of a level that stores `stored` coordinates in all.

    The last steps of the bisection are in one cache line. Each earlier step reads another line anywhere in the level.
    """
    # A line has 16 coordinates, so the last log2(16) = 4 steps read no further line.
    steps, size = log2(1 + segment), cpu.coordinate_bytes * stored
    return cpu.bisection + steps + max(steps - log2(cpu.line_bytes / cpu.coordinate_bytes), 1.0) * cpu.gather(size)


def _move(cpu: CpuModel, pattern: Stored, apart: int, inner: int, item: int) -> float:
    """Return the cost of moving one entry's `inner` values, which have `item` bytes each and lie side by side.

    The old and the new order agree in some outermost levels, which have `apart` segments. A value stays within its
    segment, so a cache has to hold the values of one segment only. Within this segment, the new order reads one value
    from each innermost segment, then the next value from each. So a cache has to hold only a few lines of each
    innermost segment. If innermost segments are long, these lines have fewer bytes than all values. In a band or a
    mesh, neighbours stay neighbours, so most values lie near the previous value.
    """
    if not pattern.format.levels:
        return cpu.move * inner
    segments, lines = (1, *pattern.level_sizes)[-2], -(-inner * item // cpu.line_bytes)
    # The bytes that have to stay near.
    near = min(pattern.nse * inner * item, segments * cpu.near_lines * lines * cpu.line_bytes) / apart
    far = 1 - read_before(pattern, len(pattern.format.levels) - 1)
    # A cache line is missed once, however many values of the entry are in it.
    return cpu.move * inner + cpu.far_move * lines * far * cpu.gather(near)


def transposition_cost(nest: Summary) -> float:
    """The cost of transposing dense tensors."""
    if not nest.tensors_to_transpose:
        return 0.0
    moved = (access for access in nest.problem.assignment.accesses if access.tensor in nest.tensors_to_transpose)
    sizes = ((extent(nest.problem, access.variables()), itemsize(nest.problem, access)) for access in moved)
    return sum(
        n * (nest.cpu.far_transpose if n * bytes_ >= nest.cpu.last_cache_bytes else nest.cpu.transpose)
        for n, bytes_ in sizes
    )
