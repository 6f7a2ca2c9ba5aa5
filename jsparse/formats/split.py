"""Patterns whose dimensions are split into digits, and joined again. Entries keep their order, so no value moves.

A coordinate c of a dimension that is split by the strides (8, 2, 1) becomes the digits (c // 8, c // 2 % 4, c % 2). A
dense level becomes a dense level for each digit. A level that stores coordinates becomes a level for the leading
digit, in which digits repeat, and a singleton level for each other digit.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import TypeAlias

import numpy as np

from jsparse.base.memo import remembered
from jsparse.formats.digits import DigitLevel
from jsparse.formats.format import Format
from jsparse.formats.levels import COMPRESSED, SINGLETON, Level, LevelKind
from jsparse.formats.pattern import Pattern

__all__ = ["Strides", "digit_sizes", "join_pattern", "split_format", "split_pattern"]

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
    """The format of a pattern whose dimension n is split by `strides[n]`. None if a level cannot be split."""
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


@remembered(maxsize=256)
def split_pattern(pattern: Pattern, strides: tuple[Strides, ...]) -> Pattern | None:
    """Split each dimension of a pattern into digits. Returns None if there is no such pattern of the same entries.

    Its dimensions are the digits of the first dimension, then those of the second, and so on. If a dense level is
    outermost, its leading digit may go beyond the dimension: rows are added at the end, without entries.
    """
    if all(len(own) == 1 for own in strides):
        return pattern
    format = split_format(pattern.format, strides)
    if format is None:
        return None
    sizes = [digit_sizes(size, own) for size, own in zip(pattern.shape, strides, strict=True)]
    arrays, added = list[np.ndarray](), 0
    for n, level in enumerate(pattern.format.levels):
        own, size = strides[level.dim], pattern.shape[level.dim]
        stored = [pattern.arrays[k] for k, (m, _) in enumerate(pattern.format.arrays) if m == n]
        if level.kind.is_full:
            if own and size % own[0] and n > 0:
                return None
            added = prod(sizes[level.dim]) - size if n == 0 else added * size
            continue
        if added:
            stored = _with_rows(level.kind, stored, added)
            if not stored:
                return None
            added = 0
        *others, coordinates = stored
        pieces = [coordinates] if len(own) == 1 else _digits(coordinates, own, sizes[level.dim])
        arrays += [*others, *pieces]
    return None if added else Pattern._trusted(tuple(s for own in sizes for s in own), format, tuple(arrays))


def _digits(coordinates: np.ndarray, strides: Strides, sizes: Sequence[int]) -> list[np.ndarray]:
    leading, *others = (coordinates // coordinates.dtype.type(stride) for stride in strides)
    return [leading, *(x % x.dtype.type(size) for x, size in zip(others, sizes[1:], strict=True))]


def _with_rows(kind: LevelKind, stored: Sequence[np.ndarray], count: int) -> list[np.ndarray]:
    """Add parents without entries at the end of a level's arrays. The result is empty if each parent has an entry."""
    if kind.is_branchless:
        return []
    pointers, other = stored
    pointers = np.concatenate([pointers, np.full(count, pointers[-1], pointers.dtype)])
    starts = other if kind.has_coordinates else np.concatenate([other, np.zeros(count, other.dtype)])
    return [pointers, starts]


def join_pattern(pattern: Pattern, digits: Sequence[DigitLevel], shape: Sequence[int]) -> Pattern | None:
    """Join digits to coordinates: the inverse of `split_pattern`.

    Returns None if not all digits of a dimension join, or if an entry lies beyond the shape.

    Args:
        pattern: the pattern of the digits.
        digits: for each dimension of the pattern, the digit that it has, with the dimension of the joined pattern.
        shape: the shape of the joined pattern.
    """
    levels: list[tuple[LevelKind, int, bool, int]] = []
    arrays: list[np.ndarray] = []
    for n, level in enumerate(pattern.format.levels):
        digit, size = digits[level.dim], pattern.shape[level.dim]
        stored = [pattern.arrays[k] for k, (m, _) in enumerate(pattern.format.arrays) if m == n]
        below = levels[-1] if levels else None
        if below is not None and below[1] == digit.dim and below[3] == digit.stride * size:
            kind, dim, unique, _ = below
            if kind.is_full and level.kind.is_full:
                levels[-1] = kind, dim, True, digit.stride
                continue
            if kind in (COMPRESSED, SINGLETON) and not unique and level.kind is SINGLETON:
                arrays[-1] = arrays[-1] * arrays[-1].dtype.type(size) + stored[0]
                levels[-1] = kind, dim, level.unique, digit.stride
                continue
        if any(dim == digit.dim for _, dim, _, _ in levels):
            return None
        levels.append((level.kind, digit.dim, level.unique, digit.stride))
        arrays += stored
    if any(stride > 1 for *_, stride in levels):
        return None
    format = Format(tuple(Level(kind, dim, unique) for kind, dim, unique, _ in levels))
    return _without_rows(pattern, digits, shape, format, arrays)


def _without_rows(
    pattern: Pattern, digits: Sequence[DigitLevel], shape: Sequence[int], format: Format, arrays: list[np.ndarray]
) -> Pattern | None:
    """Remove rows beyond the shape. Returns None if an entry lies beyond it."""
    whole = [prod(s for s, digit in zip(pattern.shape, digits, strict=True) if digit.dim == dim)
             for dim in range(len(shape))]  # fmt: skip
    for n, level in enumerate(format.levels):
        size = shape[level.dim]
        if whole[level.dim] == size:
            continue
        if level.kind.is_full:
            below = format.levels[1].kind if n == 0 and format.ndim > 1 else None
            if below is not COMPRESSED or arrays[0][size] < arrays[0][-1]:
                return None
            arrays[0] = np.ascontiguousarray(arrays[0][: size + 1])
        elif not level.kind.has_coordinates or arrays[format.arrays.index((n, "coordinates"))].max(initial=0) >= size:
            return None
    return Pattern._trusted(tuple(shape), format, tuple(arrays))
