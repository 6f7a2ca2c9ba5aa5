"""Prefetching: which loops prefetch memory for later entries, and how many entries ahead.

While a loop works on one entry, it requests the rows that a later entry selects in dense tensors. The bytes that are
requested and not read yet should be as many as a core receives from memory in the time of one request (Little's law).
With fewer bytes the core waits, and with more bytes rows push each other out of the nearest cache. So the distance
follows from a number of bytes. This number is larger if the rows are in memory and not in the last cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import NamedTuple

import numpy as np

from jsparse.compiler.cpu_model import CpuModel
from jsparse.compiler.loops.domain import LevelIteration
from jsparse.compiler.schedule.layout import AnyPattern
from jsparse.compiler.schedule.prices.gathers import extent, mostly_read_before
from jsparse.compiler.schedule.summary import Summary
from jsparse.compiler.schedule.transformations.prefetch import Prefetch


class Rows(NamedTuple):
    """The rows that stored entries select in a dense tensor that is too large for a second-level cache.

    Attributes:
        bytes: the size of a whole row in bytes, even if one entry requests only a part of it. If segments are short,
            the other parts are requested soon.
        size: the size of the tensor in bytes. An index of a loop outside of all loops over patterns counts as one
            coordinate.
    """

    bytes: int
    size: int


def prefetching(nest: Summary, patterns: Sequence[AnyPattern], alone: bool = True) -> Iterator[Prefetch]:
    """Yield the `Prefetch` steps for a nest.

    The innermost loop over stored entries prefetches rows that are gathered from memory, unless the previous segment
    has read most of them. If no rows are gathered from memory, loops whose coordinates locate segments in memory
    prefetch these segments. A loop over panels of positions prefetches the rows of the next panel. If the innermost
    loop is divided into panels of coordinates, the loop around it prefetches the next segments to be continued.

    If other statements share the loops (not `alone`), their loops run before the rows of the next segment are read.
    They would push rows that are requested far ahead out of the cache, so the distance is then short.
    """
    if nest.first("prefetch") is not None:
        return
    if nest.panel:
        yield from (Prefetch(loop, nest.cpu.prefetch_panel_segments) for loop in nest.head[-1:] if loop in nest.loops)
        return
    rows = rows_from_memory(nest)
    if nest.position_panel:
        yield from (Prefetch(name, 1) for name, v in nest.outer.items() if rows and v in nest.positions)
        return
    if not rows:
        yield from (Prefetch(loop, nest.cpu.prefetch_segments) for loop in _locating_segments(nest, patterns))
        return
    ahead = distance(nest.cpu, rows) if alone else nest.cpu.prefetch_entries
    if nest.sums_entries_first and nest.sums_in_lanes:
        yield Prefetch(nest.precompute_loops[-1], ahead)
        return
    for name, loop in reversed([entry for entry in nest.chain if entry[0] not in nest.precompute_loops]):
        level = loop.domain
        if not isinstance(level, LevelIteration) or loop.is_lookup:
            continue
        if nest.problem.patterns[level.pattern].is_single(level.level):  # the loop has one entry, not a segment
            continue
        if not patterns or not mostly_read_before(nest.cpu, patterns[level.pattern], level.level):
            yield Prefetch(name, ahead)
        return


def distance(cpu: CpuModel, rows: Sequence[Rows]) -> int:
    """Return how many entries ahead of their use rows are requested."""
    most = cpu.requested_bytes if sum(x.size for x in rows) <= cpu.last_cache_bytes else cpu.requested_far_bytes
    return min(max(most // sum(x.bytes for x in rows), cpu.prefetch_entries), cpu.most_prefetch_entries)


def rows_from_memory(nest: Summary) -> list[Rows]:
    """Find the rows that stored coordinates select in dense tensors that are too large for the cache.

    Parts of a row that are shorter than a cache line are left out, because the previous part has mostly loaded the line
    already. Rows of a few bytes are left out, too. If a loop outside of all loops over patterns fixes an index, such as
    the head of an attention layer, only one coordinate of this index counts for the size of the tensor: the rows of one
    head are read again and again.
    """
    if nest.vector is None or not nest.walk:
        return []
    in_lanes_or_summed = {nest.vector, *nest.scalar_reductions}
    accesses = [f for f in nest.factors if not in_lanes_or_summed.isdisjoint(f.variables())]
    fixed = set(takewhile(lambda loop: loop not in nest.walk, nest.loops))
    rows: list[Rows] = []
    for access in (*accesses, *([nest.statement.target] if nest.scatters else [])):
        type_, variables = nest.problem.type_of[access.tensor], access.variables()
        if type_.positions is not None or nest.entry_vars.isdisjoint(variables):
            continue
        item = np.dtype(type_.dtype).itemsize
        size = extent(nest.problem, [v for v in variables if v not in fixed]) * item
        dense = [v for v in variables if v not in nest.pattern_vars and v not in fixed]
        part, row = _part(nest, dense), extent(nest.problem, dense)
        least = nest.cpu.line_bytes if part < row else nest.cpu.line_bytes // 2
        # Rows in a second-level cache arrive in time, because a core looks a few hundred instructions ahead.
        if size > nest.cpu.large_second_cache_bytes and part * item >= least:
            rows.append(Rows(row * item, size))
    return rows


def _part(nest: Summary, dense: Sequence[str]) -> int:
    """Return how many elements of a row one stored entry reads. If a dense loop is outside the loop over entries, the
    entry reads one of its tiles, one of its coordinates, or the coordinates that run at a time."""
    last = max(n for n, name in enumerate(nest.loops) if not nest.entry_vars.isdisjoint(nest.variables_of(name)))
    outside = {nest.outer.get(name, name): name in nest.outer for name in nest.loops[:last]}
    tile = nest.lanes if outside.get(str(nest.vector)) and nest.vector in dense else 1
    jams = nest.steps_with("unroll_and_jam")
    together = nest.copies if any(jam.loop in outside and jam.loop in dense for jam in jams) else 1
    return extent(nest.problem, [v for v in dense if v not in outside]) * tile * together


def _locating_segments(nest: Summary, patterns: Sequence[AnyPattern]) -> Iterator[str]:
    """Yield the loops over stored entries whose coordinates locate segments of a pattern that is too large for the
    cache."""
    is_large = [pattern.nse * nest.cpu.entry_bytes > nest.cpu.second_cache_bytes for pattern in patterns]
    if not any(is_large):
        return
    walked = {name for name, x in nest.chain if isinstance(x.domain, LevelIteration) and not x.is_lookup}
    for name, loop in nest.chain:
        domain = loop.domain
        if not (loop.is_lookup and isinstance(domain, LevelIteration) and domain.level == 0 and name in walked):
            continue
        levels = nest.problem.patterns[domain.pattern].levels
        if is_large[domain.pattern] and levels[0].kind.is_full and len(levels) > 1 and levels[1].kind.has_pointers:
            yield name
