"""A schedule: every decision that turns a problem into one loop nest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from jsparse.notation.assignment import IndexVar

__all__ = ["Schedule"]


@dataclass(frozen=True, slots=True)
class Schedule:
    """The loops of a concordant problem, whose patterns are stored in the order in which loops walk them.

    Attributes:
        order: the loops, outermost first, each index variable once. With `lanes`, the last one runs in vector lanes.
        lanes: elements of a register tile of the last variable; 0 for a scalar innermost loop.
        wide: lanes of wider tiles, used when there are enough of them for all threads; 0 for none.
        tile: with `lanes`, the depth in `order` at which the loop over register tiles is inserted.
        summed: innermost variables that are summed before the factors that lack them are multiplied in.
        parallel: the variable whose loop is divided over threads.
        mode: how that loop is divided (`loops.nest.Parallel`).
        grain: the least number of stored entries (or iterations) in a chunk.
        merge_leaders: (variable, pattern) where several patterns meet: the loop walks this one and searches the others.
        prefetch: the number of stored entries by which gathered rows are prefetched ahead; 0 for no prefetching.
        panel: with `lanes`, coordinates of the innermost reduction in one panel, whose rows are copied; 0 for none.
        jammed: the variable whose loop runs `copies` iterations at a time.
        short: (pattern, level) of levels with short segments only, whose sums need no blocks (`loops.blocked_sums`).
        long_sums: whether sums scattered into the target are long enough to need a copy of it in float64.
        own: for a sum of terms, each term's loops inside the shared ones of `order`, which run over the target's
            outermost indices. An index of the target that is not shared needs a workspace.
    """

    order: tuple[IndexVar, ...]
    lanes: int = 0
    wide: int = 0
    tile: int = 0
    summed: tuple[IndexVar, ...] = ()
    parallel: IndexVar | None = None
    mode: Literal["owned", "split", "reduced"] = "owned"
    grain: int = 1
    prefetch: int = 0
    merge_leaders: tuple[tuple[IndexVar, int], ...] = ()
    own: tuple[tuple[IndexVar, ...], ...] = ()
    panel: int = 0
    jammed: IndexVar | None = None
    copies: int = 1
    short: tuple[tuple[int, int], ...] = ()
    long_sums: bool = False

    def __str__(self) -> str:
        lines = [f"loops {' '.join(self.order)}"]
        if self.lanes:
            lanes = f"{self.lanes} or {self.wide}" if self.wide else str(self.lanes)
            lines.append(f"{self.order[-1]} in tiles of {lanes} lanes, placed before loop {self.tile}")
        if self.summed:
            lines.append(f"{' '.join(self.summed)} summed first")
        if self.parallel is not None:
            lines.append(f"{self.parallel} in parallel, {self.mode}, ≥ {self.grain:,} entries a chunk")
        lines += [f"{var} walks P{pattern} and looks it up in the others" for var, pattern in self.merge_leaders]
        lines += [f"term {n} {' '.join(loops)}" for n, loops in enumerate(self.own) if loops]
        if self.panel:
            lines.append(f"{self.order[-2]} in panels of {self.panel} coordinates, whose rows are copied")
        if self.jammed is not None:
            lines.append(f"{self.jammed} {self.copies} at a time")
        lines += [f"P{pattern}.{level} has short segments" for pattern, level in self.short]
        if self.long_sums:
            lines.append("sums in memory are added up in float64")
        if self.prefetch:
            lines.append(f"prefetch {self.prefetch} entries ahead")
        return "\n".join(lines)
