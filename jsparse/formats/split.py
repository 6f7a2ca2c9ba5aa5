"""Patterns whose dimensions are split into digits, and joined again. Entries keep their order, so no value moves.

A coordinate c of a dimension that is split by the strides (8, 2, 1) becomes the digits (c // 8, c // 2 % 4, c % 2). A
dense level becomes a dense level for each digit. A level that stores coordinates becomes a level for the leading
digit, in which digits repeat, and a singleton level for each other digit. The same arrays serve static and dynamic
patterns: in a dynamic pattern, coordinates out of range are padding, and so are all of their digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Any, TypeAlias

import jax.numpy as jnp
import numpy as np

from jsparse.base.arrays import Array
from jsparse.base.dataclass import dataclass
from jsparse.base.memo import remembered
from jsparse.formats.build import index_dtype
from jsparse.formats.digits import DigitLevel
from jsparse.formats.dynamic import DynamicType
from jsparse.formats.format import Format
from jsparse.formats.levels import SINGLETON, Level, LevelKind
from jsparse.formats.pattern import Pattern

__all__ = ["Join", "Strides", "digit_sizes", "join_pattern", "split_arrays", "split_format", "split_pattern",
           "split_type"]  # fmt: skip

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


def _split_shape(shape: Sequence[int], strides: Sequence[Strides]) -> tuple[int, ...]:
    return tuple(s for size, own in zip(shape, strides, strict=True) for s in digit_sizes(size, own))


def _added_rows(format: Format, shape: Sequence[int], strides: Sequence[Strides]) -> int | None:
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


@remembered(maxsize=256)
def split_pattern(pattern: Pattern, strides: tuple[Strides, ...]) -> Pattern | None:
    """Split each dimension of a static pattern. Returns None if there is no such pattern of the same entries.

    If a dense level is outermost, its leading digit may go beyond the dimension: rows without entries are added.
    """
    format = split_format(pattern.format, strides)
    if format is None or _added_rows(pattern.format, pattern.shape, strides) is None:
        return None
    arrays = split_arrays(pattern.format, pattern.shape, strides, pattern.arrays)
    return Pattern._trusted(_split_shape(pattern.shape, strides), format, tuple(map(np.asarray, arrays)))


def split_type(type_: DynamicType, strides: Sequence[Strides]) -> DynamicType | None:
    """Split each dimension of a dynamic pattern's type, as `split_pattern` does."""
    format = split_format(type_.format, strides)
    if format is None or _added_rows(type_.format, type_.shape, strides) is None:
        return None
    found = DynamicType(_split_shape(type_.shape, strides), format, type_.nse)
    # The digits of a level have its arrays: a level of few coordinates may have a lower capacity than others.
    given = [n for n, level in zip(type_.capacities, type_.format.levels, strict=True) for _ in strides[level.dim]]
    levels = zip(given, found.capacities, found.format.levels, strict=True)
    is_alike = all(n == own for n, own, level in levels if not level.kind.is_full)
    return found if is_alike and found.index_dtype == type_.index_dtype else None


def _stored(type_: DynamicType) -> tuple[np.dtype, set[int]]:
    """The index dtype and the capacities of stored levels. A level of few coordinates may have a lower capacity."""
    levels = zip(type_.capacities, type_.format.levels, strict=True)
    return type_.index_dtype, {capacity for capacity, level in levels if not level.kind.is_full}


def split_arrays(
    format: Format, shape: Sequence[int], strides: Sequence[Strides], arrays: Sequence[Array]
) -> list[Array]:
    """Split the index arrays of a pattern in this format and shape. Their leading axes are batch axes."""
    added, made = _added_rows(format, shape, strides), list[Array]()
    assert added is not None
    for n, level in enumerate(format.levels):
        stored = [x for x, (m, _) in zip(arrays, format.arrays, strict=True) if m == n]
        if added and stored:
            pointers, other = stored
            stored = [_repeat_last(pointers, added), other if level.kind.has_coordinates else _with_zeros(other, added)]
            added = 0
        own, size = strides[level.dim], shape[level.dim]
        made += [*stored[:-1], *_digits(stored[-1], own, size)] if stored else []
    return made


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


def _repeat_last(x: Array, count: int) -> Array:
    last = x[..., -1:]
    xp: Any = np if isinstance(x, np.ndarray) else jnp
    return xp.concatenate([x, xp.broadcast_to(last, (*x.shape[:-1], count))], axis=-1)


def _with_zeros(x: Array, count: int) -> Array:
    xp: Any = np if isinstance(x, np.ndarray) else jnp
    return xp.concatenate([x, xp.zeros((*x.shape[:-1], count), x.dtype)], axis=-1)


@dataclass(frozen=True)
class Join:
    """How the digits of a pattern become coordinates: the inverse of a split.

    Attributes:
        format: the format of the joined pattern.
        shape: its shape.
        digits: for each level of the pattern, the level into which it is joined, and the size of its digit; a size of 0
            if it is the first digit of that level.
        rows: the number of rows of the outermost level, if rows beyond the shape have to be removed; else None.
    """

    format: Format
    shape: tuple[int, ...]
    digits: tuple[tuple[int, int], ...]
    rows: int | None

    @staticmethod
    def of(format: Format, sizes: Sequence[int], digits: Sequence[DigitLevel], shape: Sequence[int]) -> Join | None:
        """Join the levels of a format. Returns None if not all digits of a dimension join.

        Args:
            sizes: the shape of the pattern of the digits.
            digits: for each of its dimensions the digit that it has, with the dimension of the joined pattern.
            shape: the shape of the joined pattern.
        """
        levels: list[tuple[LevelKind, int, bool, int]] = []
        places: list[tuple[int, int]] = []
        for level in format.levels:
            digit, size = digits[level.dim], sizes[level.dim]
            kind, dim, unique, stride = levels[-1] if levels else (None, -1, True, 0)
            continues = kind is not None and dim == digit.dim and stride == digit.stride * size
            both_stored = kind is not None and kind.has_coordinates and not unique and level.kind.is_branchless
            if kind and continues and (both_stored or (kind.is_full and level.kind.is_full)):
                levels[-1] = kind, dim, level.unique, digit.stride
                places.append((len(levels) - 1, size))
                continue
            if any(dim == digit.dim for _, dim, _, _ in levels):
                return None
            levels.append((level.kind, digit.dim, level.unique, digit.stride))
            places.append((len(levels) - 1, 0))
        if any(stride > 1 for *_, stride in levels):
            return None
        joined = Format(tuple(Level(kind, dim, unique) for kind, dim, unique, _ in levels))
        return _with_rows(joined, shape, tuple(places), sizes, digits)

    def fits(self, type_: DynamicType) -> bool:
        """Whether the joined pattern of a dynamic one has the same capacities."""
        return _stored(DynamicType(self.shape, self.format, type_.nse)) == _stored(type_)

    def arrays(self, format: Format, arrays: Sequence[Array]) -> list[Array]:
        """Join the index arrays of a pattern of digits in `format`."""
        made: list[Array] = []
        dtype = index_dtype(self.shape, [x.shape[-1] for x in arrays])
        for n, (_, size) in enumerate(self.digits):
            stored = [x.astype(dtype) for x, (m, _) in zip(arrays, format.arrays, strict=True) if m == n]
            if size and stored:
                made[-1] = made[-1] * dtype.type(size) + stored[0]
            else:
                made += stored
        if self.rows is not None:
            made[0] = made[0][..., : self.rows + 1]
        return made


def _with_rows(
    joined: Format, shape: Sequence[int], places: tuple[tuple[int, int], ...],
    sizes: Sequence[int], digits: Sequence[DigitLevel],
) -> Join | None:  # fmt: skip
    """Find the rows to remove. Returns None if a level has positions beyond the shape that cannot be removed."""
    rows = None
    for n, level in enumerate(joined.levels):
        whole = prod(s for s, digit in zip(sizes, digits, strict=True) if digit.dim == level.dim)
        if whole == shape[level.dim] or level.kind.has_coordinates:
            continue
        if n > 0 or not level.kind.is_full or joined.ndim < 2 or not joined.levels[1].kind.has_segments:
            return None
        rows = shape[level.dim]
    return Join(joined, tuple(shape), places, rows)


def join_pattern(pattern: Pattern, digits: Sequence[DigitLevel], shape: Sequence[int]) -> Pattern | None:
    """Join the digits of a static pattern. Returns None if they do not join, or if an entry lies beyond the shape."""
    join = Join.of(pattern.format, pattern.shape, digits, shape)
    if join is None:
        return None
    arrays = [np.ascontiguousarray(x) for x in join.arrays(pattern.format, pattern.arrays)]
    if join.rows is not None and arrays[0][-1] < pattern.arrays[0][-1]:
        return None
    for (n, role), array in zip(join.format.arrays, arrays, strict=True):
        if role == "coordinates" and array.max(initial=0) >= shape[join.format.levels[n].dim]:
            return None
    return Pattern._trusted(tuple(shape), join.format, tuple(arrays))
