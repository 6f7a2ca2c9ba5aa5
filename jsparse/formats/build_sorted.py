"""Index arrays of entries that are distinct and already sorted in storage order. No sort is needed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jsparse import _native
from jsparse.formats.format import Format

__all__ = ["build_sorted"]

_MOST = 2**62


def build_sorted(
    rows: Sequence[np.ndarray], shape: Sequence[int], format: Format
) -> tuple[list[np.ndarray], int, np.ndarray | None] | None:
    """The index arrays of entries, the number of slots, and the slot of each entry (None: entry n has n).

    `rows` has one array (n,) for each dimension. The entries are distinct, within the shape, and sorted
    lexicographically by the dimensions in storage order. The result is None where only a general build serves: for
    levels that are neither dense nor have coordinates, and for more positions than int64 counts.
    """
    if not all(level.kind.is_full or level.kind.has_coordinates for level in format.levels):
        return None
    dtype = np.dtype(np.int32 if max(*shape, len(rows[0])) < 2**31 else np.int64)
    arrays: list[np.ndarray] = []
    parents, own = 1, _Positions(None)
    for chain in format.chains:
        first = format.levels[chain[0]]
        columns = [rows[format.levels[at].dim] for at in chain]
        if first.kind.is_full:
            own = own.below_dense(columns[0], shape[first.dim])
            parents *= shape[first.dim]
            if parents > _MOST:
                return None
            continue
        last = chain[-1] == format.ndim - 1
        start = None if last else own.starts(columns)
        arrays.append(own.pointers(parents, start, len(columns[0]), dtype))
        arrays += [column if start is None else column[start] for column in columns]
        parents = len(arrays[-1])
        own = _Positions(None if last or start is None else np.cumsum(start) - 1, is_entry=last)
    slots = None if own.is_entry else own.of_entries(len(rows[0]))
    return arrays, parents, slots


class _Positions:
    """The position of each entry in a level. `numbers` None: all of them are 0, or, with `is_entry`, entry n has n."""

    def __init__(self, numbers: np.ndarray | None, is_entry: bool = False) -> None:
        self.numbers, self.is_entry = numbers, is_entry

    def of_entries(self, count: int) -> np.ndarray:
        return np.zeros(count, np.int64) if self.numbers is None else self.numbers

    def below_dense(self, column: np.ndarray, size: int) -> _Positions:
        """The positions in a dense level below."""
        return _Positions(column if self.numbers is None else self.numbers.astype(np.int64) * size + column)

    def starts(self, columns: Sequence[np.ndarray]) -> np.ndarray:
        """Whether each entry is the first one of its position in a level with these coordinates below."""
        start = np.zeros(len(columns[0]), np.bool_)
        start[:1] = True
        for key in (*columns, *(() if self.numbers is None else (self.numbers,))):
            start[1:] |= key[1:] != key[:-1]
        return start

    def pointers(self, parents: int, start: np.ndarray | None, count: int, dtype: np.dtype) -> np.ndarray:
        """The pointers from `parents` positions to those of the level below, which begin where `start` says."""
        if self.numbers is None:
            return np.array([0, count if start is None else np.count_nonzero(start)], dtype)
        numbers = self.numbers if start is None else self.numbers[start]
        return _native.compress(np.ascontiguousarray(numbers), parents, dtype)
