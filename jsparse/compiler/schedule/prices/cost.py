"""The cost model of nests, in units of about one scalar multiply-add.

The model counts the quantities that differ between loop orders: iterations, arithmetic inside and outside of vector
lanes, the target's memory traffic, values permuted to another storage order, and whether threads can share the work.
Counts of stored entries are exact for a pattern that is walked as stored. For a pattern that is walked in another
order, they are upper bounds, which follow from nse and the sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, log2
from typing import NamedTuple

import numpy as np

from jsparse.compiler.cpu_model import CpuModel
from jsparse.compiler.loops.nest import MAX_CHUNKS
from jsparse.compiler.schedule.layout import Stored
from jsparse.compiler.schedule.prices.gathers import (
    GatheredRows,
    cost_of_strides,
    extent,
    find_row_gathers,
    indices_beside_lanes,
    itemsize,
    line_cost,
    permutation_cost,
    transposition_cost,
)
from jsparse.compiler.schedule.races import copies_reason, count_target_elements, work_of_copies
from jsparse.compiler.schedule.summary import Summary
from jsparse.compiler.schedule.transformations.parallelize import Race
from jsparse.compiler.schedule.transformations.precompute import loops_to_precompute, tiles_among_sums
from jsparse.compiler.schedule.trip_counts import UNKNOWN, TripCounts, trip_counts
from jsparse.formats.levels import is_dense_cheap
from jsparse.notation.assignment import Access, IndexVar


class Cost(NamedTuple):
    """The estimated cost of a candidate and its parts, in multiply-adds.

    Attributes:
        total: the estimate by which candidates are compared.
        work: the cost of arithmetic, and of cache misses where rows are gathered.
        iterations: the overhead of sparse loops.
        target: the memory traffic of the target.
        moves: the cost of permuting values and transposing dense tensors, before and after the kernel.
        serial: whether the work is serial, because threads cannot share it.
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


def sort_cost(cpu: CpuModel, entries: int) -> float:
    """Return the cost of storing a dynamic pattern of `entries` entries, and its values, in another order.

    The program expands index arrays to coordinates, sorts the coordinates by radix, assembles new index arrays, and
    gathers the values.
    """
    return cpu.sort_call + cpu.sort_step * entries * log2(max(entries, 2))


def grain_of(whole: int, work: float, least: float, most: int | None = None) -> int:
    """Return the size of the smallest chunk whose work is at least `least`, so that waking a thread for it pays.

    The size is a power of two, so that patterns with similar numbers of entries share one kernel.

    Args:
        whole: the number of stored entries or iterations of the whole loop. The size of a chunk is in the same unit.
        work: the work of the whole loop.
        most: the upper limit of the size before it is rounded up (default: `whole`). A chunk of this size is the whole
            loop.
    """
    # The work of a part is work · part / whole: it is `least` for part = whole · least / work, rounded up to 2**n.
    found = max(1, min(whole if most is None else most, round(whole * least / max(work, 1.0))))
    return 1 << (found - 1).bit_length()


def weight_of_level(pattern: Stored, level: int, size: int | None) -> int:
    """Return the weight of an outermost level: an upper bound of its number of positions, plus the entries below them.

    Args:
        size: the size of the level's dimension, which bounds the number of positions; None if it is unknown. If the
            dimension is large and the level is sparse, the number of entries bounds the number of positions.
    """
    extent, stored = UNKNOWN if size is None else size, pattern.format.levels[level]
    if stored.kind.is_full or is_dense_cheap(extent, pattern.nse):
        return pattern.nse + extent
    return 2 * pattern.nse  # each position of a sparse level has an entry below it


def sharing(nest: Summary, entries: float = inf, work: float = 0.0) -> tuple[str, Race] | None:
    """Return the loop to divide over threads and its race strategy; None if the work is serial.

    The outermost loop is divided if its iterations own their parts of the target ("owned"). It is also divided if
    everything below it is summed into registers, so that every chunk has its own accumulator ("reduced"). If a sum of
    `entries` terms is computed before all other loops, threads divide either the sum or the other loops: they divide
    the part with more work. A loop that scatters sums is divided only if each chunk can have a copy of a small target
    ("reduced"). The cost of all iterations, `work`, must be large enough to pay for the copies.
    """
    given = nest.first("parallelize")
    if given is not None:
        return given.loop, given.race
    if not nest.loops:
        return None
    if nest.problem.is_assembly:
        return nest.loops[0], "owned"
    rest, free_vars = [name for name in nest.loops if name not in nest.precompute_loops], nest.free_vars
    sum_outermost = nest.loops[0] in nest.precompute_loops
    owned = rest and free_vars.issuperset(nest.variables_of(rest[0])) and not _is_small_tiling(nest, rest)
    if owned and rest[0] in nest.outer and nest.scatters and _tiles(nest) == 1:  # one tile cannot be divided
        return None
    if owned and (not sum_outermost or extent(nest.problem, nest.dense) > entries):
        return rest[0], "owned"
    if sum_outermost:
        return nest.loops[0], "reduced"
    outermost = rest[1] if _has_tiles_first(nest, rest) and rest[1:] else rest[0]
    if outermost in nest.outer or outermost in nest.fusions or outermost in free_vars:
        return None
    # If loops inside run over the target, one accumulator per chunk is too few: each chunk needs a copy of the target.
    placing = any(free_vars.intersection(nest.variables_of(name)) for name in rest[rest.index(outermost) :])
    return (outermost, "reduced") if not placing or pays_for_copies(nest, outermost, work) else None


def pays_for_copies(nest: Summary, loop: str, work: float) -> bool:
    """Whether at least two chunks have enough work to pay for a copy of the target in each chunk."""
    return work >= 2 * nest.cpu.chunk_work and work >= 2 * work_of_copies(nest) and copies_reason(nest, loop) is None


def _cost_of_copies(nest: Summary, work: float) -> float:
    """The cost of the chunks' copies of the target."""
    # The grain gives each chunk at least this work (`finalize._grain`), which bounds the number of chunks.
    chunks = min(MAX_CHUNKS, work / max(nest.cpu.chunk_work, work_of_copies(nest)))
    return nest.cpu.target_copy * chunks * count_target_elements(nest)


def _has_tiles_first(nest: Summary, loops: Sequence[str]) -> bool:
    return nest.vector is not None and nest.outer.get(loops[0]) == nest.vector


def _is_small_tiling(nest: Summary, loops: Sequence[str]) -> bool:
    """Whether the outermost loop runs over tiles of a small index around a sum. Threads then divide the sum instead."""
    if not _has_tiles_first(nest, loops) or len(loops) == 1:
        return False
    if nest.panel or nest.tiles_outermost or nest.head:
        return False
    return extent(nest.problem, (str(nest.vector),)) < 1024


class Prices:
    """Prices of the candidates of one problem. Costs that candidates have in common are computed once.

    Attributes:
        patterns: the problem's patterns.
    """

    def __init__(self, patterns: tuple[Stored, ...]) -> None:
        self.patterns = patterns
        self._walked: dict[tuple[IndexVar, ...], TripCounts] = {}
        self._permuted: dict[tuple[IndexVar, ...], float] = {}
        self._gathered: dict[IndexVar | None, list[GatheredRows]] = {}
        self._transposed: dict[IndexVar | None, float] = {}

    def trip_counts(self, nest: Summary) -> TripCounts:
        if nest.walk not in self._walked:
            self._walked[nest.walk] = trip_counts(nest.problem, nest.walk, self.patterns)
        return self._walked[nest.walk]

    def permutation_cost(self, nest: Summary) -> float:
        """The cost of permuting values into the order in which a candidate walks their patterns."""
        if nest.walk not in self._permuted:
            self._permuted[nest.walk] = permutation_cost(nest, self.patterns)
        return self._permuted[nest.walk]

    def row_gathers(self, nest: Summary) -> list[GatheredRows]:
        """The dense factors from which a candidate gathers rows; none if the candidate has no variable in lanes."""
        if nest.vector is None:
            return []
        if nest.vector not in self._gathered:
            self._gathered[nest.vector] = list(find_row_gathers(nest))
        return self._gathered[nest.vector]

    def transposition_cost(self, nest: Summary) -> float:
        """The cost of transposing dense tensors, so that they store a candidate's variable in lanes innermost."""
        if nest.vector not in self._transposed:
            self._transposed[nest.vector] = transposition_cost(nest)
        return self._transposed[nest.vector]

    def least(self, probe: Summary) -> float:
        """A lower bound of the prices of all candidates with the probe's order of the patterns' variables and the
        probe's variable in lanes.

        The bound counts each iteration and each multiply-add once, and adds the least memory traffic of the target. It
        also holds in floating point: it is computed by the same operations as prices, from numbers that are not larger.
        """
        if 0 in probe.problem.size.values():  # an empty loop around others makes them cheaper
            return 0.0
        walked = self.trip_counts(probe)
        heads, tail = walked.iterations[: len(probe.head)], walked.iterations[len(probe.head) :]
        leaf = walked.entries[-1] if walked.entries else 1.0
        work = leaf if loops_to_precompute(probe) else leaf * extent(probe.problem, probe.dense)
        # In `_work`, rows in common save the factor `jammed` at most, lanes `lane_speedup`, and `_chain` is at least 1.
        work *= 1 if probe.vector is None else probe.cpu.jammed / probe.cpu.lane_speedup
        visited = probe.cpu.visit * extent(probe.problem, probe.batch) * (sum(heads) + sum(tail))
        target = _target_traffic(probe, self.patterns, walked.entries)
        return work + visited + target + (self.permutation_cost(probe) + self.transposition_cost(probe))

    def of(self, nest: Summary) -> Cost:
        """The price of a candidate."""
        walked = self.trip_counts(nest)
        entries = walked.entries
        work = _work(nest, entries) + _gathers(nest, entries, self.row_gathers(nest))
        visited = _cost_of_visits(nest, walked)
        target = (
            _target_traffic(nest, self.patterns, entries)
            + _cost_of_scattering(nest, entries)
            + _panel_sums(nest, entries)
        )
        target += _cost_of_storing_tiles(nest, entries)
        moves = self.permutation_cost(nest) + self.transposition_cost(nest)
        running = work + visited + target
        shared = sharing(nest, work=running)
        serial = shared is None
        if shared is not None and shared[1] == "reduced" and nest.scatters:
            target += (copied := _cost_of_copies(nest, running))
            running += copied
        # Serial work costs more, by a factor that grows with the work: up to `serial`, where it would fill all chunks.
        # Moves run before and after the kernel, whether it is serial or not.
        chunks = min(running / nest.cpu.chunk_work / nest.cpu.shared_chunks, 1.0)
        waits = 1.0 + (nest.cpu.serial - 1.0) * chunks if serial else 1.0
        return Cost(running * waits + moves, work, visited, target, moves, serial)


def estimate(nest: Summary, patterns: tuple[Stored, ...]) -> Cost:
    """Price one candidate."""
    return Prices(patterns).of(nest)


def savings_by_lanes(cpu: CpuModel, steps: float, segments: float, lanes: int, gathers: int) -> float:
    """Return the multiply-adds saved if sums over segments of stored entries take `steps` steps of `lanes` entries.

    Args:
        segments: the number of segments with at least one such step.
        gathers: the number of dense tensors in which an entry locates an element.
    """
    # Each entry in lanes saves 1 - entry; each segment pays once to fold its lanes, and for the branch to lanes.
    entry = cpu.contiguous_lane + cpu.gathered_lane * gathers
    once = cpu.fold + (cpu.mispredicted_lanes if segments > cpu.predicted_segments else 0.0)
    return lanes * steps * (1 - entry) - once * segments


def _work(nest: Summary, entries: Sequence[float]) -> float:
    """Return the cost of the multiply-adds, which is lower in vector lanes."""
    leaf, dense = (entries[-1] if entries else 1.0), extent(nest.problem, nest.dense)
    inner, outer = nest.inner_lanes if nest.saves_in_lanes else (0, 0)
    if nest.sums_tail_first:  # scalar sums over the tail; then each is multiplied in at all dense coordinates
        work = leaf + (entries[len(nest.head) - 1] if nest.head else 1.0) * dense
    elif nest.sums_entries_first:
        # `above` is the number of sums. Factors with the summed variable multiply each entry, the others each sum.
        above = entries[-1 - len(nest.precompute_loops)] if len(entries) > len(nest.precompute_loops) else 1.0
        if nest.sums_in_lanes:
            work = (leaf * max(inner, 1) + above * max(outer, 1)) * dense
        else:  # loops over dense indices of the target stand around the sum
            sums = leaf * extent(nest.problem, nest.free_dense_vars) * _times_summed(nest)
            work = sums + above * max(outer, 1) * dense
    elif inner + outer > 1:
        work = leaf * (inner + outer) * dense
    else:
        work = leaf * dense
    if (
        nest.precompute_loops and not nest.sums_entries_first
    ):  # sums over dense indices are multiplied by the other factors
        work += leaf * extent(nest.problem, [v for v in nest.dense if v in nest.free_vars])
    work *= nest.cpu.jammed if nest.shares_rows else 1.0
    return work / (nest.cpu.lane_speedup if nest.vector is not None else 1.0) * _chain(nest)


def _chain(nest: Summary) -> float:
    """The factor by which a sum over a dense index is slowed down by too few independent accumulators.

    Each addition to an accumulator waits for the previous addition. In the meantime, the processor can add to other
    accumulators. A short sum is slowed down less, since it overlaps with the next sum.
    """
    if nest.vector not in nest.free_vars or not nest.scalar_reductions:
        return 1.0
    item = np.dtype(nest.problem.accumulator).itemsize
    # REGISTER_BYTES of accumulators keep the unit busy; with a fraction of them, additions take 1 / fraction as long.
    waiting = nest.cpu.tile_bytes / (nest.lanes * item * nest.copies)
    return max(1.0, min(waiting, extent(nest.problem, nest.scalar_reductions) / nest.cpu.overlapped_entries))


def _gathers(nest: Summary, entries: Sequence[float], gathered: Sequence[GatheredRows]) -> float:
    """The cost of reading the cache lines of dense factors, or of copying rows for panels if the nest has panels."""
    across = cost_of_strides(nest, entries)
    if nest.vector is not None and nest.panel and nest.only_row_factor is not None:
        return across + _panels(nest, nest.only_row_factor, entries)
    in_lanes = sum([rows.cost(nest, entries) for rows in gathered if rows.in_lanes])
    return across + (in_lanes + sum([rows.cost(nest, entries) for rows in gathered if not rows.in_lanes]))


def _panels(nest: Summary, access: Access, entries: Sequence[float]) -> float:
    """Return the cost of copying rows for panels, of reading the copies, and of adding each panel's sums in memory."""
    problem = nest.problem
    rows, columns = extent(problem, nest.tail[-1:]), extent(problem, (str(nest.vector),))
    item, lanes = itemsize(problem, access), wide_lanes(nest) or nest.lanes
    lines, tiles, copy = nest.cpu.lines(columns * item), -(-columns // lanes), nest.panel * lanes * item
    near = copy <= nest.cpu.first_cache_bytes
    # Every segment, one for each entry of the level above, is continued once in each of the ⌈rows / panel⌉ panels.
    walked = (entries[-2] if len(entries) > 1 else 1.0) * -(-rows // nest.panel)
    added = walked * (
        tiles * (nest.cpu.panel_segment if near else nest.cpu.far_panel_segment)
        + nest.cpu.memory * columns / nest.cpu.lane_speedup
    )
    line = nest.cpu.gather(copy) + (0.0 if near else nest.cpu.far_panel_line)
    return nest.cpu.panel_line * rows * lines + added + entries[-1] * lines * line


def wide_lanes(nest: Summary) -> int:
    """Return the number of lanes of a wide tile, which the kernel uses in runs with few threads; 0 without wide tiles.

    The loop over wide tiles stands outside of all loops over patterns. Without panels, wide tiles have as many lanes as
    fit the registers. If rows are copied for panels, wide tiles pay only if the nearest cache cannot hold the copy.
    There are fewer wide tiles than narrow tiles, so fewer segments are continued from panel to panel.
    """
    if nest.panel and nest.first("cache_read") is not None:
        wide = nest.panel * nest.lanes * nest.itemsize > nest.cpu.first_cache_bytes
        most = nest.cpu.wide_tile_bytes // nest.itemsize if wide else 0
    else:
        most = (
            (nest.cpu.tile_bytes if nest.copies == 1 else nest.cpu.jam_tile_bytes) // nest.itemsize
            if nest.tiles_outermost
            else 0
        )
    return most if nest.lanes < most <= (nest.problem.size[str(nest.vector)] or 0) else 0


def _cost_of_visits(nest: Summary, walked: TripCounts) -> float:
    """The cost of all iterations of loops over patterns. Dense loops around some of these loops repeat them."""
    iterations = walked.iterations
    is_once = nest.sums_tail_first or not nest.tail
    around = 1.0 if is_once else extent(nest.problem, nest.free_dense_vars) / nest.passes_saved
    heads, tail = sum(iterations[: len(nest.head)]), sum(iterations[len(nest.head) :])
    if nest.tiles_outermost:
        heads *= _tiles(nest)
    tail *= _times_summed(nest)
    return extent(nest.problem, nest.batch) * (
        nest.cpu.visit * (heads + tail * around) + _cost_of_segment_starts(nest, walked) * around
    )


def _cost_of_segment_starts(nest: Summary, walked: TripCounts) -> float:
    """The cost of the branches at the starts and ends of segments; 0 if the arithmetic of sums in lanes hides it."""
    # The innermost loop with branches: a segment with exactly one entry needs none.
    last = max((n for n, is_single in enumerate(walked.single) if not is_single), default=0)
    if not last or (nest.vector is not None and not nest.scatters):
        return 0.0
    # A segment in use has an entry above it, an entry in it, and a tuple of coordinates above: three upper bounds.
    segments = min(*walked.entries[last - 1 : last + 1], extent(nest.problem, nest.walk[:last]))
    segments *= _tiles(nest) if nest.tiles_outermost else 1
    return (nest.cpu.scattered_segment if nest.scatters else nest.cpu.segment) * segments


def _tiles(nest: Summary) -> int:
    """The number of register tiles."""
    return -(-extent(nest.problem, (nest.vector,)) // nest.lanes) if nest.vector else 1


def _times_summed(nest: Summary) -> int:
    """Return how often a precomputed sum over stored entries is computed: once, or once for each register tile."""
    return _tiles(nest) if tiles_among_sums(nest) == "outside" else 1


def _cost_of_scattering(nest: Summary, entries: Sequence[float]) -> float:
    """The cost of the target's cache lines to which sums are scattered: each line is read, and written back."""
    if not nest.scatters or nest.vector not in nest.free_vars:
        return 0.0
    problem, leaf = nest.problem, entries[-1] if entries else 1.0
    rows = (*(v for v in nest.walk if v in nest.free_vars), *indices_beside_lanes(nest, problem.target))
    columns, item = extent(problem, (str(nest.vector),)), itemsize(problem, problem.target)
    row = nest.cpu.lines(columns * item) * line_cost(nest, columns, item, extent(problem, rows))
    return 2 * leaf * extent(problem, nest.free_dense_vars) * row


def _cost_of_storing_tiles(nest: Summary, entries: Sequence[float]) -> float:
    """The cost of the target's cache lines if the loop over tiles is outside of all loops over patterns; else 0.

    The loops then store one tile of every row before the next tile of any row. Tiles that are stored one after the
    other lie far apart in memory, so each line is read before it is written.
    """
    if not nest.tiles_outermost or nest.scatters:
        return 0.0
    problem, target = nest.problem, nest.problem.target
    columns, item = extent(problem, (str(nest.vector),)), itemsize(problem, target)
    rows, size = entries[len(nest.head) - 1], extent(problem, target.variables()) * item
    return 2 * rows * nest.cpu.lines(columns * item) * nest.cpu.gather(size)


def _panel_sums(nest: Summary, entries: Sequence[float]) -> float:
    """The cost of the sums of panels of positions, which are added to the target in memory."""
    if not nest.position_panel:
        return 0.0
    written = extent(nest.problem, [v for v in nest.dense if v in nest.free_vars])
    tiles = written / max(nest.lanes * nest.copies, 1)
    stores = 2 * nest.cpu.memory * written / nest.cpu.lane_speedup
    return entries[-1] / nest.position_panel * (stores + nest.cpu.segment * tiles)


def _target_traffic(nest: Summary, patterns: tuple[Stored, ...], entries: Sequence[float]) -> float:
    """The cost of storing the target's elements, or of changing them in memory, and of clearing them."""
    problem = nest.problem
    written = extent(problem, tuple(v for v in nest.dense if v in nest.free_vars))
    heads, leaf = entries[: len(nest.head)], entries[-1] if entries else 1.0
    stores = (heads[-1] if heads else 1.0) * written
    if nest.scatters:
        stores = max(stores, leaf * written) * nest.cpu.memory
    elif tiles_among_sums(nest) == "inside":
        stores = (
            (entries[-1 - len(nest.precompute_loops)] if len(entries) > len(nest.precompute_loops) else 1.0)
            * written
            * nest.cpu.memory
        )
    # A dense target is cleared first if sums are added to it in memory, or if loops skip some of its elements.
    sparse = problem.type_of[problem.target.tensor].positions is None and (nest.scatters or _skips(nest, patterns))
    clears = nest.cpu.clear * extent(problem, problem.target.variables()) if sparse else 0.0
    return stores / (nest.cpu.lane_speedup if nest.vector in nest.free_vars else 1.0) + clears


def _skips(nest: Summary, patterns: tuple[Stored, ...]) -> bool:
    """Whether some of the target's coordinates are not visited because no pattern stores them."""
    if not patterns:
        return False
    outermost = patterns[0].format.levels[:1]
    return len(nest.head) > 1 or any(not level.kind.is_full for level in outermost)
