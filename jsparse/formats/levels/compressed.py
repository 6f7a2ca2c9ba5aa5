"""Compressed levels. They store the coordinates of entries, in a segment for each parent.

pointers[parent] <= position < pointers[parent + 1], coordinate = coordinates[position]
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jsparse.formats.levels.kind import LevelKind

__all__ = ["COMPRESSED", "pointers_fault"]


class _Compressed(LevelKind):
    name, code, letters = "compressed", 1, ("c", "n")
    arrays = ("pointers", "coordinates")

    def positions(self, parents: int, extent: int, arrays: Sequence[np.ndarray]) -> int:
        return int(arrays[0][-1]) if len(arrays[0]) else -1

    def capacity(self, parents: int, extent: int, entries: int, *, last: bool) -> int:
        return entries

    def fault(self, parents: int, extent: int, arrays: Sequence[np.ndarray]) -> tuple[str, str] | None:
        pointers, coordinates = arrays
        fault = pointers_fault(parents, pointers)
        if fault is None and pointers[-1] != len(coordinates):
            return (
                "last of the pointers",
                f"to be the number of coordinates, {len(coordinates)}, but got {pointers[-1]}",
            )
        return fault


def pointers_fault(parents: int, pointers: np.ndarray) -> tuple[str, str] | None:
    """The first fault of pointers to the segments below `parents` positions (see `LevelKind.fault`)."""
    if len(pointers) != parents + 1:
        return "pointers", f"to be {parents + 1} long, one more than its {parents} parents, but got {len(pointers)}"
    if pointers[0] != 0:
        return "pointers", f"to start at 0, but they start at {pointers[0]}"
    falling = pointers[:-1] > pointers[1:]
    if falling.any():
        at = int(np.argmax(falling))
        return "pointers", f"never to decrease, but {pointers[at]} is followed by {pointers[at + 1]} at {at + 1}"
    return None


COMPRESSED = _Compressed()
