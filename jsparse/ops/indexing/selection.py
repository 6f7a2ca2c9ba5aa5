"""The selection that an index describes: slices and integers in some dimensions, index tables in all others.

A `Selector` holds the coordinates that an index selects in one dimension, and the new coordinate of each of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.base import _native
from jsparse.base.dataclass import dataclass
from jsparse.base.memo import lazy
from jsparse.ops.indexing.matches import is_small, matches

Found: TypeAlias = tuple[np.ndarray | None, np.ndarray]
"""The indices of the selected entries (None: all entries), and the new coordinates of these entries."""


@dataclass(frozen=True)
class Strided:
    """The coordinates `start + n * step` for n from 0 to `size - 1`; n is the new coordinate.

    `extent` is the size of the dimension. Slices are strided, and integers are strided with a `size` of 1.
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
        """Whether every coordinate stays unchanged."""
        return self.size == self.extent and self.step > 0

    @property
    def increases(self) -> bool:
        """Whether larger coordinates get larger new coordinates, and no coordinate is selected twice."""
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
        """The triple (start, step, size). A start that has no effect is 0, and a step that has no effect is 1."""
        return self.start if self.size else 0, self.step if self.size > 1 else 1, self.size

    def coordinates(self, dtype: np.dtype) -> np.ndarray:
        """Return an array (size,) that maps each new coordinate to the old coordinate."""
        return np.arange(self.size, dtype=dtype) * dtype.type(self.step) + dtype.type(self.start)

    def find(self, coordinates: np.ndarray) -> Found:
        """Find the selected entries among the entries with these coordinates."""
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
    """The coordinates that an index table lists. The new coordinate of each is its offset in the table.

    Attributes:
        listed: (size,) int32 or int64, from 0 to `extent - 1`, in any order, with repeats.
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
        """Whether every coordinate is known to stay as it is. The result is False, because no element is examined."""
        return False

    @lazy
    def increases(self) -> bool:
        """Whether larger coordinates get larger new coordinates, and no coordinate is selected twice."""
        return bool((self.listed[1:] > self.listed[:-1]).all())

    def coordinates(self, dtype: np.dtype) -> np.ndarray:
        """Return an array (size,) that maps each new coordinate to the old coordinate."""
        return self.listed.astype(dtype, copy=False)

    def renumbering(self, dtype: np.dtype) -> tuple[np.ndarray | None, np.ndarray]:
        """Return a table of the new coordinates of each old one, as `take_segments` of the extension reads it."""
        listed = self.listed.astype(dtype, copy=False)
        selected = np.zeros(self.extent, np.bool_)
        selected[listed] = True
        if np.count_nonzero(selected) == self.size:  # no coordinate twice
            return None, _native.invert(listed, self.extent)
        order = _native.lexsort([listed], [self.extent])
        return _native.compress(listed[order], self.extent, dtype), order.astype(dtype)

    def is_short(self, coordinates: np.ndarray) -> bool:
        """Whether a table of all old coordinates is at most a few times as long as the given arrays."""
        return is_small(self.extent, coordinates, self.listed) and self.size < 2**31

    def find(self, coordinates: np.ndarray) -> Found:
        """Find the selected entries among the entries with these coordinates.

        An entry is selected as often as the table lists its coordinate.
        """
        entries, new = matches(coordinates, self.listed, self.extent)
        return entries, new.astype(coordinates.dtype, copy=False)


Selector: TypeAlias = Strided | Listed


Label: TypeAlias = tuple[str, int]
"""A dimension of a result: ("slice", dimension of the tensor), ("table", axis of the index tables), or ("new", n)."""


class Group(NamedTuple):
    """Dimensions whose index tables vary together, and the axes of the tables along which they vary."""

    dims: tuple[int, ...]
    axes: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Selection:
    """The selection that an index makes from a tensor. Dimensions that None adds to the result are left out.

    Attributes:
        extents: the tensor's shape.
        strided: the selector of each dimension that a slice or an integer indexes.
        dropped: the dimensions that integers index; the result lacks them.
        tables: the index table of each other dimension. Known tables are numpy arrays of integers that are not
            negative. All tables have the rank of `table_shape`, and broadcast to it. Then the n-th elements of all
            tables are the coordinates of one point.
        table_shape: the shape to which the index tables broadcast.
    """

    extents: tuple[int, ...]
    strided: Mapping[int, Strided]
    dropped: frozenset[int]
    tables: Mapping[int, Any]
    table_shape: tuple[int, ...] = ()

    @lazy
    def labels(self) -> tuple[Label, ...]:
        """The dimensions of the result. The axes of index tables replace the first dimension that a table indexes."""
        labels: list[Label] = []
        for dim in range(len(self.extents)):
            if dim == self.first_table:
                labels += [("table", axis) for axis in range(len(self.table_shape))]
            elif dim in self.strided and dim not in self.dropped:
                labels.append(("slice", dim))
        return tuple(labels)

    @lazy
    def shape(self) -> tuple[int, ...]:
        """The shape of the result."""
        return tuple(self.table_shape[n] if kind == "table" else self.strided[n].size for kind, n in self.labels)

    @lazy
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

    @lazy
    def groups(self) -> tuple[Group, ...]:
        """The index tables in groups that share no axis: tables of different groups vary along different axes.

        There is one group for `A[i, j]`, and one for each dimension for `A[np.ix_(i, j)]`. Tables and axes that vary
        with none of the others belong to the first group.
        """
        if len(self.tables) <= 1:
            return (Group(tuple(self.tables), tuple(range(len(self.table_shape)))),)
        parts: list[tuple[list[int], set[int]]] = []
        for dim, table in sorted(self.tables.items()):
            axes = {axis for axis, size in enumerate(table.shape) if size != 1}
            joined = [part for part in parts if not axes.isdisjoint(part[1])]
            merged = [*(d for part in joined for d in part[0]), dim], axes.union(*(part[1] for part in joined))
            parts = [*(part for part in parts if part not in joined), merged]
        vary = sorted((sorted(dims), axes) for dims, axes in parts if axes) or [([], set())]
        fixed = [dim for dims, axes in parts if not axes for dim in dims]
        others = set(range(len(self.table_shape))).difference(*(axes for _, axes in vary))
        first = Group(tuple(sorted([*vary[0][0], *fixed])), tuple(sorted(vary[0][1] | others)))
        return first, *(Group(tuple(dims), tuple(sorted(axes))) for dims, axes in vary[1:])

    def table_of(self, dim: int, axes: Sequence[int]) -> Any:
        """Return the index table of a dimension along these axes. It does not vary along other axes."""
        table = self.tables[dim]
        kept = table.reshape([table.shape[axis] for axis in axes])
        shape = tuple(self.table_shape[axis] for axis in axes)
        if kept.shape == shape:
            return kept
        return (jnp if isinstance(table, jax.core.Tracer) else np).broadcast_to(kept, shape)

    @property
    def points(self) -> int:
        """The number of points that the index tables list."""
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
        """Replace the integers of the selection by index tables."""
        strided = {dim: selector for dim, selector in self.strided.items() if dim not in self.dropped}
        rank = len(self.table_shape)
        arrays = {dim: np.full([1] * rank, self.strided[dim].start) for dim in self.dropped}
        return replace(self, strided=strided, dropped=frozenset(), tables={**self.tables, **arrays})

    def of_slices(self) -> Selection:
        """Return the selection by slices and integers alone. Dimensions with index tables keep all coordinates."""
        whole = {dim: Strided.whole(self.extents[dim]) for dim in self.tables}
        return replace(self, strided={**self.strided, **whole}, tables={}, table_shape=())

    def of_tables(self) -> Selection:
        """Return the selection by index tables alone. It selects from the tensor that `of_slices` has selected."""
        kept = [dim for dim in range(len(self.extents)) if dim not in self.dropped]
        sizes = {dim: self.extents[dim] if dim in self.tables else self.strided[dim].size for dim in kept}
        strided = {n: Strided.whole(sizes[dim]) for n, dim in enumerate(kept) if dim not in self.tables}
        tables = {n: self.tables[dim] for n, dim in enumerate(kept) if dim in self.tables}
        return Selection(tuple(sizes.values()), strided, frozenset(), tables, self.table_shape)

    def table_vectors(self) -> list[np.ndarray]:
        """Return the index tables, which have to be known, as vectors in the order of their dimensions."""
        axes = range(len(self.table_shape))
        return [np.ascontiguousarray(self.table_of(dim, axes)).reshape(-1) for dim in sorted(self.tables)]
