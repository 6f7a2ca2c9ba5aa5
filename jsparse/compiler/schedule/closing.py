"""The last steps of a schedule, which follow from the others: registers, threads, prefetching, accuracy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from jsparse.compiler.loops.domain import LevelIteration
from jsparse.compiler.schedule.cost import CHUNK_WORK, Cost, grain_of, sharing, wide_lanes
from jsparse.compiler.schedule.gathers import extent
from jsparse.compiler.schedule.machine import JAM_TILE_BYTES
from jsparse.compiler.schedule.own_copies import work_of_copies
from jsparse.compiler.schedule.position_lanes import position_lanes
from jsparse.compiler.schedule.prefetching import prefetching
from jsparse.compiler.schedule.row_split import may_be_heavy
from jsparse.compiler.schedule.segments import scatters_many, short_levels
from jsparse.compiler.schedule.stored import Stored
from jsparse.compiler.schedule.summary import Summary, Transformation
from jsparse.compiler.schedule.sums_first import tiles_among_sums
from jsparse.compiler.schedule.transformations.merge_by import MergeBy
from jsparse.compiler.schedule.transformations.parallelize import Parallelize, Race
from jsparse.compiler.schedule.transformations.promote import Promote
from jsparse.compiler.schedule.transformations.scatter import ScatterSegment
from jsparse.compiler.schedule.transformations.specialize import Specialize
from jsparse.compiler.schedule.transformations.unroll_and_jam import UnrollAndJam
from jsparse.compiler.schedule.transformations.widen import Widen
from jsparse.compiler.schedule.trip_counts import TripCounts

__all__ = ["closed"]


def closed(nest: Summary, cost: Cost, patterns: Sequence[Stored], walked: TripCounts, alone: bool = True) -> Summary:
    """The nest after all steps of its schedule. Steps that a user has given stay as they are.

    Args:
        nest: the nest over the problem that is compiled, on `patterns`.
        cost: the estimated cost.
        walked: the trip counts of its loops over patterns.
        alone: whether no other statement shares its loops. Statements that share loops have one division over threads.
    """
    # The order of steps matters. A map fixes sums and lookups, so `promote` and `merge_by` come before `scatter`.
    # Race strategy `split` needs sums in registers, so `parallelize` comes after `promote`. `interleaving` asks whether
    # the nest prefetches, and lanes of positions ask about all other steps.
    nest = _with(nest, _leading(nest, walked))
    if nest.first("promote") is None and not nest.problem.is_assembly and nest.reduces_innermost:
        nest = _with(nest, [Promote()])
    nest = _with(nest, (ScatterSegment(f"P{n}.{level}") for n, level in walked.scattered))
    nest = _with(nest, (Specialize("segments", f"P{n}.{level}") for n, level in short_levels(nest.problem, patterns)))
    in_memory = nest.scatters or tiles_among_sums(nest) == "inside"
    scattered = in_memory and not nest.panel and scatters_many(nest.problem, patterns)
    # A float32 sum in memory is rounded with each term, or with each panel: if these are many, it is made in float64.
    if alone and (scattered or nest.position_panel):
        nest = _with(nest, [Widen()])
    if alone:
        nest = _parallel(nest, cost, patterns, walked.entries[-1] if walked.entries else 1.0)
    nest = _with(nest, prefetching(nest, patterns, alone))
    nest = _with(nest, interleaving(nest, patterns))
    lanes = position_lanes(nest, patterns)
    return nest if lanes is None else nest.then(lanes)


def _leading(nest: Summary, walked: TripCounts) -> list[MergeBy]:
    """The merge leaders where several patterns meet, except leaders that the nest walks already."""
    if not walked.merge_leaders:
        return []
    chosen = {step.loop for step in nest.found("merge_by")}
    led = {(x.var, x.domain.pattern) for _, x in nest.chain if isinstance(x.domain, LevelIteration) and not x.is_lookup}
    new = ((var, n) for var, n in walked.merge_leaders if var not in chosen and (var, n) not in led)
    return [MergeBy(var, f"P{n}") for var, n in new]


def _with(nest: Summary, steps: Iterable[Transformation]) -> Summary:
    """The nest after all steps that are legal; illegal steps are left out."""
    for step in steps:
        nest = nest.then(step) if step.check(nest) is None else nest
    return nest


def _parallel(nest: Summary, cost: Cost, patterns: Sequence[Stored], entries: float) -> Summary:
    """The nest with a loop divided over threads, if one can be, and with wide tiles for runs with few threads."""
    given = nest.first("parallelize")
    if given is not None:
        grain = _grain(nest, cost, given.loop, given.race, patterns)
        steps = tuple(replace(s, grain=s.grain or grain) if isinstance(s, Parallelize) else s for s in nest.steps)
        return replace(nest, steps=steps)
    shared = sharing(nest, entries, cost.work + cost.iterations + cost.target)
    if shared is None:
        return nest
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
    """The least number of stored entries (of iterations, in a dense loop) in a chunk, so that its work pays for waking
    a thread, and for a copy of the target."""
    work = cost.work + cost.iterations + cost.target
    # Each chunk has a copy of the target, so its work has to be worth the copy; else one chunk has all of the work.
    if race == "reduced" and nest.scatters and loop in nest.walk:
        entries = max(pattern.nse for pattern in patterns)
        return grain_of(entries, work, max(CHUNK_WORK, min(work_of_copies(nest), work)))
    inside = [v for v in nest.order if loop in nest.summed or v not in nest.summed]
    outermost = inside[0] if inside else None
    if outermost in nest.walk:
        inner = 1 if nest.sums_tail_first else extent(nest.problem, nest.dense)
        # An entry is taken as 1 + inner / 8 multiply-adds of work: the entry itself, and `inner` elements in 8 lanes.
        least = max(1, round(CHUNK_WORK / (1 + inner / 8)))
        looped = cost.work + cost.iterations
        # A grain that does not depend on the number of entries gives patterns of all sizes the same kernel.
        if len(patterns) == 1 or looped < 2 * CHUNK_WORK:
            return least
        return min(least, grain_of(max(x.nse for x in patterns), looped))
    turns = extent(nest.problem, tuple(inside[:1]))
    return grain_of(turns, work)


LONG = 32  # the mean number of stored entries of a segment that pays for a second loop over the rest
AT_A_TIME = 2  # stored entries at a time


def interleaving(nest: Summary, patterns: Sequence[Stored]) -> Iterator[UnrollAndJam]:
    """Yield the step that adds several stored entries at a time to sums in registers, if it pays.

    A vector register can be added to once in about four cycles, while two rows can be loaded in each cycle. So if rows
    of one or two registers come from a near cache, two stored entries are added at a time, each to registers of its
    own. This does not pay if the loop prefetches, since the loop then waits for memory and not for additions.
    """
    in_registers = nest.first("promote") is not None and nest.vector in nest.free_vars and nest.reduces_innermost
    if not in_registers or nest.first("prefetch") is not None or nest.lanes * nest.itemsize > JAM_TILE_BYTES:
        return
    innermost = [(name, loop.domain) for name, loop in nest.chain if name == nest.loops[-1] and not loop.is_lookup]
    for name, domain in innermost:
        if isinstance(domain, LevelIteration) and name not in nest.free_vars and patterns:
            sizes = (1, *patterns[domain.pattern].level_sizes)
            # The quotient of these sizes is the mean length of the level's segments.
            if sizes[domain.level + 1] >= LONG * sizes[domain.level]:
                yield UnrollAndJam(name, AT_A_TIME)
