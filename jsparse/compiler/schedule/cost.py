"""The cost model of candidates, in units of about one scalar multiply-add.

The model counts the quantities that differ between loop orders: iterations, arithmetic inside and outside of vector
lanes, the target's memory traffic, values permuted to another storage order, and whether threads can share the work.
Counts of stored entries are exact for a pattern that is walked as stored. For another order they are bounds, from nse
and the sizes.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from jsparse.compiler.problem import Problem
from jsparse.compiler.schedule.candidate import Candidate
from jsparse.compiler.schedule.machine import LINE_BYTES, REGISTER_BYTES, gather_cost
from jsparse.compiler.schedule.stored import Stored
from jsparse.compiler.schedule.trip_counts import UNKNOWN, TripCounts, trip_counts, walked_as
from jsparse.notation.assignment import Access, IndexVar

__all__ = ["CHUNK_WORK", "Cost", "estimate", "extent", "moved_dense", "sharing"]

LANES = 8.0  # scalar arithmetic costs this many times that in vector lanes
VISIT = 2.0  # one iteration of a sparse loop: a coordinate loaded, a branch
MEMORY = 2.0  # an element of the target read, changed and written in memory, instead of kept in a register
CLEAR = 0.25  # an element of the target set to zero
MOVE = 2.0  # a value permuted to another storage order
COPY = 1.0  # an element of a dense tensor transposed
SHARED = 2.0  # the factor on work that threads cannot share
JAMMED = 0.7  # arithmetic on several rows at a time, relative to one row
CHAIN = 16  # sums of at most this many terms overlap with the next sum
WRITTEN = 0.75  # arithmetic with constant addresses, relative to computed addresses
SEGMENT = 26.0  # two mispredicted branches per segment: at its start and at its end
PACK = 10.0  # a cache line copied into a panel
CHUNK_WORK = 1 << 15  # the least multiply-adds for which waking a thread pays


@dataclass(frozen=True, slots=True, order=True)
class Cost:
    """The estimated cost of a candidate and its parts, in multiply-adds.

    Attributes:
        total: the estimate that candidates are compared by.
        work: the arithmetic and the cache misses of gathered rows.
        iterations: the overhead of sparse loops.
        target: the memory traffic of the target.
        moves: values permuted and dense tensors transposed before and after the kernel.
        serial: threads cannot share the work.
    """

    total: float
    work: float
    iterations: float
    target: float
    moves: float
    serial: bool

    def __str__(self) -> str:
        how = "serial" if self.serial else "parallel"
        parts = (
            f"work {self.work:.3g}, iterations {self.iterations:.3g}, target {self.target:.3g}, moves {self.moves:.3g}"
        )
        return f"{self.total:.4g} ({parts}; {how})"


def extent(problem: Problem, variables: tuple[IndexVar, ...]) -> int:
    """The size of the variables' iteration space."""
    sizes = (problem.size[v] for v in variables)
    return prod(UNKNOWN if size is None else size for size in sizes)


def sharing(candidate: Candidate) -> tuple[IndexVar, str] | None:
    """The variable whose loop is divided over threads, and the mode; None if the work is serial.

    The outermost loop is divided if its iterations own their parts of the target ("owned"), or if everything below it
    is summed into registers, so that every chunk has its own accumulator ("reduced").
    """
    order, free_vars = candidate.order, candidate.free_vars
    if candidate.problem.is_assembly:
        return (order[0], "owned") if order else None
    if candidate.panel:
        return str(candidate.vector), "owned"
    if candidate.written_out:
        return str(candidate.free_dense_vars[0] if candidate.free_dense_vars else candidate.vector), "owned"
    if candidate.owns_tiles and not candidate.batch:
        return str(candidate.vector), "owned"
    tiles_first = candidate.vector is not None and candidate.tile == 0
    outermost = order[0] if order else None
    if tiles_first and candidate.vector in free_vars and outermost != candidate.vector and not candidate.head:
        if extent(candidate.problem, (order[-1],)) >= 1024:
            return str(candidate.vector), "owned"
    elif outermost in free_vars:
        return str(outermost), "owned"
    if outermost is None or outermost in free_vars or outermost == candidate.vector:
        return None
    summed_outermost = candidate.summed[:1] == (outermost,)
    if summed_outermost or not any(
        v in free_vars for v in (order if candidate.vector not in free_vars else order[:-1])
    ):
        return (outermost, "reduced") if summed_outermost or tiles_first or candidate.vector not in free_vars else None
    return None


def moved_dense(candidate: Candidate) -> tuple[str, ...]:
    """The dense tensors whose storage must change for the vector variable to be innermost."""
    problem, vector = candidate.problem, candidate.vector
    moved = []
    for access in problem.assignment.accesses:
        tensor = problem.type_of[access.tensor]
        if vector in access.indices and tensor.positions is None and access.indices[tensor.axes[-1].dim] != vector:  # type: ignore[union-attr]
            moved.append(access.tensor)
    return tuple(moved)


def estimate(candidate: Candidate, patterns: tuple[Stored, ...], walked: TripCounts | None = None) -> Cost:
    """Price a candidate; `walked` are the trip counts of its walk, if they were computed before."""
    walked = walked or trip_counts(candidate.problem, candidate.walk, patterns)
    entries = list(walked.entries)
    work = _work(candidate, entries) + _gathers(candidate, entries)
    visited = _visited(candidate, list(walked.iterations))
    serial = sharing(candidate) is None
    target = _target_traffic(candidate, patterns, entries)
    moves = _moves(candidate, patterns)
    running = work + visited + target
    return Cost(running * (SHARED if serial else 1.0) + moves, work, visited, target, moves, serial)


def _work(candidate: Candidate, entries: list[float]) -> float:
    """Multiply-adds; in vector lanes they cost less."""
    leaf, dense = (entries[-1] if entries else 1.0), extent(candidate.problem, candidate.dense)
    inner, outer = candidate.inner_lanes if candidate.can_factor else (0, 0)
    if candidate.factored:
        above = entries[-2] if len(entries) > 1 else 1.0
        work = (leaf * max(inner, 1) + above * (outer + 1)) * dense
    elif inner + outer > 1:
        work = leaf * (inner + outer) * dense
    elif candidate.sums_all:
        work = leaf + (entries[len(candidate.head) - 1] if candidate.head else 1.0) * dense
    else:
        work = leaf * dense
    work *= WRITTEN if candidate.written_out else JAMMED if candidate.jam else 1.0
    return work / (LANES if candidate.vector is not None else 1.0) * _chain(candidate)


def _chain(candidate: Candidate) -> float:
    """The factor by which a sum over a dense index is slower because it has too few independent accumulators.

    Each addition waits for the one before it, unless other accumulators keep the unit busy. Short sums overlap with the
    next sum.
    """
    if candidate.vector not in candidate.free_vars or not candidate.contracted:
        return 1.0
    item = np.dtype(candidate.problem.accumulator).itemsize
    waiting = REGISTER_BYTES / (candidate.lanes * item * candidate.copies)
    return max(1.0, min(waiting, extent(candidate.problem, candidate.contracted) / CHAIN))


def _gathers(candidate: Candidate, entries: list[float]) -> float:
    """The cost of the cache lines that dense factors are gathered from, or of panels that are copied."""
    if candidate.vector is None or candidate.written_out:
        return 0.0
    if candidate.panel:
        return _panels(candidate, entries)
    problem = candidate.problem
    dense = [f for f in problem.assignment.factors if problem.type_of[f.tensor].positions is None and not f.nested()]
    in_lanes = sum(_rows(candidate, f, entries) for f in dense if candidate.vector in f.variables())
    return in_lanes + sum(_summed_rows(candidate, f, entries) for f in dense if candidate.vector not in f.variables())


def _rows(candidate: Candidate, access: Access, entries: list[float]) -> float:
    """The cost of a factor's rows.

    A new row is read for each entry of the level that binds the last of the factor's variables. Entries of levels
    further in read the same row again. Further iterations of loops around the reduction read it again after at most a
    segment of other rows, so it is still in a near cache. The elements over summed dense indices make a row a block.
    """
    variables = access.variables()
    depths = [n for n, v in enumerate(candidate.walk) if v in variables]
    if not depths:
        return 0.0
    leaf = entries[-1]
    bound = min(entries[depths[-1]], leaf)
    block = tuple(v for v in variables if v in candidate.contracted)
    rows = (*block, *(v for v in variables if v in candidate.walk))
    turns = extent(candidate.problem, tuple(v for v in candidate.free_dense_vars if v not in variables))
    own = extent(candidate.problem, tuple(v for v in candidate.free_dense_vars if v in variables))
    lines = -(-extent(candidate.problem, (str(candidate.vector),)) * _itemsize(candidate, access) // LINE_BYTES)
    segment = leaf / max(entries[len(candidate.head) - 1], 1.0) if candidate.head else leaf
    again = (turns - 1) * _line(candidate, access, block, segment)
    new = bound * (_line(candidate, access, rows) + again)
    known = (leaf - bound) * turns * _line(candidate, access, block)
    return own * extent(candidate.problem, block) * lines * (new + known)


def _summed_rows(candidate: Candidate, access: Access, entries: list[float]) -> float:
    """The cost of a factor that is summed over a dense index outside of lanes: contiguous elements, read per tile."""
    variables = access.variables()
    summed = tuple(v for v in variables if v in candidate.contracted)
    depths = [n for n, v in enumerate(candidate.walk) if v in variables]
    if not depths or not summed:
        return 0.0
    item = _itemsize(candidate, access)
    tiles = -(-extent(candidate.problem, (str(candidate.vector),)) // candidate.lanes) if candidate.tile == 0 else 1
    lines = tiles * -(-extent(candidate.problem, summed) * item // LINE_BYTES)
    return lines * min(entries[depths[-1]], entries[-1]) * gather_cost(extent(candidate.problem, variables) * item)


def _panels(candidate: Candidate, entries: list[float]) -> float:
    """The cost of copying panels, of adding sums in memory after each, and of reading rows in a copy."""
    problem, access = candidate.problem, candidate.gathered
    assert access is not None
    rows, columns = extent(problem, candidate.tail[-1:]), extent(problem, (str(candidate.vector),))
    item = _itemsize(candidate, access)
    lines, tiles = -(-columns * item // LINE_BYTES), -(-columns // candidate.lanes)
    walked = (entries[-2] if len(entries) > 1 else 1.0) * -(-rows // candidate.panel)
    added = walked * (tiles * SEGMENT + MEMORY * columns / LANES)
    return PACK * rows * lines + added + entries[-1] * lines * gather_cost(candidate.panel * candidate.lanes * item)


def _row(candidate: Candidate, access: Access, rows: tuple[IndexVar, ...]) -> float:
    """The cost of reading one row of a dense tensor, all tiles of it, at random coordinates of `rows`."""
    columns, item = extent(candidate.problem, (str(candidate.vector),)), _itemsize(candidate, access)
    return -(-columns * item // LINE_BYTES) * _line(candidate, access, rows)


def _line(candidate: Candidate, access: Access, rows: tuple[IndexVar, ...], times: float = 1.0) -> float:
    """The cost of reading one cache line at random coordinates of `rows`, or among `times` as many rows."""
    columns, item = extent(candidate.problem, (str(candidate.vector),)), _itemsize(candidate, access)
    near = candidate.lanes if candidate.tile == 0 else columns  # the elements of a row that are read consecutively
    return gather_cost(times * extent(candidate.problem, rows) * near * item)


def _itemsize(candidate: Candidate, access: Access) -> int:
    return np.dtype(candidate.problem.type_of[access.tensor].dtype).itemsize


def _visited(candidate: Candidate, iterations: list[float]) -> float:
    """The cost of iterations: a loop around part of the walk repeats that part."""
    if candidate.written_out:
        return 0.0
    around = 1 if candidate.sums_all else extent(candidate.problem, candidate.free_dense_vars)
    heads, tail = sum(iterations[: len(candidate.head)]), sum(iterations[len(candidate.head) :])
    tiles = -(-extent(candidate.problem, (candidate.vector,)) // candidate.lanes) if candidate.vector else 1
    if candidate.owns_tiles:
        heads *= tiles
    return VISIT * extent(candidate.problem, candidate.batch) * (heads + tail * around)


def _target_traffic(candidate: Candidate, patterns: tuple[Stored, ...], entries: list[float]) -> float:
    problem = candidate.problem
    written = extent(problem, tuple(v for v in candidate.dense if v in candidate.free_vars))
    heads, leaf = entries[: len(candidate.head)], entries[-1] if entries else 1.0
    stores = (heads[-1] if heads else 1.0) * written
    anywhere = 0.0
    if candidate.scatters:
        stores = max(stores, leaf * written) * MEMORY
        rows = tuple(v for v in candidate.walk if v in candidate.free_vars)
        if candidate.vector in candidate.free_vars:
            anywhere = 2 * leaf * extent(problem, candidate.free_dense_vars) * _row(candidate, problem.target, rows)
    sparse = problem.type_of[problem.target.tensor].positions is None and (
        candidate.scatters or _skips(candidate, patterns)
    )
    clears = CLEAR * extent(problem, problem.target.variables()) if sparse else 0.0
    return stores / (LANES if candidate.vector in candidate.free_vars else 1.0) + clears + anywhere


def _skips(candidate: Candidate, patterns: tuple[Stored, ...]) -> bool:
    """Whether some of the target's coordinates are not visited because no pattern stores them."""
    if not patterns:
        return False
    outermost = patterns[0].format.levels[:1]
    return len(candidate.head) > 1 or any(not level.kind.is_full for level in outermost)


def _moves(candidate: Candidate, patterns: tuple[Stored, ...]) -> float:
    """The cost of gathering values into the walked order, and of transposing dense tensors."""
    problem = candidate.problem
    moved = 0.0
    for access in problem.assignment.accesses:
        axis = problem.type_of[access.tensor].positions
        if axis is None:
            continue
        names = problem.level_variables[axis.pattern]
        if walked_as(names, candidate.walk) != names:
            inner = extent(problem, tuple(v for v in access.variables() if v not in names))
            moved += MOVE * patterns[axis.pattern].nse * inner
    for name in moved_dense(candidate):
        access = next(a for a in problem.assignment.accesses if a.tensor == name)
        moved += COPY * extent(problem, access.variables())
    return moved
