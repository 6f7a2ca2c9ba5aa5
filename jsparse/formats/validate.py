"""Checks of the shapes, coordinates and index arrays that users give."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from jsparse.base import _native
from jsparse.base.arrays import check_alive, is_masked
from jsparse.errors import PatternError, short_repr, shorten
from jsparse.formats.build import FAR, check_nse, compare_neighbours, level_tuples
from jsparse.formats.format import Format
from jsparse.formats.levels import array_length, with_arrays


def split_coordinates(coords: Any, shape: Sequence[int]) -> list[np.ndarray]:
    """Return the rows of the array `coords`, whose shape is (ndim, n). Raises PatternError for another shape."""
    array, ndim = as_coordinates(coords), len(shape)
    if array.ndim != 2 or array.shape[0] != ndim:
        raise PatternError(
            f"Expected coordinates of shape ({ndim}, n), one row for each of the {ndim} dimensions of "
            f"{shorten(tuple(shape))}, but got {array.shape}."
        )
    return list(array)


def as_coordinates(coords: Any) -> np.ndarray:
    """Convert coordinates to a numpy array.

    Raises PatternError if numpy cannot, and for a masked array, whose mask would be lost; DeletedArrayError for a
    deleted array of jax.
    """
    check_alive(coords, "an array of coordinates")
    if is_masked(coords):
        raise PatternError(
            "Expected an array of coordinates, but got a NumPy masked array. Leave out the masked coordinates."
        )
    try:
        return np.asarray(coords)
    except (TypeError, ValueError) as error:
        message = f"Expected an array of coordinates, but NumPy cannot make an array: {shorten(error, 160)}."
        raise PatternError(message) from error


def as_index_rows(rows: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Convert rows to contiguous, aligned int32 or int64, if necessary. Raises PatternError for non-integers."""
    return [_as_index(row) for row in rows]


def _as_index(row: np.ndarray) -> np.ndarray:
    if row.dtype.kind not in "iu" and row.size:
        raise PatternError(f"Expected coordinates of an integer dtype, but got {row.dtype}. Convert them.")
    dtype = np.int32 if row.dtype == np.int32 else np.int64  # a uint64 past int64 becomes negative: out of bounds, too
    return np.require(row, dtype, ["C", "A"])


LARGEST_SIZE = FAR  # the limit of the extension's sort; the sum of two sizes is an integer of 64 bits


def sizes_of(shape: Any) -> tuple[int, ...]:
    """Convert `shape` to a tuple of ints. Raises PatternError if it is not a shape."""
    try:
        sizes = tuple(map(operator.index, shape))
    except TypeError as error:
        is_traced = isinstance(shape, tuple | list) and any(isinstance(size, jax.core.Tracer) for size in shape)
        advice = " Inside jit, sizes are static arguments: name them in static_argnames=." if is_traced else ""
        raise PatternError(f"Expected a shape of static integers, but got {short_repr(shape)}.{advice}") from error
    if any(size < 0 or size > LARGEST_SIZE for size in sizes):
        raise PatternError(f"Expected the sizes of a shape to be between 0 and 2**62, but got {shorten(sizes)}.")
    return sizes


def parse_shape(shape: Sequence[int], format: Format) -> tuple[int, ...]:
    """Convert `shape` to a tuple of ints. Raises PatternError if it is not a shape of the rank of the format."""
    sizes = sizes_of(shape)
    if len(sizes) != format.ndim:
        raise PatternError(
            f"Expected a shape of {format.ndim} dimensions for the format {shorten(format)}, but got {shorten(sizes)}."
        )
    return sizes


def check_arrays(shape: tuple[int, ...], format: Format, arrays: Sequence[np.ndarray]) -> None:
    """Raise PatternError for the first fault if `arrays` are not valid index arrays for this shape and format."""
    _check_kinds(format, arrays)
    if _well_formed(shape, format, arrays):
        return
    by_level, size = [of_level for _, of_level in with_arrays(format.levels, arrays)], 1
    for chain in format.chains:
        first, of_first = format.levels[chain[0]], by_level[chain[0]]
        fault = first.kind.fault(size, shape[first.dim], of_first)
        if fault is not None:
            raise PatternError(f"Expected the {fault[0]} of level {chain[0]} {fault[1]}.")
        size = check_nse(first.kind.positions(size, shape[first.dim], of_first), format, shape)
        stored_levels = [n for n in chain if format.levels[n].kind.has_coordinates]
        rows = [by_level[n][-1] for n in stored_levels]
        for level, row in zip(stored_levels, rows, strict=True):
            _check_coordinates(level, row, size, shape[format.levels[level].dim])
        if first.kind.has_coordinates:
            _check_order(format, chain, of_first[0], rows)


def _well_formed(shape: tuple[int, ...], format: Format, arrays: Sequence[np.ndarray]) -> bool:
    """Whether the index arrays are valid. If they are not, slower checks of `check_arrays` find the fault."""
    size = 1
    for level, of_level in with_arrays(format.levels, arrays):
        parents, size = size, level.kind.positions(size, shape[level.dim], of_level)
        roles = zip(level.kind.arrays, of_level, strict=True)
        if any(len(array) != array_length(role, parents, size) for role, array in roles):
            return False
    check_nse(size, format, shape)
    dtype = np.int32 if all(array.dtype == np.int32 for array in arrays) else np.int64
    return not arrays or not _native.faults([_as_c(a, dtype) for a in arrays], level_tuples(shape, format), size)


def _as_c(array: np.ndarray, dtype: type) -> np.ndarray:
    """Make an array contiguous and aligned for C code. Only an array that is not needs the slow `np.require`."""
    if array.dtype == dtype and array.flags.c_contiguous and array.flags.aligned:
        return array
    return np.require(array, dtype, ["C", "A"])


def _check_kinds(format: Format, arrays: Sequence[np.ndarray]) -> None:
    if len(arrays) == len(format.arrays) and all(a.ndim == 1 and a.dtype.kind in "iu" for a in arrays):
        return
    words = [f"{role} of level {level}" for level, role in format.arrays]
    if len(arrays) != len(words):
        raise PatternError(
            f"Expected {len(words)} index arrays for the format {format.name} ({', '.join(words) or 'none'}), "
            f"but got {len(arrays)}."
        )
    for word, array in zip(words, arrays, strict=True):
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise PatternError(
                f"Expected the {word} to be a one-dimensional array of integers, "
                f"but got shape {array.shape} of {array.dtype}."
            )


def _check_coordinates(level: int, row: np.ndarray, count: int, extent: int) -> None:
    what = f"the coordinates of level {level}"
    if len(row) != count:
        raise PatternError(f"Expected {what} to be {count} long, one for each position, but got {len(row)}.")
    outside = (row < 0) | (row >= extent)
    if outside.any():
        at = int(np.argmax(outside))
        raise PatternError(
            f"Expected {what} to lie in [0, {extent}), but the coordinate at position {at} is {row[at]}."
        )


def _check_order(format: Format, chain: range, pointers: np.ndarray, rows: list[np.ndarray]) -> None:
    """Raise PatternError unless the coordinate tuples of a chain increase below each parent.

    A chain is a level and the singletons below it. Also raises PatternError if a unique level repeats a coordinate.
    """
    siblings = np.ones(max(len(rows[0]) - 1, 0), np.bool_)
    starts = pointers[1:-1]
    siblings[starts[(starts > 0) & (starts < len(rows[0]))] - 1] = False
    less, equal = compare_neighbours(rows)
    wrong = siblings & ~less
    if wrong.any():
        at = int(np.argmax(wrong))
        pair = [tuple(int(row[at + step]) for row in rows) for step in (0, 1)]
        fault = "repeat" if equal[at] else "are out of order"
        dims = tuple(format.levels[level].dim for level in chain)
        raise PatternError(
            f"Expected the coordinates of dimensions {dims} to increase within their parent, but {pair[0]} at position "
            f"{at} and {pair[1]} at position {at + 1} {fault}. Use Pattern.from_coordinates to sort and merge."
        )
    for step, level in enumerate(chain[:-1]):
        if format.levels[level].unique:
            repeated = siblings & compare_neighbours(rows[: step + 1])[1]
            if repeated.any():
                at = int(np.argmax(repeated))
                raise PatternError(
                    f"Expected the coordinates of level {level}, which is unique, to differ within their parent, but "
                    f"positions {at} and {at + 1} both have {rows[step][at]}. Make the level nonunique."
                )
