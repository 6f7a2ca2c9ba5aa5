"""Finds equal integers in two arrays, such as the keys of entries and the keys of points to look up."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jsparse.base import _native
from jsparse.formats.build import index_dtype
from jsparse.formats.levels import is_dense_cheap
from jsparse.ops.indexing.gathered import concatenate_ranges


def matches(keys: np.ndarray, wanted: np.ndarray, extent: int) -> tuple[np.ndarray, np.ndarray]:
    """Find all pairs (m, n) with `keys[m] == wanted[n]`, sorted by m, then by n. All keys lie in [0, extent)."""
    order = None if (wanted[1:] >= wanted[:-1]).all() else np.argsort(wanted, kind="stable")
    ordered = wanted if order is None else wanted[order]
    if (ordered[1:] == ordered[:-1]).any():
        entries, offsets = _match_repeated(keys, ordered, extent)
    else:
        entries, offsets = _distinct_matches(keys, ordered, extent)
    return entries, offsets if order is None else order.astype(index_dtype([], [len(wanted)]))[offsets]


def _distinct_matches(keys: np.ndarray, ordered: np.ndarray, extent: int) -> tuple[np.ndarray, np.ndarray]:
    """Compute `matches` for wanted integers that are sorted and distinct."""
    if is_small(extent, keys, ordered):
        offsets = _native.invert(ordered, extent)[keys]
        entries = np.flatnonzero(offsets >= 0)
        return entries, offsets[entries]
    offsets = np.searchsorted(ordered.astype(keys.dtype, copy=False), keys)
    matched = offsets < len(ordered)
    matched[matched] = ordered[offsets[matched]] == keys[matched]
    entries = np.flatnonzero(matched)
    return entries, offsets[entries]


def _match_repeated(keys: np.ndarray, ordered: np.ndarray, extent: int) -> tuple[np.ndarray, np.ndarray]:
    """Compute `matches` for wanted integers that are sorted and may repeat."""
    if is_small(extent, keys, ordered):
        pointers = _native.compress(np.ascontiguousarray(ordered), extent, np.int64)
        first, last = pointers[keys], pointers[keys + 1]
    else:
        ordered = ordered.astype(keys.dtype, copy=False)
        first, last = np.searchsorted(ordered, keys, "left"), np.searchsorted(ordered, keys, "right")
    counts = last - first
    dtype = index_dtype([], [len(keys), len(ordered), int(counts.sum())])
    return np.repeat(np.arange(len(keys), dtype=dtype), counts), concatenate_ranges(first.astype(dtype), counts, False)


def is_small(extent: int, *arrays: np.ndarray) -> bool:
    """Whether a table of `extent` elements is at most a few times as long as the arrays together."""
    return is_dense_cheap(extent, sum(map(len, arrays)))


def joint_keys(
    entries: Sequence[np.ndarray], points: Sequence[np.ndarray], sizes: Sequence[int]
) -> tuple[np.ndarray, np.ndarray, int]:
    """Encode each tuple of coordinates as one integer key. Returns (keys of entries, keys of points, extent)."""
    left, right, extent = entries[0].astype(np.int64), points[0].astype(np.int64), sizes[0]
    for a, b, size in zip(entries[1:], points[1:], sizes[1:], strict=True):
        if extent * size >= 2**62:  # small numbers for the distinct tuples and coordinates
            left, right, extent = _number_distinct(left, right)
            a, b, size = _number_distinct(a, b)
        left, right, extent = left * size + a, right * size + b, extent * size
    return left, right, extent


def _number_distinct(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """Replace the distinct elements of two arrays by 0, 1, 2, ... Returns (left, right, count of distinct ones)."""
    distinct, numbers = np.unique(np.concatenate([left, right]), return_inverse=True)
    numbers = numbers.reshape(-1)
    return numbers[: len(left)], numbers[len(left) :], max(len(distinct), 1)
