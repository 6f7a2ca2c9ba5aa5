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
from jsparse.compiler.problem import Dense, Problem
from jsparse.compiler.schedule.layout import AnyPattern
from jsparse.compiler.schedule.summary import Summary
from jsparse.compiler.schedule.trip_counts import UNKNOWN, TripCounts, variables_in_walk_order
from jsparse.formats import Pattern
from jsparse.notation.assignment import Access, IndexVar

PAIRS = 64  # pairs of neighbouring segments that are compared
LONGEST = 512  # the maximum number of entries of a segment that are compared


def extent(problem: Problem, variables: Sequence[IndexVar]) -> int:
    """Return the size of the iteration space of the variables."""
    product, sizes = 1, problem.size
    for v in variables:
        size = sizes[v]
        product *= UNKNOWN if size is None else size
    return product


def itemsize(problem: Problem, access: Access) -> int:
    """Return the bytes of an element of the accessed tensor."""
    return np.dtype(problem.type_of[access.tensor].dtype).itemsize


def line_cost(nest: Summary, columns: int, item: int, rows: int, times: float = 1.0) -> float:
    """Return the cost of reading one random cache line of `times` · `rows` rows, each of `columns` · `item` bytes."""
    # If the loop over tiles is the outermost one, all rows are read before the next tile of any row.
    near = nest.lanes if nest.loops[:1] == (nest.tile_loop,) else columns
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
        slices, turns: the extents of two sets of loops around the reduction: `slices` of loops over variables of the
            factor, `turns` of loops over variables that the factor lacks.
        beside: the extent of the variables in `slices` that the factor stores directly around the variable in lanes.
            The rows at their coordinates are adjacent in memory.
    """

    variables: frozenset[IndexVar]
    in_lanes: bool
    item: int
    columns: int
    block: int
    rows: int
    elements: int
    slices: int
    turns: int
    beside: int = 1

    def cost(self, nest: Summary, counts: TripCounts) -> float:
        """The cost of all rows.

        A new row is read for each entry of one level, which binds the last of the factor's variables. Entries of levels
        inside this level read the same row again. Loops around the reduction read a row again in their next iteration.
        Until then, they read at most the other rows of one segment, so the row is still in a near cache.
        """
        # Invariant: `line` is the price of a cache line of a new row, and of reading it again in all turns of the loops
        # around the reduction. `again` is the price of a line that has just been read.
        last, leaf = max(map(nest.walk.index, self.variables)), counts.entries[-1]
        bound = min(counts.entries[last], leaf)
        if not self.in_lanes:
            # The elements of a row are contiguous. If the loop over register tiles is outermost, each tile reads them.
            tiles = -(-self.columns // nest.lanes) if nest.loops[:1] == (nest.tile_loop,) else 1
            lines = tiles * nest.cpu.lines(self.block * self.item)
            return lines * bound * nest.cpu.gather(self.elements * self.item)
        line, turns = line_cost(nest, self.columns, self.item, self.rows * self.beside), self.turns
        again = line_cost(nest, self.columns, self.item, self.block)
        if turns != 1:
            # Is the loop over register tiles outside of the innermost dense loop over the target?
            inside = nest.loops[nest.loops.index(nest.tile_loop) :] if nest.tile_loop in nest.loops else ()
            is_tiled = not set(inside).isdisjoint(nest.free_dense_vars)
            turns = -(-turns // nest.passes_saved) if is_tiled else turns
            segment = leaf / max(counts.entries_above(len(nest.tail)), 1.0)
            segment = min(segment, nest.position_panel or segment)
            near = nest.lanes if is_tiled else self.columns
            line += (turns - 1) * line_cost(nest, near, self.item, self.block, segment)
        cost = bound * line
        if nest.tiles_outermost and self.columns > nest.lanes:  # and each tile of a row for the first time
            cost += min(bound, self.rows) * nest.cpu.gather(self.elements * self.item)
        if leaf != bound:
            cost += (leaf - bound) * turns * again
        if self.beside <= 1:
            return self.slices * self.block * nest.cpu.lines(self.columns * self.item) * cost
        # Adjacent rows share lines. Iterations that run at a time read them together, as `parts` parts.
        apart = self.slices // self.beside * self.block
        lines, parts = nest.cpu.lines(self.beside * self.columns * self.item), -(-self.beside // nest.copies)
        read = parts * nest.cpu.lines(-(-self.beside // parts) * self.columns * self.item)
        return apart * (lines * cost + max(read - lines, 0) * leaf * turns * again)


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


def cost_of_strides(nest: Summary, counts: TripCounts) -> float:
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
        if last not in stored[:-1]:
            continue
        if last in nest.walk:
            iterations = counts.entries[nest.walk.index(last)]
        elif nest.vector is None and last == nest.order[-1]:
            iterations = counts.entries_above(0) * extent(problem, nest.dense)
        else:
            continue
        item = itemsize(problem, access)
        far = extent(problem, stored[stored.index(last) + 1 :]) * item >= nest.cpu.page_bytes
        line = nest.cpu.gather(extent(problem, stored) * item) * (nest.cpu.new_page if far else 1.0)
        cost += line * iterations
    return cost


def indices_beside_lanes(nest: Summary, access: Access) -> tuple[IndexVar, ...]:
    """Return the target's indices that a dense tensor stores directly around the index in lanes, innermost last."""
    axes = nest.problem.type_of[access.tensor].axes
    indices = [access.indices[axis.dim] for axis in axes if isinstance(axis, Dense)]
    if len(indices) < len(axes):
        return ()
    outwards = (str(v) for v in reversed(indices) if v != nest.vector)
    return tuple(takewhile(lambda v: v in nest.free_dense_vars, outwards))[::-1]


def mostly_read_before(cpu: CpuModel, pattern: AnyPattern, level: int) -> bool:
    """Whether a segment of a level shares most coordinates with the previous segment; False if that is not known."""
    return read_before(pattern, level) >= cpu.read_before


def read_before(pattern: AnyPattern, level: int) -> float:
    """The fraction of a level's entries whose coordinates are also in the previous segment; 0 if that is not known."""
    if not isinstance(pattern, Pattern) or not pattern.format.levels[level].kind.has_segments:
        return 0.0
    return _read_before(pattern, level)


@memoize(maxsize=64)
def _read_before(pattern: Pattern, level: int) -> float:
    pointers, coordinates, stored = pattern.pointers(level), pattern.coordinates(level), pattern.format.levels[level]
    if len(pointers) < 3:
        return 0.0
    chosen = np.unique(np.linspace(1, len(pointers) - 2, PAIRS).astype(np.int64))

    def entries(segments: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return an integer for each entry, made of its coordinate and of its segment's place in `segments`."""
        bounds = zip(pointers[segments].tolist(), pointers[segments + 1].tolist(), strict=True)
        parts = [coordinates[first : min(stop, first + LONGEST)] for first, stop in bounds]
        places = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        return places * pattern.shape[stored.dim] + np.concatenate(parts)

    here = entries(chosen)
    shared = np.intersect1d(entries(chosen - 1), here, assume_unique=stored.unique)  # of all pairs at once
    return len(shared) / len(here) if len(here) else 0.0


def permutation_cost(nest: Summary, patterns: tuple[AnyPattern, ...]) -> float:
    """Return the cost of moving values to the loops' order. Lookups in a pattern count instead if they cost less."""
    return sum(min(move, _lookups(nest, patterns, n)[0]) for n, move in _moves(nest, patterns).items())


def find_patterns_left_as_stored(nest: Summary, patterns: tuple[AnyPattern, ...]) -> dict[int, int]:
    """Find the patterns whose values stay in their stored order although the loops have another order.

    Each key of the result is the index of a pattern that stays as stored. The value is the index of a pattern with few
    entries: loops walk its entries, and look them up in the pattern of the key.
    """
    prices = {n: (move, *_lookups(nest, patterns, n)) for n, move in _moves(nest, patterns).items()}
    return {n: binding for n, (move, lookups, binding) in prices.items() if lookups < move}


def _moves(nest: Summary, patterns: tuple[AnyPattern, ...]) -> dict[int, float]:
    """For each pattern that loops do not walk in stored order, return the cost of moving its values.

    A value stays within its segment of the outermost levels in which both orders agree, so a cache has to hold the
    values of one such segment only. Within it, the new order reads one value from each innermost segment, then the next
    value from each. So a cache has to hold only a few lines of each innermost segment. If innermost segments are long,
    these lines have fewer bytes than all values. In a band or a mesh, neighbours stay neighbours, so most values lie
    near the previous value.
    """
    problem, cpu, costs = nest.problem, nest.cpu, dict[int, float]()
    for access in problem.assignment.accesses:
        axis = problem.type_of[access.tensor].positions
        if axis is None:
            continue
        names = problem.level_variables[axis.pattern]
        walked = variables_in_walk_order(names, nest.walk)
        if walked == names:
            continue
        pattern, inner = patterns[axis.pattern], extent(problem, [v for v in access.variables() if v not in names])
        size, shared = inner * itemsize(problem, access), next(n for n, v in enumerate(walked) if names[n] != v)
        # Levels whose coordinates may repeat have fewer segments than they store coordinates.
        apart = min(pattern.level_sizes[shared - 1], extent(problem, names[:shared])) if shared else 1
        segments, lines = (1, *pattern.level_sizes)[-2], cpu.lines(size)
        near = min(pattern.nse * size, segments * cpu.near_lines * lines * cpu.line_bytes) / max(apart, 1)
        far = 1 - read_before(pattern, len(pattern.format.levels) - 1)
        # A cache line is missed once, however many values of the entry are in it.
        move = cpu.move * inner + cpu.far_move * lines * far * cpu.gather(near)
        costs[axis.pattern] = costs.get(axis.pattern, 0.0) + (cpu.move_call + pattern.nse * move)
    return costs


def _lookups(nest: Summary, patterns: tuple[AnyPattern, ...], number: int) -> tuple[float, int]:
    """Return the cost of looking up another pattern's entries in pattern `number`, and the index of the other pattern.

    The stored order of pattern `number` is not the order of the loops. The cost is infinite if the entries of no other
    pattern determine all coordinates of pattern `number`. It is also infinite if pattern `number` is dynamic, has two
    levels of one variable, or holds the result's values.
    """
    names, pattern = nest.problem.level_variables, patterns[number]
    variables, on = names[number], nest.problem.type_of[nest.problem.target.tensor].positions
    is_diagonal, is_result = len(set(variables)) < len(variables), on is not None and on.pattern == number
    if not isinstance(pattern, Pattern) or is_result or is_diagonal:
        return inf, -1
    # A lookup needs the coordinates of all variables of the pattern: the other one binds the walk down to the last.
    around = set(nest.walk[: max(map(nest.walk.index, variables)) + 1])
    others = [
        (patterns[n].nse, n)
        for n in nest.statement.patterns
        if n != number and around <= set(names[n]) and variables_in_walk_order(names[n], nest.walk) == names[n]
    ]
    entries, binding = min(others, default=(inf, -1))
    cpu, located = nest.cpu, 0.0
    for level, (above, stored) in zip(pattern.format.levels, pairwise((1, *pattern.level_sizes)), strict=True):
        if level.kind.is_full:
            continue
        # The last steps of a bisection are in one cache line: log2(16) = 4 steps, for 16 coordinates in a line. Each
        # earlier step reads another line anywhere in the level.
        steps = log2(1 + stored / max(above, 1))
        far = max(steps - log2(cpu.line_bytes / cpu.coordinate_bytes), 1.0)
        located += cpu.bisection + steps + far * cpu.gather(cpu.coordinate_bytes * stored)
    return entries * located, binding


def transposition_cost(nest: Summary) -> float:
    cost = 0.0
    for access in nest.problem.assignment.accesses:
        if access.tensor in nest.tensors_to_transpose:
            elements = extent(nest.problem, access.variables())
            is_far = elements * itemsize(nest.problem, access) >= nest.cpu.last_cache_bytes
            cost += elements * (nest.cpu.far_transpose if is_far else nest.cpu.transpose)
    return cost
