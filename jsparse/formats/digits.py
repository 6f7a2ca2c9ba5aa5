"""Levels that store digits of coordinates, such as `i floordiv 4` and `i mod 4`: the levels of blocked formats.

The digits of a dimension are a mixed radix: each coordinate has one tuple of digits, and only the leading digit has no
limit. For blocks of 4 rows, row 11 has the digits 2 (the row of blocks) and 3 (the row inside the block).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import TypeVar

import jax
import numpy as np

from jsparse.base.dataclass import dataclass
from jsparse.errors import FormatError
from jsparse.formats.levels import Level, LevelKind, check_dimensions, dimension_name

A = TypeVar("A", np.ndarray, jax.Array)


@dataclass(frozen=True, slots=True)
class DigitLevel:
    """A level that stores the digit `(coordinate floordiv stride) mod size` of a dimension.

    Attributes:
        size: how many values the digit has. None for a leading digit, which is not reduced.
        unique: whether no digit repeats below one position of the level above.
    """

    kind: LevelKind
    dim: int
    stride: int = 1
    size: int | None = None
    unique: bool = True

    @property
    def is_whole(self) -> bool:
        """Whether the digit is the coordinate itself."""
        return self.stride == 1 and self.size is None

    def expression(self, name: str) -> str:
        """The digit of the dimension `name` in notations, such as "i floordiv 4 mod 8"."""
        by = f" floordiv {self.stride}" if self.stride > 1 else ""
        return f"{name}{by}" if self.size is None else f"{name}{by} mod {self.size}"

    def of(self, coordinates: A) -> A:
        """The digits of coordinates, of the same dtype."""
        digits = coordinates if self.stride == 1 else coordinates // self.stride
        return digits if self.size is None else digits % self.size


def radix_fault(levels: Sequence[DigitLevel], names: Sequence[str]) -> tuple[int, str] | None:
    """Find the first level whose digit does not continue a mixed radix. Returns its number and a message.

    A dimension's digits, from the last one on, have the strides 1, s, s·t, … and the sizes s, t, …, and the leading
    digit has no size. `names` has the name of each dimension.
    """
    for dim in dict.fromkeys(level.dim for level in levels):
        of_dim = [n for n, level in enumerate(levels) if level.dim == dim]
        numbers = sorted(of_dim, key=lambda n: (levels[n].stride, levels[n].size is None))
        name, stride = names[dim], 1
        for n in numbers:
            level = levels[n]
            shown = level.expression(name)
            if level.stride != stride:
                if n == numbers[0]:
                    return n, f"Expected a level of {name} mod {level.stride} as well as {shown}, but there is none"
                wanted = replace(level, stride=stride).expression(name)
                return n, f"Expected {wanted} above {name} mod {stride}, but got {shown}"
            if level.size is None and n != numbers[-1]:
                return n, f"Expected mod in all levels of {name} except one, but got {shown} twice"
            stride *= level.size or 1
        if levels[numbers[-1]].size is not None:
            last = levels[numbers[-1]].expression(name)
            return numbers[-1], f"Expected a level of {name} floordiv {stride} above {last}, but there is none"
    return None


@dataclass(frozen=True, slots=True)
class Blocks:
    """The levels of a blocked format, in storage order. Each level stores one digit of a coordinate.

    The space of levels has one dimension for each level: level n stores its dimension n. There, every tensor in this
    format is a tensor in a plain format.

    Raises FormatError if the digits of a dimension are not mixed radix, or a dimension has no level.
    """

    levels: tuple[DigitLevel, ...]

    def __post_init__(self) -> None:
        check_dimensions(len(self.levels))
        fault = radix_fault(self.levels, [f"d{dim}" for dim in range(self.ndim)])
        if fault is not None:
            raise FormatError(f"{fault[1]}.")
        if {level.dim for level in self.levels} != set(range(self.ndim)):
            raise FormatError(f"Expected a level for each of the dimensions 0 to {self.ndim - 1}.")

    @staticmethod
    def of_levels(levels: Sequence[Level]) -> Blocks:
        """The blocks of a plain format: every digit is a whole coordinate."""
        return Blocks(tuple(DigitLevel(level.kind, level.dim, unique=level.unique) for level in levels))

    @property
    def ndim(self) -> int:
        """The number of dimensions of a tensor."""
        return max((level.dim for level in self.levels), default=-1) + 1

    @property
    def is_plain(self) -> bool:
        """Whether every digit is a whole coordinate."""
        return all(level.is_whole for level in self.levels)

    @property
    def plain_levels(self) -> tuple[Level, ...]:
        """The levels of the plain format that these are if `is_plain`."""
        return tuple(Level(level.kind, level.dim, level.unique) for level in self.levels)

    @property
    def inner(self) -> tuple[DigitLevel, ...]:
        """The dense levels at the end, which are the axes of a block."""
        count = next((n for n, level in enumerate(reversed(self.levels)) if not level.kind.is_full), len(self.levels))
        return self.levels[len(self.levels) - count :]

    @property
    def outer(self) -> tuple[DigitLevel, ...]:
        """The levels above these. The outer pattern stores their digits."""
        return self.levels[: len(self.levels) - len(self.inner)]

    @property
    def notation(self) -> str:
        """The levels in MLIR's notation, such as "(i) -> (i floordiv 4 : compressed, i mod 4 : dense)"."""
        names = [dimension_name(dim, self.ndim) for dim in range(self.ndim)]
        levels = (f"{x.expression(names[x.dim])} : {Level(x.kind, x.dim, x.unique)}" for x in self.levels)
        return f"({', '.join(names)}) -> ({', '.join(levels)})"

    def sizes(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The size of each dimension of the space of levels. A block at the end may exceed the shape."""
        return tuple(-(-shape[x.dim] // x.stride) if x.size is None else x.size for x in self.levels)

    def round_up(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The size of each dimension, rounded up to whole blocks."""
        sizes = self.sizes(shape)
        pairs = list(zip(self.levels, sizes, strict=True))
        return tuple(prod(size for level, size in pairs if level.dim == dim) for dim in range(self.ndim))

    def is_ragged(self, shape: Sequence[int]) -> bool:
        """Whether blocks at the end exceed the shape, so that they have padding."""
        return self.round_up(shape) != tuple(shape)

    def are_blocks(self, order: Sequence[int]) -> bool:
        """Whether the levels are the leading digits of the dimensions in this order, then all their other digits."""
        return [x.dim for x in self.levels] == [*order] * 2 and all(x.size is None for x in self.levels[: len(order)])

    @property
    def by_coordinate(self) -> tuple[int, ...]:
        """The numbers of all levels, so that entries sorted by their digits are sorted by their coordinates."""
        order = sorted(range(len(self.levels)), key=lambda n: (-self.levels[n].stride, self.levels[n].size or 0))
        return tuple(n for dim in range(self.ndim) for n in order if self.levels[n].dim == dim)

    def split(self, rows: Sequence[A]) -> list[A]:
        """Split coordinates, one array for each dimension, into digits, one array for each level."""
        return [level.of(rows[level.dim]) for level in self.levels]

    def join(self, digits: Sequence[np.ndarray], shape: Sequence[int]) -> list[np.ndarray]:
        """Join digits, one array for each level, to coordinates of a tensor of this shape.

        Digits may be int32 where coordinates have to be int64. A block at the end may exceed the shape.
        """
        padded = [size * x.stride for x, size in zip(self.levels, self.sizes(shape), strict=True)]
        dtype = np.dtype(np.int64 if max(padded, default=0) > np.iinfo(np.int32).max else np.int32)
        rows: dict[int, np.ndarray] = {}
        for level, digit in zip(self.levels, digits, strict=True):
            digit = digit.astype(dtype, copy=False)
            part = digit if level.stride == 1 else digit * dtype.type(level.stride)
            rows[level.dim] = rows[level.dim] + part if level.dim in rows else part
        return [rows[dim] for dim in range(self.ndim)]

    def transposed(self, axes: Sequence[int]) -> Blocks:
        """The blocks of the transposed tensor, over the same arrays. Its dimension d is `axes[d]` in these blocks."""
        new = {old: dim for dim, old in enumerate(axes)}
        return Blocks(tuple(DigitLevel(x.kind, new[x.dim], x.stride, x.size, x.unique) for x in self.levels))
