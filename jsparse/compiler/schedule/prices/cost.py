"""The cost model of nests, in units of about one scalar multiply-add.

The model counts the quantities that differ between loop orders: iterations, arithmetic inside and outside of vector
lanes, the target's memory traffic, values permuted to another storage order, and whether threads can share the work.
Counts of stored entries are exact for a pattern that is walked as stored. For a pattern that is walked in another
order, they are upper bounds, which follow from nse and the sizes.

The parts of a cost are added up. The roofline model takes the greater one of arithmetic and memory traffic instead
(Williams et al., 2009). Here, the price of a missed cache line is the time that it adds to a product whose rows are in
the nearest cache (`CpuModel`), because a gathered line comes too late for the arithmetic that waits for it.
"""

from __future__ import annotations

from math import inf, log2
from typing import NamedTuple

from jsparse.compiler.cpu_model import CpuModel
from jsparse.compiler.loops.nest import MAX_CHUNKS
from jsparse.compiler.schedule.layout import AnyPattern
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


def grain_of(total: int, work: float, least: float, most: int | None = None) -> int:
    """Return the size of the smallest chunk whose work is at least `least`, so that waking a thread for it pays.

    The size is a power of two, so that patterns with similar numbers of entries share one kernel.

    Args:
        total: the number of stored entries or iterations of the whole loop. The size of a chunk is in the same unit.
        work: the work of the whole loop.
        most: the upper limit of the size before it is rounded up (default: `total`). A chunk of this size is the whole
            loop.
    """
    # The work of a part is work · part / total: it is `least` for part = total · least / work, rounded up to 2**n.
    part = max(1, min(total if most is None else most, round(total * least / max(work, 1.0))))
    return 1 << (part - 1).bit_length()


def weight_of_level(pattern: AnyPattern, level: int, size: int | None) -> int:
    """Return the weight of an outermost level: an upper bound of its number of positions, plus the entries below them.

    A kernel divides a loop into chunks of equal weight. A position weighs as much as an entry, so that neither empty
    rows nor long ones make a chunk that is much larger than others (merge-path SpMV, Merrill and Garland, 2016).

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
    asked = nest.first("parallelize")
    if asked is not None:
        return asked.loop, asked.race
    if not nest.loops:
        return None
    if nest.problem.is_assembly:
        return nest.loops[0], "owned"
    loops, free_vars = [name for name in nest.loops if name not in nest.precompute_loops], nest.free_vars
    sum_outermost, tiles_first = nest.loops[0] in nest.precompute_loops, loops[:1] == [nest.tile_loop]
    # If the outermost loop runs over tiles of a small index around a sum, threads divide the sum instead.
    around_sum = tiles_first and len(loops) > 1 and not (nest.panel or nest.tiles_outermost or nest.head)
    is_small_tiling = around_sum and extent(nest.problem, (str(nest.vector),)) < 1024
    owned = loops and free_vars.issuperset(nest.variables_of(loops[0])) and not is_small_tiling
    if owned and loops[0] in nest.outer and nest.scatters and _tiles(nest) == 1:  # one tile cannot be divided
        return None
    if owned and (not sum_outermost or extent(nest.problem, nest.dense) > entries):
        return loops[0], "owned"
    if sum_outermost:
        return nest.loops[0], "reduced"
    outermost = loops[1] if tiles_first and loops[1:] else loops[0]
    if outermost in nest.outer or outermost in nest.fusions or outermost in free_vars:
        return None
    # If loops inside run over the target, one accumulator per chunk is too few: each chunk needs a copy of the target.
    # It pays if the work of at least two chunks pays for their copies.
    inside = (nest.variables_of(name) for name in loops[loops.index(outermost) :])
    if any(not free_vars.isdisjoint(variables) for variables in inside):
        pays = work >= 2 * nest.cpu.chunk_work and work >= 2 * work_of_copies(nest)
        return (outermost, "reduced") if pays and copies_reason(nest, outermost) is None else None
    return outermost, "reduced"


class Prices:
    """Prices of the candidates of one problem. Costs that candidates have in common are computed once.

    Attributes:
        patterns: the problem's patterns.
    """

    def __init__(self, patterns: tuple[AnyPattern, ...]) -> None:
        self.patterns = patterns
        self._by_walk: dict[tuple[IndexVar, ...], tuple[TripCounts, float]] = {}
        self._by_vector: dict[IndexVar | None, tuple[list[GatheredRows], float]] = {}

    def trip_counts(self, nest: Summary) -> TripCounts:
        return self._of_walk(nest)[0]

    def _of_walk(self, nest: Summary) -> tuple[TripCounts, float]:
        """The trip counts of a candidate's loops over patterns, and the cost of permuting values into their order."""
        if nest.walk not in self._by_walk:
            counts = trip_counts(nest.problem, nest.walk, self.patterns)
            self._by_walk[nest.walk] = counts, permutation_cost(nest, self.patterns)
        return self._by_walk[nest.walk]

    def _of_vector(self, nest: Summary) -> tuple[list[GatheredRows], float]:
        """The dense factors from which a candidate gathers rows, if it has a variable in lanes, and the cost of
        transposing dense tensors, so that they store this variable innermost."""
        if nest.vector not in self._by_vector:
            rows = [] if nest.vector is None else list(find_row_gathers(nest))
            self._by_vector[nest.vector] = rows, transposition_cost(nest)
        return self._by_vector[nest.vector]

    def least(self, probe: Summary) -> float:
        """A lower bound of the prices of all candidates with the probe's order of the patterns' variables and the
        probe's variable in lanes.

        The bound counts each iteration and each multiply-add once, and adds the least memory traffic of the target. It
        also holds in floating point: it is computed by the same operations as prices, from numbers that are not larger.
        """
        if 0 in probe.problem.size.values():  # an empty loop around others makes them cheaper
            return 0.0
        counts, permuting = self._of_walk(probe)
        heads, tail = counts.iterations[: len(probe.head)], counts.iterations[len(probe.head) :]
        leaf = counts.entries_above(0)
        work = leaf if loops_to_precompute(probe) else leaf * extent(probe.problem, probe.dense)
        # In `_work`, rows in common save the factor `jammed` at most, lanes `lane_speedup`, and waiting saves nothing.
        work *= 1 if probe.vector is None else probe.cpu.jammed / probe.cpu.lane_speedup
        visits = probe.cpu.visit * extent(probe.problem, probe.batch) * (sum(heads) + sum(tail))
        return work + visits + _target_traffic(probe, self.patterns, counts) + (permuting + self._of_vector(probe)[1])

    def of(self, nest: Summary) -> Cost:
        """The price of a candidate."""
        # No part is negative. So `least`, which leaves some of them out, is a lower bound.
        (counts, permuting), (rows, transposing) = self._of_walk(nest), self._of_vector(nest)
        gathers = cost_of_strides(nest, counts)
        if nest.vector is not None and nest.panel and nest.only_row_factor is not None:
            gathers += _panels(nest, nest.only_row_factor, counts)
        else:
            in_lanes = sum([factor.cost(nest, counts) for factor in rows if factor.in_lanes])
            gathers += in_lanes + sum([factor.cost(nest, counts) for factor in rows if not factor.in_lanes])
        work, visits = _work(nest, counts) + gathers, _cost_of_visits(nest, counts)
        target = _target_traffic(nest, self.patterns, counts) + _cost_of_far_lines(nest, counts)
        target += _panel_sums(nest, counts)
        moves, running = permuting + transposing, work + visits + target
        shared = sharing(nest, work=running)
        if shared is not None and shared[1] == "reduced" and nest.scatters:
            # Each chunk has a copy of the target. The grain gives it at least so much work (`finalize._grain`).
            chunks = min(MAX_CHUNKS, running / max(nest.cpu.chunk_work, work_of_copies(nest)))
            copying = nest.cpu.target_copy * chunks * count_target_elements(nest)
            target, running = target + copying, running + copying
        # Serial work costs more, by a factor that grows with the work: up to `serial`, where it would fill all chunks.
        # Moves run before and after the kernel, whether it is serial or not.
        filled = min(running / nest.cpu.chunk_work / nest.cpu.shared_chunks, 1.0)
        waits = 1.0 + (nest.cpu.serial - 1.0) * filled if shared is None else 1.0
        return Cost(running * waits + moves, work, visits, target, moves, shared is None)


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


def _work(nest: Summary, counts: TripCounts) -> float:
    """Return the cost of the multiply-adds, which is lower in vector lanes.

    A sum that is computed first saves products: Σ (a·b) = (Σ a)·b takes one product with b for each sum, instead of one
    for each entry (workspaces, Kjolstad et al., 2019).
    """
    # Without a sum that is computed first, each of the `leaf` tuples of entries takes a multiply-add at each coordinate
    # of the dense variables. `inner` factors in lanes have the innermost summed variable, and `outer` ones lack it.
    leaf, dense = counts.entries_above(0), extent(nest.problem, nest.dense)
    inner, outer = nest.inner_lanes if nest.saves_in_lanes else (0, 0)
    if nest.sums_tail_first:  # scalar sums over the tail; then each is multiplied in at all dense coordinates
        work = leaf + counts.entries_above(len(nest.tail)) * dense
    elif nest.sums_entries_first:
        # `sums` is the number of sums. Factors with the summed variable multiply each entry, the others each sum.
        sums = counts.entries_above(len(nest.precompute_loops))
        if nest.sums_in_lanes:
            work = (leaf * max(inner, 1) + sums * max(outer, 1)) * dense
        else:  # loops over dense indices of the target enclose the sum
            terms = leaf * extent(nest.problem, nest.free_dense_vars) * _times_summed(nest)
            work = terms + sums * max(outer, 1) * dense
    else:
        work = leaf * max(inner + outer, 1) * dense
    if nest.precompute_loops and not nest.sums_entries_first:
        # Sums over dense indices are multiplied by the other factors.
        work += leaf * _count_written(nest)
    work *= nest.cpu.jammed if nest.shares_rows else 1.0
    work /= nest.cpu.lane_speedup if nest.vector is not None else 1.0
    if nest.vector not in nest.free_vars or not nest.scalar_reductions:
        return work
    # Each addition to an accumulator waits for the previous one. In the meantime, the processor adds to others:
    # `tile_bytes` of accumulators keep it busy, and with a fraction of them, a sum takes 1 / fraction as long. A short
    # sum overlaps with the next one.
    waiting = nest.cpu.tile_bytes / (nest.lanes * nest.itemsize * nest.copies)
    return work * max(1.0, min(waiting, extent(nest.problem, nest.scalar_reductions) / nest.cpu.overlapped_entries))


def _panels(nest: Summary, access: Access, counts: TripCounts) -> float:
    """Return the cost of copying rows for panels, of reading the copies, and of adding each panel's sums in memory.

    Rows are packed as in dense products (Goto and van de Geijn, 2008). A copy pays for itself if entries read it often.
    """
    problem = nest.problem
    rows, columns = extent(problem, nest.tail[-1:]), extent(problem, (str(nest.vector),))
    item, lanes = itemsize(problem, access), wide_lanes(nest) or nest.lanes
    lines, tiles, copy = nest.cpu.lines(columns * item), -(-columns // lanes), nest.panel * lanes * item
    near = copy <= nest.cpu.first_cache_bytes
    # Every segment, one for each entry of the level above, is continued once in each of the ⌈rows / panel⌉ panels.
    continued = counts.entries_above(1) * -(-rows // nest.panel)
    segment = nest.cpu.panel_segment if near else nest.cpu.far_panel_segment
    added = continued * (tiles * segment + nest.cpu.memory * columns / nest.cpu.lane_speedup)
    line = nest.cpu.gather(copy) + (0.0 if near else nest.cpu.far_panel_line)
    return nest.cpu.panel_line * rows * lines + added + counts.entries[-1] * lines * line


def wide_lanes(nest: Summary) -> int:
    """Return the number of lanes of a wide tile, which the kernel uses in runs with few threads; 0 without wide tiles.

    The loop over wide tiles is outside all loops over patterns. Without panels, wide tiles have as many lanes as fit
    the registers. If rows are copied for panels, wide tiles pay only if the nearest cache cannot hold the copy. There
    are fewer wide tiles than narrow tiles, so fewer segments are continued from panel to panel.
    """
    if nest.panel and nest.first("cache_read") is not None:
        is_far = nest.panel * nest.lanes * nest.itemsize > nest.cpu.first_cache_bytes
        tile_bytes = nest.cpu.wide_tile_bytes if is_far else 0
    elif nest.tiles_outermost:
        tile_bytes = nest.cpu.tile_bytes if nest.copies == 1 else nest.cpu.jam_tile_bytes
    else:
        return 0
    lanes = tile_bytes // nest.itemsize
    return lanes if nest.lanes < lanes <= (nest.problem.size[str(nest.vector)] or 0) else 0


def _cost_of_visits(nest: Summary, counts: TripCounts) -> float:
    """The cost of all iterations of loops over patterns, and of the branches at the starts and ends of segments. Dense
    loops around some of these loops repeat them."""
    # Dense loops over the target enclose the tail, and repeat its loops: once in each iteration or, if several
    # iterations run at a time, once for all of these.
    is_once = nest.sums_tail_first or not nest.tail
    around = 1.0 if is_once else extent(nest.problem, nest.free_dense_vars) / nest.passes_saved
    heads, tail = sum(counts.iterations[: len(nest.head)]), sum(counts.iterations[len(nest.head) :])
    tiles_around = _tiles(nest) if nest.tiles_outermost else 1
    iterations = heads * tiles_around + tail * _times_summed(nest) * around
    # The innermost loop with branches: a segment with exactly one entry needs none. Arithmetic in lanes hides them.
    last = max((n for n, is_single in enumerate(counts.single) if not is_single), default=0)
    branches = 0.0
    if last and (nest.vector is None or nest.scatters):
        # A segment in use has an entry above it, an entry in it, and a tuple of coordinates above: three upper bounds.
        segments = min(*counts.entries[last - 1 : last + 1], extent(nest.problem, nest.walk[:last])) * tiles_around
        branches = (nest.cpu.scattered_segment if nest.scatters else nest.cpu.segment) * segments
    return extent(nest.problem, nest.batch) * (nest.cpu.visit * iterations + branches * around)


def _count_written(nest: Summary) -> int:
    """The number of the target's elements at the coordinates of one tuple of entries."""
    return extent(nest.problem, [v for v in nest.dense if v in nest.free_vars])


def _tiles(nest: Summary) -> int:
    """The number of register tiles."""
    return -(-extent(nest.problem, (nest.vector,)) // nest.lanes) if nest.vector else 1


def _times_summed(nest: Summary) -> int:
    """Return how often a precomputed sum over stored entries is computed: once, or once for each register tile."""
    return _tiles(nest) if tiles_among_sums(nest) == "outside" else 1


def _cost_of_far_lines(nest: Summary, counts: TripCounts) -> float:
    """The cost of the target's cache lines that are read and written back, because they have left the near caches.

    Sums that are scattered change a line anywhere in the target. If the loop over tiles is outside of all loops over
    patterns, one tile of every row is stored before the next tile of any row: tiles that are stored one after the other
    are far apart in memory.
    """
    problem, target = nest.problem, nest.problem.target
    if nest.vector not in nest.free_vars or not (nest.scatters or nest.tiles_outermost):
        return 0.0
    columns, item = extent(problem, (str(nest.vector),)), itemsize(problem, target)
    lines = nest.cpu.lines(columns * item)
    if not nest.scatters:
        rows, size = counts.entries_above(len(nest.tail)), extent(problem, target.variables()) * item
        return 2 * rows * lines * nest.cpu.gather(size)
    rows_at = (*(v for v in nest.walk if v in nest.free_vars), *indices_beside_lanes(nest, target))
    row = lines * line_cost(nest, columns, item, extent(problem, rows_at))
    return 2 * counts.entries_above(0) * extent(problem, nest.free_dense_vars) * row


def _panel_sums(nest: Summary, counts: TripCounts) -> float:
    """The cost of the sums of panels of positions, which are added to the target in memory."""
    if not nest.position_panel:
        return 0.0
    written = _count_written(nest)
    tiles = written / max(nest.lanes * nest.copies, 1)
    stores = 2 * nest.cpu.memory * written / nest.cpu.lane_speedup
    return counts.entries[-1] / nest.position_panel * (stores + nest.cpu.segment * tiles)


def _target_traffic(nest: Summary, patterns: tuple[AnyPattern, ...], counts: TripCounts) -> float:
    """The cost of storing the target's elements, or of changing them in memory, and of clearing them."""
    problem = nest.problem
    # Sums over the tail are in registers, and stored once for each tuple of entries above the tail.
    written = _count_written(nest)
    stores = counts.entries_above(len(nest.tail)) * written
    if nest.scatters:
        stores = max(stores, counts.entries_above(0) * written) * nest.cpu.memory
    elif tiles_among_sums(nest) == "inside":
        stores = counts.entries_above(len(nest.precompute_loops)) * written * nest.cpu.memory
    stores /= nest.cpu.lane_speedup if nest.vector in nest.free_vars else 1.0
    # A dense target is cleared first if sums are added to it in memory, or if loops skip some of its elements: those
    # at coordinates that no pattern stores.
    outermost = patterns[0].format.levels[:1] if patterns else ()
    skips = bool(patterns) and (len(nest.head) > 1 or any(not level.kind.is_full for level in outermost))
    is_dense = problem.type_of[problem.target.tensor].positions is None
    clears = is_dense and (nest.scatters or skips)
    return stores + (nest.cpu.clear * extent(problem, problem.target.variables()) if clears else 0.0)
