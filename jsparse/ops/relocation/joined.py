"""Joins the index arrays of tensors whose entries need no sort, because one tensor's entries follow another's."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import TypeAlias

import numpy as np

from jsparse.base import _native
from jsparse.formats import Format, Pattern
from jsparse.formats.build import index_dtype
from jsparse.formats.set_operations import PatternArrays
from jsparse.ops.relocation.coordinate_map import CoordinateMap, Offset
from jsparse.tensor.dynamic_pattern import DynamicPattern

Joined: TypeAlias = tuple[tuple[np.ndarray, ...], np.ndarray | None]
"""Index arrays, and for each block of the result the block's number among the blocks of all parts. None: they stay."""


def as_stored(pattern: Pattern | DynamicPattern) -> PatternArrays:
    """Return the entries of a pattern whose index arrays are known."""
    if isinstance(pattern, DynamicPattern):
        return pattern.to_stored()
    return PatternArrays(pattern.shape, pattern.format, pattern.arrays)


def join_parts(
    parts: Sequence[PatternArrays], maps: Sequence[CoordinateMap], shape: tuple[int, ...], format: Format
) -> Joined | None:
    """Join parts in the result's format whose coordinates are moved by offsets. Returns None for other parts.

    This works if the parts follow one another along the dimension of the outermost level, or along the dimension of the
    only level that is not dense.
    """
    offsets = [[by or 0 for by in one.offsets] for one in maps if isinstance(one, Offset)]
    if len(offsets) < len(maps) or any(part.format != format for part in parts):
        return None
    moves = list(zip(*offsets, strict=True))  # by dimension
    if _follow(parts, moves, shape, format):
        return _one_after_the_other(parts, moves, shape, format), None
    return _in_segments(parts, moves, shape, format)


def _in_segments(
    parts: Sequence[PatternArrays], moves: Sequence[Sequence[int]], shape: tuple[int, ...], format: Format
) -> Joined | None:
    """Join parts whose only level that is not dense is compressed. Each segment joins the segments of all parts."""
    inner = [level for level in format.levels if not level.kind.is_full]
    if len(inner) != 1 or not inner[0].kind.has_segments:
        return None
    along = inner[0].dim
    sizes, starts = [part.shape[along] for part in parts], moves[along]
    for dim, size in enumerate(shape):
        if dim != along and (any(moves[dim]) or any(part.shape[dim] != size for part in parts)):
            return None
    if any(start + size > after for (start, after), size in zip(pairwise(starts), sizes, strict=False)):
        return None
    dtype = index_dtype(shape, [sum(len(part.arrays[1]) for part in parts), len(parts[0].arrays[0])])
    segments = [(part.arrays[0].astype(dtype, copy=False), part.arrays[1].astype(dtype, copy=False)) for part in parts]
    pointers, coordinates, gather = _native.join_segments(segments, starts)
    return (pointers, coordinates), gather


def _one_after_the_other(
    parts: Sequence[PatternArrays], moves: Sequence[Sequence[int]], shape: tuple[int, ...], format: Format
) -> tuple[np.ndarray, ...]:
    """Join parts that follow one another along the outermost level's dimension: each level has the positions of one
    part after the other."""
    index_arrays: list[np.ndarray] = []
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
            index_arrays.append(_pointers(pointers, counts, parents, dtype))
        joined = np.concatenate(coordinates, dtype=dtype)
        if any(moves[level.dim]):
            joined += np.repeat(np.array(moves[level.dim], dtype), counts)
        index_arrays.append(joined)
        parents = total
    return tuple(index_arrays)


def _follow(
    parts: Sequence[PatternArrays], moves: Sequence[Sequence[int]], shape: tuple[int, ...], format: Format
) -> bool:
    """Whether the parts follow one another: the entries of each part come after all entries of the parts before it."""
    if format.is_dense or not format.appends:
        return False
    outer, *inner = format.levels
    sizes = [part.shape[outer.dim] for part in parts]
    starts = moves[outer.dim]
    if outer.kind.is_full:  # no gap between the parts: their parents are numbered consecutively
        if list(starts) != [0, *accumulate(sizes[:-1])]:
            return False
    elif any(start + size > after for (start, after), size in zip(pairwise(starts), sizes, strict=False)):
        return False
    return all(part.shape[level.dim] == shape[level.dim] for level in inner if level.kind.is_full for part in parts)


def _pointers(given: Sequence[np.ndarray], counts: Sequence[int], parents: int | None, dtype: np.dtype) -> np.ndarray:
    """Concatenate the pointers of all parts. Parents after the last part get empty segments."""
    total = sum(counts)
    if parents is None:
        return np.array([0, total], dtype)
    ends = np.concatenate([part[1:] for part in given], dtype=dtype)
    pointers = np.empty(parents + 1, dtype)
    pointers[0], pointers[len(ends) + 1 :] = 0, total
    before = np.array([0, *accumulate(counts[:-1])], dtype)
    np.add(ends, np.repeat(before, [len(part) - 1 for part in given]), out=pointers[1 : len(ends) + 1])
    return pointers
