"""Patterns whose dimensions are split into digits, and joined again. Entries keep their order, so no value moves.

A coordinate c of a dimension that is split by the strides (8, 2, 1) becomes the digits (c // 8, c // 2 % 4, c % 2). A
dense level becomes a dense level for each digit. A level that stores coordinates becomes a level for the leading
digit, in which digits repeat, and a singleton level for each other digit. The same arrays serve static and dynamic
patterns: in a dynamic pattern, coordinates out of range are padding, and so are all of their digits.

If a dense level is outermost, its leading digit may go beyond the dimension. A split adds rows without entries there,
and a join removes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, pairwise
from math import prod
from typing import Any, TypeAlias

import jax.numpy as jnp
import numpy as np

from jsparse.base.arrays import Array
from jsparse.base.memo import memoize
from jsparse.formats.build import index_dtype
from jsparse.formats.dynamic import PatternType
from jsparse.formats.format import Format
from jsparse.formats.levels import SINGLETON, Level, with_arrays
from jsparse.formats.pattern import Pattern

Strides: TypeAlias = tuple[int, ...]
"""The strides of a dimension's digits, largest first. The last one is 1, and each is a multiple of the next.

A dimension of size 1 may have no digit.
"""


def digit_sizes(size: int, strides: Strides) -> tuple[int, ...]:
    """The number of values of each digit of a dimension of this size."""
    if not strides:
        return ()
    return (-(-size // strides[0]), *(upper // lower for upper, lower in pairwise(strides)))


def split_format(format: Format, strides: Sequence[Strides]) -> Format | None:
    """The format of a pattern whose dimension n is split by `strides[n]`. None if a level cannot be split.

    The digits of a dimension are neighbouring dimensions of the result, which are in the order of the dimensions.
    """
    first = np.cumsum([0, *map(len, strides)])
    levels: list[Level] = []
    for level in format.levels:
        count, dim = len(strides[level.dim]), int(first[level.dim])
        if count != 1 and not (level.kind.is_full or (count and level.kind.has_coordinates)):
            return None
        for n in range(count):
            inner = level.kind if n == 0 or level.kind.is_full else SINGLETON
            levels.append(Level(inner, dim + n, level.unique if n == count - 1 else level.kind.is_full))
    return Format(tuple(levels))


def _join_format(format: Format, strides: Sequence[Strides]) -> Format | None:
    """The format that `split_format` splits into `format`. None if there is none."""
    dims = [dim for dim, own in enumerate(strides) for _ in own]
    levels: dict[int, Level] = {}
    for level in format.levels:
        dim = dims[level.dim]
        levels[dim] = Level(levels.get(dim, level).kind, dim, level.unique)
    joined = Format(tuple(levels.values()))
    return joined if split_format(joined, strides) == format else None


def _count_added_rows(format: Format, shape: Sequence[int], strides: Sequence[Strides]) -> int | None:
    """The number of positions that leading digits of the outermost level add at its end, beyond its dimension.

    Returns None if there is no pattern of the same entries: other levels may add no positions, and the outermost may
    not if each position has an entry, or a value.
    """
    added, is_stored = 0, False
    for n, level in enumerate(format.levels):
        own, size = strides[level.dim], shape[level.dim]
        if not level.kind.is_full:
            if added and level.kind.is_branchless and not is_stored:
                return None
            is_stored = True
            continue
        if own and size % own[0] and n > 0:  # also below a stored level: each position would get more values
            return None
        if not is_stored:
            added = prod(digit_sizes(size, own)) - size if n == 0 else added * size
    return added if is_stored or not added else None


def _split(pattern: Pattern | PatternType, strides: Sequence[Strides]) -> tuple[tuple[int, ...], Format] | None:
    """The shape and the format of the digits. None if there is no pattern of the same entries."""
    format = split_format(pattern.format, strides)
    if format is None or _count_added_rows(pattern.format, pattern.shape, strides) is None:
        return None
    return tuple(s for size, own in zip(pattern.shape, strides, strict=True) for s in digit_sizes(size, own)), format


@memoize(maxsize=256)
def split_pattern(pattern: Pattern, strides: tuple[Strides, ...]) -> Pattern | None:
    """Split each dimension of a static pattern. Returns None if there is no such pattern of the same entries."""
    digits = _split(pattern, strides)
    if digits is None:
        return None
    arrays = split_arrays(pattern.format, pattern.shape, strides, pattern.arrays)
    return Pattern._of_valid(*digits, tuple(map(np.asarray, arrays)))


def split_type(type_: PatternType, strides: Sequence[Strides]) -> PatternType | None:
    """Split each dimension of a dynamic pattern's type, as `split_pattern` does."""
    digits = _split(type_, strides)
    if digits is None:
        return None
    split = PatternType(*digits, type_.nse)
    # The digits of a level have its arrays: a level of few coordinates may have a lower capacity than others.
    sizes = [n for n, level in zip(type_.level_sizes, type_.format.levels, strict=True) for _ in strides[level.dim]]
    levels = zip(sizes, split.level_sizes, split.format.levels, strict=True)
    is_alike = all(n == own for n, own, level in levels if not level.kind.is_full)
    return split if is_alike and split.index_dtype == type_.index_dtype else None


def join_pattern(pattern: Pattern, strides: Sequence[Strides], shape: Sequence[int]) -> Pattern | None:
    """Join the digits of a static pattern. Returns None if they do not join, or if an entry lies beyond the shape."""
    format = _join_format(pattern.format, strides)
    added = None if format is None else _count_added_rows(format, shape, strides)
    if format is None or added is None:
        return None
    arrays = [np.ascontiguousarray(x) for x in join_arrays(format, shape, strides, pattern.arrays)]
    if added and arrays[0][-1] < pattern.arrays[0][-1]:
        return None
    for (n, role), array in zip(format.arrays, arrays, strict=True):
        if role == "coordinates" and array.max(initial=0) >= shape[format.levels[n].dim]:
            return None
    return Pattern._of_valid(tuple(shape), format, tuple(arrays))


def join_type(type_: PatternType, strides: Sequence[Strides], shape: Sequence[int]) -> PatternType | None:
    """The type that `split_type` splits into `type_`. None if there is none."""
    format = _join_format(type_.format, strides)
    joined = None if format is None else PatternType(tuple(shape), format, type_.nse)
    return None if joined is None or split_type(joined, strides) is None else joined


def split_arrays(
    format: Format, shape: Sequence[int], strides: Sequence[Strides], arrays: Sequence[Array]
) -> list[Array]:
    """Split the index arrays of a pattern in this format and shape. Their leading axes are batch axes."""
    added, split = _count_added_rows(format, shape, strides), list[Array]()
    assert added is not None
    for level, stored in with_arrays(format.levels, arrays):
        if added and stored:
            pointers, other = stored
            other = other if level.kind.has_coordinates else _pad_end(other, added, "constant")
            stored, added = [_pad_end(pointers, added, "edge"), other], 0
        dim_strides, size = strides[level.dim], shape[level.dim]
        split += [*stored[:-1], *_digits(stored[-1], dim_strides, size)] if stored else []
    return split


def join_arrays(
    format: Format, shape: Sequence[int], strides: Sequence[Strides], arrays: Sequence[Array]
) -> list[Array]:
    """Join digits: make the index arrays of a pattern in this format and shape. The inverse of `split_arrays`."""
    added, left, joined = _count_added_rows(format, shape, strides), iter(arrays), list[Array]()
    dtype = index_dtype(shape, [x.shape[-1] for x in arrays])
    for level in format.levels:
        stored = [x.astype(dtype) for x in islice(left, len(level.kind.arrays))]
        if added and stored:
            kept = stored[0].shape[-1] - added
            stored[0] = stored[0][..., :kept]
            if not level.kind.has_coordinates:
                stored[1] = stored[1][..., : kept - 1]
            added = 0
        if stored:
            for size in digit_sizes(shape[level.dim], strides[level.dim])[1:]:
                stored[-1] = stored[-1] * dtype.type(size) + next(left).astype(dtype)
        joined += stored
    return joined


def _digits(coordinates: Array, strides: Strides, size: int) -> list[Array]:
    if len(strides) == 1:
        return [coordinates]
    sizes, number = digit_sizes(size, strides), coordinates.dtype.type
    quotients = [coordinates // number(stride) for stride in strides]
    digits = [quotients[0], *(x % number(s) for x, s in zip(quotients[1:], sizes[1:], strict=True))]
    if isinstance(coordinates, np.ndarray):
        return digits
    inside = (coordinates >= 0) & (coordinates < size)
    return [jnp.where(inside, digit, number(-1)) for digit in digits]


def _pad_end(x: Array, count: int, mode: str) -> Array:
    """Add elements at the end of the last axis."""
    xp: Any = np if isinstance(x, np.ndarray) else jnp
    return xp.pad(x, [*[(0, 0)] * (x.ndim - 1), (0, count)], mode)
