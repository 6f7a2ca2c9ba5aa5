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
from jsparse.compiler.loops.domain import LevelIteration
from jsparse.compiler.problem import Dense, Positions, Problem
from jsparse.compiler.schedule.layout import Stored
from jsparse.compiler.schedule.prices.cost import Cost, grain_of, savings_by_lanes, sharing, wide_lanes
from jsparse.compiler.schedule.prices.gathers import extent
from jsparse.compiler.schedule.races import may_be_heavy, work_of_copies
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
from jsparse.notation.assignment import IndexVar

FEWEST = 4  # the fewest coordinates of a dense index whose sums are folded together
LEAST = 0.05  # the multiply-adds to save for each entry: the code for lanes takes LLVM some 10 ms


def position_lanes(nest: Summary, patterns: Sequence[Stored]) -> Vectorize | None:
    """Return the step that works on several positions or coordinates of a loop at a time; None if it does not pay.

    It pays if segments are long enough (`cost.savings_by_lanes`).

    Args:
        nest: the nest after all other decisions, over the problem that is compiled.
        patterns: the patterns of this problem.
    """
    if nest.problem.is_assembly or not nest.order:
        return None
    joint = _joint_coordinates(nest)
    if joint is not None:
        return joint
    loop = _innermost(nest, nest.precompute_loops if nest.sums_entries_first else nest.order)
    step = Vectorize(loop, nest.cpu.position_lanes)
    if step.check(nest) is not None:
        return None
    walked = nest.level_walked_by(loop)
    assert walked is not None
    number, level = walked.pattern, len(walked.above)
    inner = nest.problem.level_variables[number][level:]
    steps, segments = _steps(nest.problem, patterns[number], number, level)
    if loop in nest.free_vars:
        wide = Vectorize(loop, nest.cpu.wide_position_lanes)
        if steps > segments:
            return wide if steps >= nest.cpu.wide_position_steps * segments else step
        # Without lanes, each entry of a dynamic pattern takes a branch, and its results are cleared before (`Clear`).
        return None if isinstance(patterns[number], Pattern) else step
    saved = savings_by_lanes(nest.cpu, steps, segments, nest.cpu.position_lanes, _gathers(nest.problem, inner))
    return step if saved > LEAST * patterns[number].nse else None


def _joint_coordinates(nest: Summary) -> Vectorize | None:
    """Return the step that folds the sums at several coordinates of a dense index together; None if no index allows it.

    Each sum is over an index in lanes, and to fold it is to reduce the lanes to a scalar. In a sampled product with
    heads, the index over the heads allows the step.
    """
    name = next((name for name in reversed(nest.loops) if name not in nest.outer), None)
    if name is None or nest.level_walked_by(name) is not None or not nest.folds_lanes_at(name):
        return None
    size = nest.problem.size[name] or 0
    if size < FEWEST:
        return None
    step = Vectorize(name, min(nest.cpu.position_lanes, 1 << (size.bit_length() - 1)))
    return step if step.check(nest) is None else None


def _innermost(nest: Summary, names: Sequence[str]) -> str:
    """Return the loop over a pattern that reduces lanes to a scalar in each iteration; else the innermost loop of
    `names` that has several iterations."""
    folds = (name for name in nest.walk if name in nest.loops and nest.folds_lanes_at(name))
    several = (name for name in reversed(names) if name not in nest.single)
    return next(folds, next(several, names[-1]))


def _gathers(problem: Problem, variables: Sequence[IndexVar]) -> int:
    """The number of dense tensors that are read at coordinates of these variables."""
    types = problem.type_of
    reads = (access for access in problem.statement.reads if not {*variables}.isdisjoint(access.variables()))
    return sum(not any(isinstance(axis, Positions) for axis in types[access.tensor].axes) for access in reads)


def _steps(problem: Problem, pattern: Stored, number: int, level: int) -> tuple[float, float]:
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
    arrays = dict(zip(pattern.format.arrays, pattern.arrays, strict=True))
    found: list[tuple[int, int]] = []
    for n, level in enumerate(pattern.format.levels):
        steps = np.diff(arrays[n, "pointers"]) // lanes if level.kind.has_pointers else np.zeros(0, np.int64)
        found.append((int(steps.sum()), int(np.count_nonzero(steps))))
    return tuple(found)


BINNED_GRAIN = (
    1 << 13
)  # the least entries of a chunk that lists its terms: it writes to as many lists as there are ranges
SHORT = 64  # a segment of at most this many entries is one block (BLOCK of `loops.blocked_sums`)


def finalize(nest: Summary, cost: Cost, patterns: Sequence[Stored], walked: TripCounts, alone: bool = True) -> Summary:
    """Add the last steps of the schedule to the nest. Steps that a user has given stay; only a missing grain is added.

    Args:
        nest: the nest over the problem that is compiled.
        cost: the estimated cost of the nest.
        patterns: the patterns of the problem that is compiled.
        walked: the trip counts of the nest's loops over patterns.
        alone: whether no other statement shares the nest's loops. Shared loops get no step here that divides them over
            threads, since one step divides them for all statements.
    """
    # The order of steps matters. A map fixes sums and lookups, so `promote` and `merge_by` come before `scatter`.
    # Race strategy `split` needs sums in registers, so `parallelize` comes after `promote`. `interleaving` asks whether
    # the nest prefetches, and lanes of positions ask about all other steps.
    nest = _with(nest, _leading(nest, walked))
    if nest.first("promote") is None and not nest.problem.is_assembly and nest.reduces_innermost:
        nest = _with(nest, [Promote()])
    nest = _with(nest, (ScatterSegment(f"P{n}.{level}") for n, level in walked.scattered))
    nest = _with(nest, (Specialize("segments", f"P{n}.{level}") for n, level in _short_levels(nest.problem, patterns)))
    in_memory = nest.scatters or tiles_among_sums(nest) == "inside"
    scattered = in_memory and not nest.panel and _scatters_many(nest.problem, patterns)
    # A float32 sum in memory is rounded with each term, or with each panel: if these are many, it is made in float64.
    if alone and (scattered or nest.position_panel):
        # A copy that does not fit the cache costs more time than sums in lanes, where one count serves many elements.
        is_small = nest.position_panel or 8 * _elements(nest.problem, patterns) <= nest.cpu.second_cache_bytes
        nest = _with(nest, [Widen(0 if is_small or nest.vector is None else MOST_TERMS)])
    if alone:
        nest = _parallel(nest, cost, patterns, walked.entries[-1] if walked.entries else 1.0)
    nest = _with(nest, prefetching(nest, patterns, alone))
    nest = _with(nest, interleaving(nest, patterns))
    lanes = position_lanes(nest, patterns)
    return nest if lanes is None else nest.then(lanes)


def _leading(nest: Summary, walked: TripCounts) -> list[MergeBy]:
    """Return a `merge_by` step for each merge leader, unless the nest walks it or its loop has such a step already."""
    if not walked.merge_leaders:
        return []
    chosen = {step.loop for step in nest.steps_with("merge_by")}
    led = {(x.var, x.domain.pattern) for _, x in nest.chain if isinstance(x.domain, LevelIteration) and not x.is_lookup}
    new = ((var, n) for var, n in walked.merge_leaders if var not in chosen and (var, n) not in led)
    return [MergeBy(var, f"P{n}") for var, n in new]


def _with(nest: Summary, steps: Iterable[Transformation]) -> Summary:
    """Apply the steps that are legal to a nest, and leave illegal steps out."""
    for step in steps:
        nest = nest.then(step) if step.check(nest) is None else nest
    return nest


def _parallel(nest: Summary, cost: Cost, patterns: Sequence[Stored], entries: float) -> Summary:
    """Add the steps that divide a loop over threads, and that widen register tiles in runs with few threads."""
    given = nest.first("parallelize")
    if given is not None:
        grain = _grain(nest, cost, given.loop, given.race, patterns)
        steps = tuple(replace(s, grain=s.grain or grain) if isinstance(s, Parallelize) else s for s in nest.steps)
        return replace(nest, steps=steps)
    shared = sharing(nest, entries, cost.work + cost.iterations + cost.target)
    if shared is None:
        binned = Parallelize(nest.loops[0], "binned", BINNED_GRAIN) if nest.loops else None
        is_large = cost.work + cost.iterations + cost.target >= nest.cpu.shared_chunks * nest.cpu.chunk_work
        return _with(nest, [binned] if binned is not None and is_large else [])
    loop, race = shared
    grain = _grain(nest, cost, loop, race, patterns)
    wide = wide_lanes(nest)
    nest = _with(nest, [Specialize("threads", loop, wide)] if wide and nest.outer.get(loop) == nest.vector else [])
    # Long segments are divided if the entries fill more than two chunks, and one segment may have more than half of a
    # chunk's share of them.
    if race == "owned" and len(patterns) == 1 and patterns[0].nse > 2 * grain and may_be_heavy(patterns[0]):
        split = Parallelize(loop, "split", grain)
        if split.check(nest) is None:
            return nest.then(split)
    return _with(nest, [Parallelize(loop, race, grain)])


def _grain(nest: Summary, cost: Cost, loop: str, race: Race, patterns: Sequence[Stored]) -> int:
    """Return the least size of a chunk, in stored entries or in iterations of a dense loop. The work of such a chunk
    pays for waking a thread, and for a copy of the target if each chunk has one."""
    work = cost.work + cost.iterations + cost.target
    # Each chunk has a copy of the target, so its work has to be worth the copy; else one chunk has all of the work.
    if race == "reduced" and nest.scatters and loop in nest.walk:
        entries = max(pattern.nse for pattern in patterns)
        return grain_of(entries, work, max(nest.cpu.chunk_work, min(work_of_copies(nest), work)))
    inside = [v for v in nest.order if loop in nest.precompute_loops or v not in nest.precompute_loops]
    outermost = inside[0] if inside else None
    if outermost in nest.walk:
        inner = 1 if nest.sums_tail_first else extent(nest.problem, nest.dense)
        # An entry is taken as 1 + inner / 8 multiply-adds of work: the entry itself, and `inner` elements in 8 lanes.
        least = max(1, round(nest.cpu.chunk_work / (1 + inner / 8)))
        looped = cost.work + cost.iterations
        # A grain that does not depend on the number of entries gives patterns of all sizes the same kernel.
        if len(patterns) == 1 or looped < 2 * nest.cpu.chunk_work:
            return least
        return min(least, grain_of(max(x.nse for x in patterns), looped, nest.cpu.chunk_work))
    turns = extent(nest.problem, tuple(inside[:1]))
    return grain_of(turns, work, nest.cpu.chunk_work)


def interleaving(nest: Summary, patterns: Sequence[Stored]) -> Iterator[UnrollAndJam]:
    """Yield the step that adds several stored entries at a time to sums in registers, if it pays.

    An addition to a vector register takes about four cycles, and the next addition to this register has to wait. In the
    meantime, two registers can be loaded in each cycle. So if a near cache holds rows of one or two registers, the loop
    adds two stored entries at a time, each to registers of its own. This does not pay if the loop prefetches, since the
    loop then waits for memory and not for additions.
    """
    in_registers = nest.first("promote") is not None and nest.vector in nest.free_vars and nest.reduces_innermost
    if not in_registers or nest.first("prefetch") is not None or nest.lanes * nest.itemsize > nest.cpu.jam_tile_bytes:
        return
    innermost = [(name, loop.domain) for name, loop in nest.chain if name == nest.loops[-1] and not loop.is_lookup]
    for name, domain in innermost:
        if isinstance(domain, LevelIteration) and name not in nest.free_vars and patterns:
            sizes = (1, *patterns[domain.pattern].level_sizes)
            # The quotient of these sizes is the mean length of the level's segments.
            if sizes[domain.level + 1] >= nest.cpu.interleaved_entries * sizes[domain.level]:
                yield UnrollAndJam(name, nest.cpu.interleaved_lanes)


def _short_levels(problem: Problem, patterns: Sequence[Stored]) -> tuple[tuple[int, int], ...]:
    """Return pairs (pattern, level): the levels over summed indices whose segments have at most `SHORT` entries each.

    The result lacks outermost levels, and levels whose index has at most `SHORT` coordinates. It is empty for sums that
    are not computed in blocks. `problem` is the problem that is compiled, and `patterns` are its patterns.
    """
    if not _sums_floats(problem):
        return ()
    free_vars = problem.free_vars
    found: list[tuple[int, int]] = []
    for n, (names, pattern) in enumerate(zip(problem.level_variables, patterns, strict=True)):
        if not isinstance(pattern, Pattern):
            continue
        for level in range(1, len(names)):
            size = problem.size[names[level]]
            if names[level] in free_vars or (size is not None and size <= SHORT):
                continue
            if 0 <= _longest_segments(pattern)[level] <= SHORT:
                found.append((n, level))
    return tuple(found)


def _scatters_many(problem: Problem, patterns: Sequence[Stored]) -> bool:
    """Whether an element of the target may sum more than `SHORT` terms.

    If exactly one level of a static pattern has an index variable of the target, the pattern's index arrays bound the
    number of terms. Any other summed index may add a term for each of its coordinates.
    """
    if not _sums_floats(problem):
        return False
    free_vars = problem.free_vars
    outside = [v for v in problem.assignment.variables() if v not in free_vars]
    most = 1
    for names, pattern in zip(problem.level_variables, patterns, strict=True):
        mine = [level for level, name in enumerate(names) if name in free_vars]
        if len(mine) == 1 and isinstance(pattern, Pattern) and len(set(names)) == len(names):
            most *= _most_of_coordinate(pattern, mine[0])
            outside = [v for v in outside if v not in names]
    for v in outside:
        size = problem.size[v]
        if size is None:
            return True
        most *= size
    return most > SHORT


def _elements(problem: Problem, patterns: Sequence[Stored]) -> float:
    """The number of the target's elements; infinity if a size is unknown."""
    target, access = problem.tensors[0], problem.target
    count = 1.0
    for axis in target.axes:
        if isinstance(axis, Dense):
            size = problem.size.get(str(access.indices[axis.dim]))
            count *= inf if size is None else size
        else:
            count *= patterns[axis.pattern].nse
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
    found: list[int] = []
    arrays = dict(zip(pattern.format.arrays, pattern.arrays, strict=True))
    for n, level in enumerate(pattern.format.levels):
        if level.kind.has_pointers:
            found.append(int(np.diff(arrays[n, "pointers"]).max(initial=0)))
        elif n > 0 and level.kind.is_branchless and pattern.format.levels[n - 1].unique:
            found.append(1)
        elif n == 1 and level.kind.is_branchless:  # below a run of equal coordinates
            above = arrays[0, "coordinates"]
            found.append(int(np.diff([0, *np.flatnonzero(np.diff(above)) + 1, len(above)]).max(initial=0)))
        else:
            found.append(-1)
    return tuple(found)
