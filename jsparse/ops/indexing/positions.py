"""Positions of a level: a slice if they are a range, an array otherwise."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from jax.typing import DTypeLike

__all__ = ["Positions", "as_array", "concatenated", "count", "taken"]

Positions: TypeAlias = slice | np.ndarray
"""A range as a slice, or an array (n,) of positions."""


def count(positions: Positions) -> int:
    """The number of positions."""
    return positions.stop - positions.start if isinstance(positions, slice) else len(positions)


def as_array(positions: Positions, dtype: DTypeLike = np.int64) -> np.ndarray:
    """The positions as an array."""
    if isinstance(positions, slice):
        return np.arange(positions.start, positions.stop, dtype=dtype)
    return positions.astype(dtype, copy=False)


def taken(array: np.ndarray, positions: Positions) -> np.ndarray:
    """The elements at the positions: a view if the positions are a range."""
    return array[positions] if isinstance(positions, slice) else array.take(positions)


def concatenated(first: np.ndarray, counts: np.ndarray, backwards: bool) -> np.ndarray:
    """The ranges of `counts[n]` consecutive numbers from `first[n]` on, one after the other.

    Args:
        backwards: each range descends and ends at `first[n]`.
    """
    starts = np.cumsum(counts, dtype=np.int64) - counts
    base = first + counts - 1 + starts if backwards else first - starts
    found = np.repeat(base.astype(first.dtype), counts)
    steps = np.arange(len(found), dtype=first.dtype)
    return np.subtract(found, steps, out=found) if backwards else np.add(found, steps, out=found)
