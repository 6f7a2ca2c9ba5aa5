"""Checks of coordinates that users give."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from jsparse.base.arrays import check_alive, is_masked
from jsparse.errors import PatternError, shortened

__all__ = ["as_coordinates", "check_bounds", "checked_rows", "split_coordinates"]


def split_coordinates(coords: Any, shape: Sequence[int]) -> list[np.ndarray]:
    """The rows of the (ndim, n) integers `coords`. Raises PatternError if they have another shape."""
    given = as_coordinates(coords)
    ndim = len(shape)
    if given.ndim != 2 or given.shape[0] != ndim:
        raise PatternError(
            f"Expected coordinates of shape ({ndim}, n), one row for each of the {ndim} dimensions of "
            f"{shortened(tuple(shape))}, but got {given.shape}."
        )
    return list(given)


def as_coordinates(coords: Any) -> np.ndarray:
    """Convert to a numpy array. Raises PatternError if numpy cannot, and for masked arrays, which it would unmask;
    DeletedArrayError for a deleted array of jax."""
    check_alive(coords, "an array of coordinates")
    if is_masked(coords):
        raise PatternError("Expected an array of coordinates, but got a masked array of numpy. Leave masked ones out.")
    try:
        return np.asarray(coords)
    except (TypeError, ValueError) as error:
        message = f"Expected an array of coordinates, but numpy cannot make one: {shortened(error, 160)}."
        raise PatternError(message) from error


def checked_rows(rows: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The rows as contiguous, aligned int32 or int64, copied if needed. Raises PatternError if they are no integers."""
    return [_as_index(row) for row in rows]


def _as_index(row: np.ndarray) -> np.ndarray:
    if row.dtype.kind not in "iu" and row.size:
        raise PatternError(f"Expected coordinates of an integer dtype, but got {row.dtype}. Convert them.")
    dtype = np.int32 if row.dtype == np.int32 else np.int64  # a uint64 past int64 becomes negative: out of bounds, too
    return np.require(row, dtype, ["C", "A"])


def check_bounds(rows: Sequence[np.ndarray], shape: Sequence[int]) -> None:
    """Raise PatternError for the first entry with a coordinate outside its dimension."""
    faults = []
    for dim, (row, extent) in enumerate(zip(rows, shape, strict=True)):
        outside = (row < 0) | (row >= extent)
        if outside.any():
            faults.append((int(np.argmax(outside)), dim))
    if faults:
        at, dim = min(faults)
        raise PatternError(
            f"Expected coordinates of dimension {dim} to lie in [0, {shape[dim]}), but entry {at} has {rows[dim][at]}. "
            f"Its coordinates are {shortened(tuple(int(row[at]) for row in rows))} in a tensor of shape "
            f"{shortened(tuple(shape))}."
        )
