"""The selection of an index from a tensor: slices and integers of some dimensions, index tables of the others.

A `Selector` is what an index selects of one dimension: its coordinates, and the new coordinate of each of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from math import prod
from typing import Any, TypeAlias

import jax
import numpy as np

from jsparse.base.dataclass import dataclass
from jsparse.ops.indexing.matches import matches

Found: TypeAlias = tuple[np.ndarray | None, np.ndarray]
"""The numbers of the entries that are selected (None: all of them), and their new coordinates."""


@dataclass(frozen=True)
class Strided:
    """The coordinates `start + n * step` for n from 0 to `size - 1`; n is the new coordinate.

    `extent` is the size of the dimension. A slice is strided, and so is an integer, with a size of 1.
    """

    start: int
    step: int
    size: int
    extent: int

    @staticmethod
    def whole(extent: int) -> Strided:
        """The selector of all coordinates."""
        return Strided(0, 1, extent, extent)

    @property
    def is_whole(self) -> bool:
        """Whether every coordinate stays as it is."""
        return self.size == self.extent and self.step > 0

    @property
    def increases(self) -> bool:
        """Whether larger coordinates get larger new ones, and none is selected twice."""
        return self.step > 0 or self.size <= 1

    @property
    def bounds(self) -> tuple[int, int]:
        """The smallest and the largest coordinate that is selected; (0, -1) if none is."""
        if not self.size:
            return 0, -1
        ends = self.start, self.start + (self.size - 1) * self.step
        return min(ends), max(ends)

    @property
    def triple(self) -> tuple[int, int, int]:
        """The triple (start, step, size), with small numbers in place of a start or step that does not matter."""
        return self.start if self.size else 0, self.step if self.size > 1 else 1, self.size

    def coordinates(self, dtype: np.dtype) -> np.ndarray:
        """(size,) the coordinates, by new coordinate."""
        return np.arange(self.size, dtype=dtype) * dtype.type(self.step) + dtype.type(self.start)

    def find(self, coordinates: np.ndarray) -> Found:
        """Find which entries with these coordinates are selected."""
        if self.is_whole:
            return None, coordinates
        low, high = self.bounds
        inside = (coordinates >= low) & (coordinates <= high)
        if abs(self.step) > 1:
            inside &= (coordinates - low) % abs(self.step) == 0
        kept = np.flatnonzero(inside)
        moved = coordinates[kept] - coordinates.dtype.type(self.start)
        return kept, moved if self.step == 1 else moved // self.step


@dataclass(frozen=True, eq=False)
class Listed:
    """The coordinates that an index table lists; the offset in the table is the new coordinate.

    Attributes:
        listed: (size,) int64, from 0 to `extent - 1`, in any order, with repeats.
        extent: the size of the dimension.
    """

    listed: np.ndarray
    extent: int

    @property
    def size(self) -> int:
        """The number of new coordinates."""
        return len(self.listed)

    @property
    def is_whole(self) -> bool:
        """Whether every coordinate stays as it is, as far as that is known at no cost."""
        return False

    @cached_property
    def increases(self) -> bool:
        """Whether larger coordinates get larger new ones, and none is selected twice."""
        return bool((self.listed[1:] > self.listed[:-1]).all())

    def coordinates(self, dtype: np.dtype) -> np.ndarray:
        """(size,) the coordinates, by new coordinate."""
        return self.listed.astype(dtype, copy=False)

    def find(self, coordinates: np.ndarray) -> Found:
        """Find which entries with these coordinates are selected. An entry is selected as often as it is listed."""
        entries, new = matches(coordinates, self.listed, self.extent)
        return entries, new.astype(coordinates.dtype, copy=False)


Selector: TypeAlias = Strided | Listed


Label: TypeAlias = tuple[str, int]
"""A dimension of a result: ("slice", dimension of the tensor), ("table", axis of the index tables), or ("new", n)."""


@dataclass(frozen=True, eq=False)
class Selection:
    """A selection, without the dimensions that None adds.

    Attributes:
        extents: the tensor's shape.
        strided: the selector of each dimension that a slice or an integer indexes.
        dropped: the dimensions that integers index; the result lacks them.
        tables: the index table of each other dimension. All have one shape, and known ones are numpy arrays of int64
            within the dimension. Together they select points of their dimensions.
        table_shape: the shape of the index tables.
    """

    extents: tuple[int, ...]
    strided: Mapping[int, Strided]
    dropped: frozenset[int]
    tables: Mapping[int, Any]
    table_shape: tuple[int, ...] = ()

    @cached_property
    def labels(self) -> tuple[Label, ...]:
        """The dimensions of the result. The axes of index tables replace the first dimension that a table indexes."""
        found: list[Label] = []
        for dim in range(len(self.extents)):
            if dim == self.first_table:
                found += [("table", axis) for axis in range(len(self.table_shape))]
            elif dim in self.strided and dim not in self.dropped:
                found.append(("slice", dim))
        return tuple(found)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The shape of the result."""
        return tuple(self.table_shape[n] if kind == "table" else self.strided[n].size for kind, n in self.labels)

    @cached_property
    def parts(self) -> tuple[int, ...]:
        """How many dimensions of the result come from each dimension of the tensor."""
        return tuple(
            len(self.table_shape) if dim == self.first_table else int(dim in self.strided and dim not in self.dropped)
            for dim in range(len(self.extents))
        )

    @property
    def first_table(self) -> int | None:
        """The first dimension that an index table indexes."""
        return min(self.tables, default=None)

    @property
    def points(self) -> int:
        """The number of elements of an index table."""
        return prod(self.table_shape)

    @property
    def is_known(self) -> bool:
        """Whether no index table is traced."""
        return not any(isinstance(table, jax.core.Tracer) for table in self.tables.values())

    @property
    def is_whole(self) -> bool:
        """Whether the result is the tensor itself."""
        whole = all(selector.is_whole for selector in self.strided.values())
        return whole and not self.dropped and not self.tables

    def without_integers(self) -> Selection:
        """The same selection, with index tables in place of integers."""
        strided = {dim: selector for dim, selector in self.strided.items() if dim not in self.dropped}
        arrays = {dim: np.full(self.table_shape, self.strided[dim].start) for dim in self.dropped}
        return replace(self, strided=strided, dropped=frozenset(), tables={**self.tables, **arrays})

    def of_slices(self) -> Selection:
        """The selection by slices and integers alone: dimensions with index tables stay whole."""
        whole = {dim: Strided.whole(self.extents[dim]) for dim in self.tables}
        return replace(self, strided={**self.strided, **whole}, tables={}, table_shape=())

    def of_tables(self) -> Selection:
        """The selection by index tables alone, from the result of `of_slices`."""
        kept = [dim for dim in range(len(self.extents)) if dim not in self.dropped]
        sizes = {dim: self.extents[dim] if dim in self.tables else self.strided[dim].size for dim in kept}
        strided = {n: Strided.whole(sizes[dim]) for n, dim in enumerate(kept) if dim not in self.tables}
        tables = {n: self.tables[dim] for n, dim in enumerate(kept) if dim in self.tables}
        return Selection(tuple(sizes.values()), strided, frozenset(), tables, self.table_shape)

    def listed(self) -> list[np.ndarray]:
        """Known index tables as vectors."""
        return [np.ascontiguousarray(table).reshape(-1) for _, table in sorted(self.tables.items())]
