"""Tensors that follow one another in storage order: their index arrays are joined as they are, without a sort."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

import numpy as np

from jsparse.formats import Format
from jsparse.formats.build import index_dtype
from jsparse.formats.set_operations import Stored
from jsparse.ops.relocation.coordinate_map import CoordinateMap, Offset

__all__ = ["joined_arrays"]


def joined_arrays(
    parts: Sequence[Stored], maps: Sequence[CoordinateMap], shape: tuple[int, ...], format: Format
) -> tuple[np.ndarray, ...] | None:
    """The index arrays of the tensor that has the entries of all parts, in their order, at the mapped coordinates.

    The result is None unless the parts have its format and follow one another along the dimension that is stored first.
    Then each of them has parents of its own in all levels below.
    """
    offsets = [[by or 0 for by in one.offsets] for one in maps if isinstance(one, Offset)]
    if len(offsets) < len(maps) or any(part.format != format for part in parts):
        return None
    moves = list(zip(*offsets, strict=True))  # by dimension
    if not _follow(parts, moves, shape, format):
        return None
    found: list[np.ndarray] = []
    arrays = [iter(part.arrays) for part in parts]
    parents: int | None = None  # the positions of the level above; None at the root, which all parts share
    for level in format.levels:
        if level.kind.is_full:
            parents = shape[level.dim] * (1 if parents is None else parents)
            continue
        pointers = [next(own) for own in arrays] if level.kind.has_pointers else None
        coordinates = [next(own) for own in arrays]
        counts = [len(own) for own in coordinates]
        dtype = index_dtype(shape, [total := sum(counts), parents or 0])
        if pointers is not None:
            found.append(_pointers(pointers, counts, parents, dtype))
        joined = np.concatenate(coordinates, dtype=dtype)
        if any(moves[level.dim]):
            joined += np.repeat(np.array(moves[level.dim], dtype), counts)
        found.append(joined)
        parents = total
    return tuple(found)


def _follow(parts: Sequence[Stored], moves: Sequence[Sequence[int]], shape: tuple[int, ...], format: Format) -> bool:
    """Whether the parts follow one another, so that the entries of each are behind all entries of those before it."""
    if format.is_dense or not format.appends:
        return False
    outer, *inner = format.levels
    sizes = [part.shape[outer.dim] for part in parts]
    starts = moves[outer.dim]
    if outer.kind.is_full:  # no gap between the parts: their parents are numbered through
        if list(starts) != [0, *accumulate(sizes[:-1])]:
            return False
    elif any(start + size > after for (start, after), size in zip(pairwise(starts), sizes, strict=False)):
        return False
    return all(part.shape[level.dim] == shape[level.dim] for level in inner if level.kind.is_full for part in parts)


def _pointers(given: Sequence[np.ndarray], counts: Sequence[int], parents: int | None, dtype: np.dtype) -> np.ndarray:
    """The pointers of all parts, one after the other, and those below the other ones of the `parents`, if any."""
    total = sum(counts)
    if parents is None:
        return np.array([0, total], dtype)
    ends = np.concatenate([own[1:] for own in given], dtype=dtype)
    pointers = np.empty(parents + 1, dtype)
    pointers[0], pointers[len(ends) + 1 :] = 0, total
    before = np.array([0, *accumulate(counts[:-1])], dtype)
    np.add(ends, np.repeat(before, [len(own) - 1 for own in given]), out=pointers[1 : len(ends) + 1])
    return pointers
