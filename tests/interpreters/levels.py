"""The entries of levels, read from numpy arrays as generated loops read them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from jsparse.formats.levels import LevelKind


def entries_of(
    kind: LevelKind, arrays: Sequence[Any], first: int, stop: int, extent: int, capacity: int | None = None
) -> Iterator[tuple[int, int]]:
    """Yield the (coordinate, position) pairs below the positions `first <= p < stop` of the level above. `arrays` are
    the level's index arrays. Positions from dynamic arrays stay below `capacity`."""
    if kind.is_full:
        yield from ((n, parent * extent + n) for parent in range(first, stop) for n in range(extent))
    elif not kind.has_pointers:
        yield from ((int(arrays[0][p]), p) for p in range(first, stop))
    elif kind.has_coordinates:
        lo, hi = (min(max(int(arrays[0][parent]), 0), len(arrays[1])) for parent in (first, stop))
        yield from ((int(arrays[1][p]), p) for p in range(lo, hi))
    else:
        pointers, starts = arrays
        most = int(pointers[-1]) if capacity is None else capacity
        for parent in range(first, stop):
            lo, hi = (min(max(int(pointers[q]), 0), most) for q in (parent, parent + 1))
            offset = int(starts[parent]) - int(pointers[parent])
            yield from ((p + offset, p) for p in range(lo, hi))
