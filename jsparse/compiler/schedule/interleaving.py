"""Interleaving: long sums of nearby rows, where an addition takes longer than loading what is added.

A vector register can be added to once in about four cycles, while two rows can be loaded in each. So where rows of one
or two registers come from a near cache, two stored entries are added at a time, each to registers of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jsparse.compiler.loops.domain import LevelIteration
from jsparse.compiler.schedule.machine import JAM_TILE_BYTES
from jsparse.compiler.schedule.stored import Stored
from jsparse.compiler.schedule.summary import Summary
from jsparse.compiler.schedule.transformations.unroll_and_jam import UnrollAndJam

__all__ = ["interleaving"]

LONG = 32  # stored entries of a segment, on average, that pay for a second loop over what remains
AT_A_TIME = 2


def interleaving(nest: Summary, patterns: Sequence[Stored]) -> Iterator[UnrollAndJam]:
    """Yield the step that adds several stored entries at a time to sums in registers, if it pays. It does not where the
    loop prefetches, since it waits for memory and not for additions."""
    in_registers = nest.first("promote") is not None and nest.vector in nest.free_vars and nest.reduces_innermost
    if not in_registers or nest.first("prefetch") is not None or nest.lanes * nest.itemsize > JAM_TILE_BYTES:
        return
    innermost = [(name, loop.domain) for name, loop in nest.chain if name == nest.loops[-1] and not loop.is_lookup]
    for name, domain in innermost:
        if isinstance(domain, LevelIteration) and name not in nest.free_vars and patterns:
            sizes = (1, *patterns[domain.pattern].level_sizes)
            if sizes[domain.level + 1] >= LONG * sizes[domain.level]:
                yield UnrollAndJam(name, AT_A_TIME)
