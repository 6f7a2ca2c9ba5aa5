"""Range levels. They have a run of consecutive coordinates below each parent, and store where each run starts.

    pointers[parent] <= position < pointers[parent + 1], coordinate = starts[parent] + position - pointers[parent]

A run extends from the first entry of a parent to the last. Coordinates between them without an entry are gaps, which
are stored as zeros. Band, skyline and causal-window matrices take one pointer and one start for each row, and no
coordinates. A parent without entries has an empty run that starts at 0, so equal patterns have equal arrays.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jsparse.formats.levels.compressed import pointers_fault
from jsparse.formats.levels.kind import LevelKind

__all__ = ["RANGE"]


class _Range(LevelKind):
    name, code, letters = "range", 3, ("r",)
    arrays = ("pointers", "starts")
    has_gaps = True
    stores_runs = True
    appends = False

    def positions(self, parents: int, extent: int, arrays: Sequence[np.ndarray]) -> int:
        return int(arrays[0][-1]) if len(arrays[0]) else -1

    def capacity(self, parents: int, extent: int, entries: int, *, last: bool) -> int:
        return min(parents * extent, entries) if last else parents * extent  # levels below need positions of gaps

    def fault(self, parents: int, extent: int, arrays: Sequence[np.ndarray]) -> tuple[str, str] | None:
        pointers, starts = arrays
        fault = pointers_fault(parents, pointers)
        if fault is not None:
            return fault
        if len(starts) != parents:
            return "starts", f"to be {parents} long, one for each parent, but got {len(starts)}"
        lengths = pointers[1:].astype(np.int64) - pointers[:-1]
        outside = (starts < 0) | (starts > extent - lengths) | ((lengths == 0) & (starts != 0))
        if outside.any():
            at = int(np.argmax(outside))
            run = f"the run of {lengths[at]} coordinates from {starts[at]} on at {at}"
            empty = " (an empty run starts at 0)" if lengths[at] == 0 else ""
            return "runs of coordinates", f"to lie in [0, {extent}){empty}, but got {run}"
        return None


RANGE = _Range()
