"""The last steps of a schedule, which follow from its other steps.

They are about registers, threads, prefetching and the accuracy of sums. Long sums of float32 are computed in blocks.
Sums over a static pattern's segments need no blocks if all segments are short.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from math import inf, prod

import numpy as np

from jsparse.base.memo import memoize
from jsparse.compiler.problem import Dense, Problem
from jsparse.compiler.schedule.layout import AnyPattern
from jsparse.compiler.schedule.prices.cost import Cost, grain_of, savings_by_lanes, sharing, wide_lanes
from jsparse.compiler.schedule.prices.gathers import extent
from jsparse.compiler.schedule.races import longest_run, may_be_heavy, work_of_copies
from jsparse.compiler.schedule.search.prefetching import prefetching
from jsparse.compiler.schedule.summary import Summary, Transformation
from jsparse.compiler.schedule.transformations.merge_by import MergeBy
from jsparse.compiler.schedule.transformations.parallelize import Parallelize, Race
from jsparse.compiler.schedule.transformations.precompute import tiles_among_sums
from jsparse.compiler.schedule.transformations.promote import Promote
from jsparse.compiler.schedule.transformations.scatter import ScatterSegment
from jsparse.compiler.schedule.transformations.specialize import Specialize
from jsparse.compiler.schedule.transformations.unroll_and_jam import UnrollAndJam
from jsparse.compiler.schedule.transformations.vectorize import Vectorize
from jsparse.compiler.schedule.transformations.widen import MOST_TERMS, Widen
from jsparse.compiler.schedule.trip_counts import UNKNOWN, TripCounts
from jsparse.formats import Pattern
from jsparse.formats.levels import is_single
from jsparse.notation.assignment import IndexVar

FEWEST = 4  # the fewest coordinates of a dense index whose sums are folded together
LEAST = 0.05  # the multiply-adds to save for each entry: the code for lanes takes LLVM some 10 ms


def position_lanes(nest: Summary, patterns: Sequence[AnyPattern]) -> Vectorize | None:
    """Return the step that works on several positions or coordinates of a loop at a time; None if it does not pay.

    It pays if segments are long enough (`cost.savings_by_lanes`).

    Args:
        nest: the nest after all other decisions, over the problem that is compiled.
        patterns: the patterns of this problem.
    """
    if nest.problem.is_assembly or not nest.order:
        return None
    problem, cpu = nest.problem, nest.cpu
    # Sums over an index in lanes, at several coordinates of a dense index, are reduced to scalars together: over the
    # heads of a sampled product, for example.
    dense = next((name for name in reversed(nest.loops) if name not in nest.outer), None)
    if dense is not None and nest.level_walked_by(dense) is None and nest.folds_lanes_at(dense):
        size = problem.size[dense] or 0
        joint = Vectorize(dense, min(cpu.position_lanes, 1 << max(size.bit_length() - 1, 0)))
        if size >= FEWEST and joint.check(nest) is None:
            return joint
    # Else a loop over a pattern works on several positions: one that reduces lanes to a scalar in each iteration, or
    # the innermost loop that has several iterations.
    names = nest.precompute_loops if nest.sums_entries_first else nest.order
    folds = (name for name in nest.walk if name in nest.loops and nest.folds_lanes_at(name))
    loop = next(folds, next((name for name in reversed(names) if name not in nest.single), names[-1]))
    step = Vectorize(loop, cpu.position_lanes)
    if step.check(nest) is not None:
        return None
    walked = nest.level_walked_by(loop)
    assert walked is not None
    number, level = walked.pattern, len(walked.above)
    steps, segments = _steps(problem, patterns[number], number, level)
    if loop in nest.free_vars:
        if steps > segments:
            is_long = steps >= cpu.wide_position_steps * segments
            return Vectorize(loop, cpu.wide_position_lanes) if is_long else step
        # Without lanes, each entry of a dynamic pattern takes a branch, and its results are cleared before (`Clear`).
        return None if isinstance(patterns[number], Pattern) else step
    located = frozenset(problem.level_variables[number][level:])
    gathers = [a for a in nest.factors if problem.type_of[a.tensor].positions is None and located & {*a.variables()}]
    saved = savings_by_lanes(cpu, steps, segments, cpu.position_lanes, len(gathers))
    return step if saved > LEAST * patterns[number].nse else None


def _steps(problem: Problem, pattern: AnyPattern, number: int, level: int) -> tuple[float, float]:
    """Return the number of steps with full lanes in a level's segments, and the number of segments with such a step.

    Segments of unknown length are assumed to have the average length. The rest of a segment after its steps with full
    lanes is assumed to fill half of the lanes.
    """
    kind, sizes = pattern.format.levels[level].kind, pattern.level_sizes
    if isinstance(pattern, Pattern) and kind.has_pointers:
        return _count_full_steps(pattern, problem.cpu.position_lanes)[level]
    above = sizes[level - 1] if level else 1
    if kind.is_branchless:  # the segments are runs of equal coordinates
        above = min(above, prod(problem.size[name] or UNKNOWN for name in problem.level_variables[number][:level]))
    steps = max(sizes[level] / problem.cpu.position_lanes - above / 2, 0.0)
    return steps, min(steps, above)


@memoize(maxsize=64)
def _count_full_steps(pattern: Pattern, lanes: int) -> tuple[tuple[int, int], ...]:
    """Return what `_steps` returns for each level: steps with full lanes, and segments with such a step."""
    has_pointers = [level.kind.has_pointers for level in pattern.format.levels]
    steps = [np.diff(pattern.pointers(n)) // lanes if has else np.zeros(0, int) for n, has in enumerate(has_pointers)]
    return tuple((int(of_level.sum()), int(np.count_nonzero(of_level))) for of_level in steps)


# the minimum number of entries of a chunk that lists its terms: it writes to a list for each range
BINNED_GRAIN = 1 << 13
SHORT = 64  # a segment of at most this many entries is one block (BLOCK of `loops.blocked_sums`)


def finalize(
    nest: Summary, cost: Cost, patterns: Sequence[AnyPattern], counts: TripCounts, alone: bool = True
) -> Summary:
    """Add the last steps of the schedule to the nest. Steps that a user has given stay; only a missing grain is added.

    Args:
        nest: the nest over the problem that is compiled.
        cost: the estimated cost of the nest.
        patterns: the patterns of the problem that is compiled.
        counts: the trip counts of the nest's loops over patterns.
        alone: whether no other statement shares the nest's loops. Shared loops get no step here that divides them over
            threads, because one step divides them for all statements.
    """
    # The order of steps matters. A map fixes sums and lookups, so `promote` and `merge_by` come before `scatter`.
    # Race strategy `split` needs sums in registers, so `parallelize` comes after `promote`. `interleaving` asks whether
    # the nest prefetches, and lanes of positions ask about all other steps.
    asked = {step.loop for step in nest.steps_with("merge_by")}
    leaders = [(var, n, nest.level_walked_by(var)) for var, n in counts.merge_leaders if var not in asked]
    # A loop that walks the leader's level anyway needs no step.
    nest = _with(nest, (MergeBy(var, f"P{n}") for var, n, walked in leaders if walked is None or walked.pattern != n))
    if nest.first("promote") is None and not nest.problem.is_assembly and nest.reduces_innermost:
        nest = _with(nest, [Promote()])
    nest = _with(nest, (ScatterSegment(f"P{n}.{level}") for n, level in counts.scattered))
    nest = _with(nest, (Specialize("segments", f"P{n}.{level}") for n, level in _short_levels(nest.problem, patterns)))
    in_memory = nest.scatters or tiles_among_sums(nest) == "inside"
    scattered = in_memory and not nest.panel and _scatters_many(nest.problem, patterns)
    # A float32 sum in memory is rounded with each term, or with each panel: if these are many, it is made in float64.
    if alone and (scattered or nest.position_panel):
        # A copy that does not fit the cache costs more time than sums in lanes, where one count serves many elements.
        is_small = nest.position_panel or 8 * _elements(nest.problem, patterns) <= nest.cpu.second_cache_bytes
        nest = _with(nest, [Widen(0 if is_small or nest.vector is None else MOST_TERMS)])
    if alone:
        nest = _parallel(nest, cost, patterns, counts.entries_above(0))
    nest = _with(nest, prefetching(nest, patterns, alone))
    nest = _with(nest, interleaving(nest, patterns))
    lanes = position_lanes(nest, patterns)
    return nest if lanes is None else nest.then(lanes)


def _with(nest: Summary, steps: Iterable[Transformation]) -> Summary:
    """Apply the steps that are legal to a nest, and leave illegal steps out."""
    for step in steps:
        nest = nest.then(step) if step.check(nest) is None else nest
    return nest


def _parallel(nest: Summary, cost: Cost, patterns: Sequence[AnyPattern], entries: float) -> Summary:
    """Add the steps that divide a loop over threads, and that widen register tiles in runs with few threads."""
    work = cost.work + cost.iterations + cost.target
    shared = sharing(nest, entries, work)
    if shared is None:
        is_large = nest.loops and work >= nest.cpu.shared_chunks * nest.cpu.chunk_work
        return _with(nest, [Parallelize(nest.loops[0], "binned", BINNED_GRAIN)] if is_large else [])
    loop, race = shared
    grain = _grain(nest, cost, loop, race, patterns)
    if nest.first("parallelize") is not None:
        steps = (replace(s, grain=s.grain or grain) if isinstance(s, Parallelize) else s for s in nest.steps)
        return replace(nest, steps=tuple(steps))
    if (wide := wide_lanes(nest)) and loop == nest.tile_loop:
        nest = _with(nest, [Specialize("threads", loop, wide)])
    # As in merge-path SpMV (Merrill and Garland, 2016), threads divide entries instead of rows if a row may be long: if
    # the entries fill more than two chunks, and one segment may have more than half of a chunk's share of them.
    is_heavy = race == "owned" and len(patterns) == 1 and patterns[0].nse > 2 * grain and may_be_heavy(patterns[0])
    split = Parallelize(loop, "split", grain)
    return nest.then(split) if is_heavy and split.check(nest) is None else _with(nest, [Parallelize(loop, race, grain)])


def _grain(nest: Summary, cost: Cost, loop: str, race: Race, patterns: Sequence[AnyPattern]) -> int:
    """Return the least size of a chunk, in stored entries or in iterations of a dense loop. The work of such a chunk
    pays for waking a thread, and for a copy of the target if each chunk has one."""
    looped, work = cost.work + cost.iterations, cost.work + cost.iterations + cost.target
    # Each chunk has a copy of the target, so its work has to be worth the copy; else one chunk has all of the work.
    if race == "reduced" and nest.scatters and loop in nest.walk:
        entries = max(pattern.nse for pattern in patterns)
        return grain_of(entries, work, max(nest.cpu.chunk_work, min(work_of_copies(nest), work)))
    inside = [v for v in nest.order if loop in nest.precompute_loops or v not in nest.precompute_loops]
    if inside and inside[0] in nest.walk:
        inner = 1 if nest.sums_tail_first else extent(nest.problem, nest.dense)
        # An entry is taken as 1 + inner / 8 multiply-adds of work: the entry itself, and `inner` elements in 8 lanes.
        least = max(1, round(nest.cpu.chunk_work / (1 + inner / 8)))
        # A grain that does not depend on the number of entries gives patterns of all sizes the same kernel.
        if len(patterns) == 1 or looped < 2 * nest.cpu.chunk_work:
            return least
        return min(least, grain_of(max(x.nse for x in patterns), looped, nest.cpu.chunk_work))
    return grain_of(extent(nest.problem, inside[:1]), work, nest.cpu.chunk_work)


def interleaving(nest: Summary, patterns: Sequence[AnyPattern]) -> Iterator[UnrollAndJam]:
    """Yield the step that adds several stored entries at a time to sums in registers, if it pays.

    An addition to a vector register takes about four cycles, and the next addition to this register has to wait. In the
    meantime, two registers can be loaded in each cycle. So if a near cache holds rows of one or two registers, the loop
    adds two stored entries at a time, each to registers of its own. This does not pay if the loop prefetches, because
    the loop then waits for memory and not for additions.
    """
    in_registers = nest.first("promote") is not None and nest.vector in nest.free_vars and nest.reduces_innermost
    if not in_registers or nest.first("prefetch") is not None or nest.lanes * nest.itemsize > nest.cpu.jam_tile_bytes:
        return
    innermost = nest.loops[-1]
    walked = nest.level_walked_by(innermost)
    if walked is not None and innermost not in nest.free_vars and patterns:
        above, stored = (1, *patterns[walked.pattern].level_sizes)[len(walked.above) :][:2]
        if stored >= nest.cpu.interleaved_entries * above:  # the quotient is the mean length of the level's segments
            yield UnrollAndJam(innermost, nest.cpu.interleaved_lanes)


def _short_levels(problem: Problem, patterns: Sequence[AnyPattern]) -> Iterator[tuple[int, int]]:
    """Yield pairs (pattern, level): the levels over summed indices whose segments have at most `SHORT` entries each.

    The result lacks outermost levels, and levels whose index has at most `SHORT` coordinates. It is empty for sums that
    are not computed in blocks. `problem` is the problem that is compiled, and `patterns` are its patterns.
    """
    if not _sums_floats(problem):
        return
    for n, (names, pattern) in enumerate(zip(problem.level_variables, patterns, strict=True)):
        if not isinstance(pattern, Pattern):
            continue
        for level, var in enumerate(names[1:], 1):
            size = problem.size[var]
            is_long = var not in problem.free_vars and (size is None or size > SHORT)
            if is_long and 0 <= _longest_segments(pattern)[level] <= SHORT:
                yield n, level


def _scatters_many(problem: Problem, patterns: Sequence[AnyPattern]) -> bool:
    """Whether an element of the target may sum more than `SHORT` terms.

    If exactly one level of a static pattern has an index variable of the target, the pattern's index arrays bound the
    number of terms. Any other summed index may add a term for each of its coordinates.
    """
    if not _sums_floats(problem):
        return False
    most, bounded = 1, set[IndexVar]()
    for names, pattern in zip(problem.level_variables, patterns, strict=True):
        free = [level for level, name in enumerate(names) if name in problem.free_vars]
        if len(free) == 1 and isinstance(pattern, Pattern) and len(set(names)) == len(names):
            most *= _most_of_coordinate(pattern, free[0])
            bounded.update(names)
    summed = (v for v in problem.assignment.variables() if v not in problem.free_vars and v not in bounded)
    sizes = [problem.size[v] for v in summed]
    return None in sizes or most * prod(size or 0 for size in sizes) > SHORT


def _elements(problem: Problem, patterns: Sequence[AnyPattern]) -> float:
    """The number of the target's elements; infinity if a size is unknown."""
    count = 1.0
    for axis in problem.tensors[0].axes:
        if isinstance(axis, Dense):
            size = problem.size.get(str(problem.target.indices[axis.dim]))
        else:
            size = patterns[axis.pattern].nse
        count *= inf if size is None else size
    return count


def _sums_floats(problem: Problem) -> bool:
    return not problem.is_assembly and problem.accumulator == "float32" and problem.statements[0].add == "+"


@memoize(maxsize=64)
def _most_of_coordinate(pattern: Pattern, level: int) -> int:
    """The largest number of entries that share a coordinate of one level."""
    coordinates = pattern.to_coords()[pattern.format.order[level]]
    return int(np.unique(coordinates, return_counts=True)[1].max(initial=0))


@memoize(maxsize=64)
def _longest_segments(pattern: Pattern) -> tuple[int, ...]:
    """Return the length of each level's longest segment; -1 for levels whose longest segment is not computed."""
    longest: list[int] = []
    for n, level in enumerate(pattern.format.levels):
        if level.kind.has_pointers:
            longest.append(int(np.diff(pattern.pointers(n)).max(initial=0)))
        elif is_single(pattern.format.levels, n):
            longest.append(1)
        elif n == 1 and level.kind.is_branchless:
            longest.append(longest_run(pattern.coordinates(0)))
        else:
            longest.append(-1)
    return tuple(longest)
