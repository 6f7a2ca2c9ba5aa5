"""Checks coordinates given by a user."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from jsparse.errors import PatternError
from jsparse.formats.build import index_dtype

__all__ = ["checked_coordinates"]


def checked_coordinates(coords: Any, shape: Sequence[int]) -> list[np.ndarray]:
    """A fresh row (n,) per dimension of the (ndim, n) integers `coords`, int32 unless a dimension needs int64.

    Raises PatternError if they are no integers, have another shape, or lie outside: the first such place.
    """
    given = np.asarray(coords)
    ndim = len(shape)
    if given.ndim != 2 or given.shape[0] != ndim:
        raise PatternError(
            f"Expected coordinates of shape ({ndim}, n), one row for each of the {ndim} dimensions of {tuple(shape)}, "
            f"but got {given.shape}."
        )
    if given.dtype.kind not in "iu" and given.size:
        raise PatternError(f"Expected coordinates of an integer dtype, but got {given.dtype}. Convert them.")
    _check_bounds(given, shape)
    dtype = index_dtype(shape, [given.shape[1]])
    return [row.astype(dtype) for row in given]


def _check_bounds(given: np.ndarray, shape: Sequence[int]) -> None:
    faults = []
    for dim, (row, extent) in enumerate(zip(given, shape, strict=True)):
        if row.size and (row.min() < 0 or row.max() >= extent):
            at = int(np.argmax((row < 0) | (row >= extent)))
            faults.append((at, dim))
    if faults:
        at, dim = min(faults)
        raise PatternError(
            f"Expected coordinates of dimension {dim} to lie in [0, {shape[dim]}), "
            f"but entry {at} has {given[dim, at]}: "
            f"all of it is {tuple(given[:, at].tolist())} in a tensor of shape {tuple(shape)}."
        )
