"""The last steps of a schedule, which follow from the others: registers, threads, prefetching, accuracy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import takewhile

import numpy as np

from jsparse.compiler.loops.domain import LevelIteration
from jsparse.compiler.schedule.cost import CHUNK_WORK, Cost, sharing
from jsparse.compiler.schedule.gathers import extent
from jsparse.compiler.schedule.locality import read_before
from jsparse.compiler.schedule.machine import (
    CACHED_BYTES,
    ENTRY_BYTES,
    LINE_BYTES,
    PREFETCH_AHEAD,
    REGISTER_BYTES,
    SEGMENTS_AHEAD,
)
from jsparse.compiler.schedule.position_lanes import position_lanes
from jsparse.compiler.schedule.row_split import may_be_heavy
from jsparse.compiler.schedule.segments import scatters_many, short_levels
from jsparse.compiler.schedule.stored import Stored
from jsparse.compiler.schedule.summary import Summary, Transformation
from jsparse.compiler.schedule.transformations.merge_by import MergeBy
from jsparse.compiler.schedule.transformations.parallelize import Parallelize
from jsparse.compiler.schedule.transformations.prefetch import Prefetch
from jsparse.compiler.schedule.transformations.promote import Promote
from jsparse.compiler.schedule.transformations.scatter import ScatterSegment
from jsparse.compiler.schedule.transformations.specialize import Specialize
from jsparse.compiler.schedule.transformations.widen import Widen
from jsparse.compiler.schedule.trip_counts import TripCounts
from jsparse.notation.assignment import Access

__all__ = ["closed"]

MOSTLY = 0.75  # the fraction of rows that the segment before has read from which on a cache holds them


def closed(nest: Summary, cost: Cost, patterns: Sequence[Stored], walked: TripCounts, alone: bool = True) -> Summary:
    """The nest after all steps. Steps that a user has given stay as they are.

    Args:
        nest: the nest over the problem that is compiled, on `patterns`.
        cost: the estimated cost.
        walked: the trip counts of its loops over patterns.
        alone: whether no other statement shares its loops. Else their threads and targets are common to all.
    """
    nest = _with(nest, _leading(nest, walked))
    if nest.first("promote") is None and not nest.problem.is_assembly and nest.reduces_innermost:
        nest = _with(nest, [Promote()])
    nest = _with(nest, (ScatterSegment(f"P{n}.{level}") for n, level in walked.scattered))
    nest = _with(nest, (Specialize("segments", f"P{n}.{level}") for n, level in short_levels(nest.problem, patterns)))
    if alone and nest.scatters and not nest.panel and scatters_many(nest.problem, patterns):
        nest = _with(nest, [Widen()])
    if alone:
        nest = _parallel(nest, cost, patterns, walked.entries[-1] if walked.entries else 1.0)
    nest = _with(nest, _prefetching(nest, patterns))
    lanes = position_lanes(nest, patterns)
    return nest if lanes is None else nest.then(lanes)


def _leading(nest: Summary, walked: TripCounts) -> list[MergeBy]:
    """The patterns to walk where several meet, unless they are walked already."""
    if not walked.merge_leaders:
        return []
    chosen = {step.loop for step in nest.found("merge_by")}
    led = {(x.var, x.domain.pattern) for _, x in nest.chain if isinstance(x.domain, LevelIteration) and not x.is_lookup}
    new = ((var, n) for var, n in walked.merge_leaders if var not in chosen and (var, n) not in led)
    return [MergeBy(var, f"P{n}") for var, n in new]


def _with(nest: Summary, steps: Iterable[Transformation]) -> Summary:
    """The nest after those of the steps that are legal."""
    for step in steps:
        nest = nest.then(step) if step.check(nest) is None else nest
    return nest


def _parallel(nest: Summary, cost: Cost, patterns: Sequence[Stored], entries: float) -> Summary:
    """The nest with a loop divided over threads, if one can be, and with tiles for few threads."""
    given = nest.first("parallelize")
    if given is not None:
        grain = _grain(nest, cost, given.loop)
        steps = tuple(replace(s, grain=s.grain or grain) if isinstance(s, Parallelize) else s for s in nest.steps)
        return replace(nest, steps=steps)
    shared = sharing(nest, entries)
    if shared is None:
        return nest
    loop, race = shared
    grain = _grain(nest, cost, loop)
    wide = _wide(nest)
    nest = _with(nest, [Specialize("threads", loop, wide)] if wide and nest.outer.get(loop) == nest.vector else [])
    if race == "owned" and len(patterns) == 1 and patterns[0].nse > 2 * grain and may_be_heavy(patterns[0]):
        split = Parallelize(loop, "split", grain)
        if split.check(nest) is None:
            return nest.then(split)
    return _with(nest, [Parallelize(loop, race, grain)])


def _wide(nest: Summary) -> int:
    """The lanes of wide tiles, for runs with few threads: as many as fit the registers; 0 if that is `lanes`."""
    if not nest.tiles_outermost:
        return 0
    most = REGISTER_BYTES // nest.itemsize
    return most if nest.lanes < most <= (nest.problem.size[str(nest.vector)] or 0) else 0


def _grain(nest: Summary, cost: Cost, loop: str) -> int:
    """The least number of stored entries (of iterations, in a dense loop) in a chunk that pays for waking a thread."""
    inside = [v for v in nest.order if loop in nest.summed or v not in nest.summed]
    outermost = inside[0] if inside else None
    if outermost in nest.walk:
        inner = 1 if nest.sums_tail_first else extent(nest.problem, nest.dense)
        return max(1, round(CHUNK_WORK / (1 + inner / 8)))
    turns = extent(nest.problem, tuple(inside[:1]))
    return max(1, round(CHUNK_WORK * turns / max(cost.work + cost.iterations + cost.target, 1)))


def _prefetching(nest: Summary, patterns: Sequence[Stored]) -> Iterator[Transformation]:
    """Yield the step that prefetches in the innermost loop over stored entries, if rows are gathered from memory and
    the segment before has not read most of them; else in the loops whose coordinates locate segments in memory."""
    if nest.panel or nest.first("prefetch") is not None:
        return
    if not _gathers_from_memory(nest):
        yield from (Prefetch(loop, SEGMENTS_AHEAD) for loop in _locating_segments(nest, patterns))
        return
    if nest.summed and nest.sums_in_lanes:
        yield Prefetch(nest.summed[-1], PREFETCH_AHEAD)
        return
    for name, loop in reversed([entry for entry in nest.chain if entry[0] not in nest.summed]):
        if isinstance(loop.domain, LevelIteration) and not loop.is_lookup and not _is_single(nest, loop.domain):
            if not patterns or read_before(patterns[loop.domain.pattern], loop.domain.level) < MOSTLY:
                yield Prefetch(name, PREFETCH_AHEAD)
            return


def _locating_segments(nest: Summary, patterns: Sequence[Stored]) -> Iterator[str]:
    """Yield the loops over stored entries whose coordinates locate segments of a pattern that is too large for the
    cache."""
    large = {n for n, pattern in enumerate(patterns) if pattern.nse * ENTRY_BYTES > CACHED_BYTES}
    if not large:
        return
    walked = {name for name, x in nest.chain if isinstance(x.domain, LevelIteration) and not x.is_lookup}
    for name, loop in nest.chain:
        domain = loop.domain
        if not (loop.is_lookup and isinstance(domain, LevelIteration) and domain.level == 0 and name in walked):
            continue
        levels = nest.problem.patterns[domain.pattern].levels
        if domain.pattern in large and levels[0].kind.is_full and len(levels) > 1 and levels[1].kind.has_pointers:
            yield name


def _is_single(nest: Summary, level: LevelIteration) -> bool:
    """Whether a level has exactly one entry for each position of the level above."""
    return nest.problem.patterns[level.pattern].is_single(level.level)


def _gathers_from_memory(nest: Summary) -> bool:
    """Whether stored coordinates select rows of a dense tensor that is too large for the cache.

    Tiles shorter than a cache line do not count, since a neighbouring tile has mostly loaded the line already. Neither
    do indices that loops outside of the pattern fix, such as the head: the rows of one head are read again and again.
    """
    if nest.vector is None or not nest.walk:
        return False
    in_lanes_or_summed = {nest.vector, *nest.contracted}
    rows = [f for f in nest.factors if not in_lanes_or_summed.isdisjoint(f.variables())]
    return any(_selects_from_memory(nest, f) for f in (*rows, *([nest.statement.target] if nest.scatters else [])))


def _selects_from_memory(nest: Summary, access: Access) -> bool:
    """Whether stored coordinates select rows of this tensor, which is dense and too large for the cache."""
    type_, variables = nest.problem.type_of[access.tensor], access.variables()
    if type_.positions is not None or nest.entry_vars.isdisjoint(variables):
        return False
    item = np.dtype(type_.dtype).itemsize
    in_lines = nest.vector not in variables or nest.lanes * item >= LINE_BYTES
    fixed = set(takewhile(lambda loop: loop not in nest.walk, nest.loops))
    return in_lines and extent(nest.problem, tuple(v for v in variables if v not in fixed)) * item > CACHED_BYTES
