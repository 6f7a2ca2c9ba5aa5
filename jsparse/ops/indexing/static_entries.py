"""Finds the entries that selectors select in a static pattern, level by level, from the outermost level inwards.

There is one step for each chain: a level and the singleton levels below it, which have the same positions. A step
starts from the selected positions of the level above. So a row of a csr matrix is found by its two pointers, and a
range of rows is a range of slots. For each position that it selects, the step records a link to the position above.
The index arrays of the result, or the coordinates of the entries, are computed from these links (`links.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TypeAlias

import numpy as np

from jsparse.base import _native
from jsparse.base.dataclass import dataclass
from jsparse.formats import Level, Pattern
from jsparse.ops.indexing.gathered import Positions, as_array, concatenate_ranges, count, take_elements
from jsparse.ops.indexing.links import DenseBlock, Link, Segments, select_pointers
from jsparse.ops.indexing.selection import Selector, Strided

_Table: TypeAlias = tuple[np.ndarray | None, np.ndarray | None]  # what `Listed.renumbering` returns; None: no table


@dataclass(frozen=True)
class SelectedEntries:
    """Selected entries.

    Attributes:
        slots: the slots of the entries.
        links: the selected positions of each level or chain, and their parents, from the outermost to the innermost.
        dropped: the dimensions whose new coordinates are left out.
        in_order: whether the entries are sorted by their new coordinates, in storage order.
    """

    slots: Positions
    links: tuple[Link, ...]
    dropped: frozenset[int]
    in_order: bool

    def rows(self) -> Mapping[int, np.ndarray]:
        """The new coordinates of the entries, for each dimension of the pattern that was not dropped."""
        rows: dict[int, np.ndarray] = {}
        numbers: np.ndarray | None = None  # the position above each entry, by number; None: n for entry n
        for link in reversed(self.links):
            rows.update(link.coordinates(numbers, self.dropped))
            numbers = link.parents(numbers)
        return rows


def select_entries(pattern: Pattern, selectors: Mapping[int, Selector], dropped: frozenset[int]) -> SelectedEntries:
    """Find the entries that all selectors select. The dimensions `dropped` get no new coordinates."""
    state = _LevelSelection(pattern.index_dtype)
    stored = iter(pattern.arrays)
    for chain in pattern.format.chains:
        levels = [pattern.format.levels[n] for n in chain]
        arrays = [list(islice(stored, len(level.kind.arrays))) for level in levels]
        state.step(levels, arrays, selectors)
    return SelectedEntries(state.positions, tuple(state.links), dropped, state.in_order)


class _LevelSelection:
    """The state of a selection after some levels.

    Attributes:
        positions: the selected positions of the innermost level so far.
        links: for each chain of levels so far, its selected positions.
        in_order: whether the positions are sorted by their new coordinates.
    """

    def __init__(self, dtype: np.dtype) -> None:
        self.dtype = dtype
        self.positions: Positions = slice(0, 1)
        self.links: list[Link] = []
        self.in_order = True

    def step(
        self, levels: Sequence[Level], arrays: Sequence[list[np.ndarray]], selectors: Mapping[int, Selector]
    ) -> None:
        """Select positions in the next chain of levels, which has these index arrays."""
        first = levels[0]
        if first.kind.has_coordinates:
            columns = {level.dim: own[-1] for level, own in zip(levels, arrays, strict=True)}
            self._to_segments(arrays[0][0], columns, selectors)
            return
        if first.kind.is_full:
            self._to_dense(first.dim, selectors[first.dim])
        else:
            self._to_runs(first.dim, arrays[0], selectors[first.dim])
        for level, (coordinates,) in zip(levels[1:], arrays[1:], strict=True):
            self._to_singletons(level.dim, coordinates, selectors[level.dim])

    def _to_dense(self, dim: int, selector: Selector) -> None:
        """Select positions in a dense level. Below each parent, the same coordinates are selected."""
        above = self.positions
        parents, size, extent = count(above), selector.size, selector.extent
        if selector.is_whole and isinstance(above, slice):
            self.positions = slice(above.start * size, above.stop * size)
        elif isinstance(above, slice) and parents == 1 and isinstance(selector, Strided) and selector.step == 1:
            first = above.start * extent + selector.start
            self.positions = slice(first, first + size)
        else:
            below = as_array(above, self.dtype)[:, None] * extent + selector.coordinates(self.dtype)
            self.positions = below.reshape(-1)
        self.links.append(DenseBlock(dim, parents, size, self.dtype))

    def _to_segments(
        self, pointers: np.ndarray, columns: dict[int, np.ndarray], selectors: Mapping[int, Selector]
    ) -> None:
        """Select positions in a chain of levels with coordinates. Entries in slices are sorted by new coordinates."""
        above = self.positions
        parents = None if isinstance(above, slice) else as_array(above, self.dtype)
        if isinstance(above, slice):
            pointers = pointers[above.start : above.stop + 1]
        if self._to_taken(pointers, parents, columns, selectors):
            return
        strided: dict[int, Strided] = {}
        for dim in columns:  # an index table selects after the slices
            selector = selectors[dim]
            strided[dim] = selector if isinstance(selector, Strided) else Strided.whole(selector.extent)
        segments = _range(pointers, columns, strided) if parents is None else None
        if segments is not None:
            self.positions, pointers, columns = segments
        else:
            slices = [selector.triple for selector in strided.values()]
            pointers, new, self.positions = _native.select_segments(pointers, list(columns.values()), slices, parents)
            columns = dict(zip(columns, new, strict=True))
        for dim in columns:
            if selectors[dim] is not strided[dim]:
                pointers, columns = self._keep_selected(pointers, columns, dim, selectors[dim])
        self.links.append(Segments(columns, pointers))

    def _to_taken(
        self,
        pointers: np.ndarray,
        parents: np.ndarray | None,
        columns: dict[int, np.ndarray],
        selectors: Mapping[int, Selector],
    ) -> bool:
        """Select in a chain by index tables, or take entire segments of one level, in any order.

        Segments of a single level stay sorted. Returns False if a slice selects, or a dimension is too large for a
        table. `parents` are the positions whose segments are taken; None for all segments.
        """
        is_single = len(columns) == 1
        listed = {dim: table for dim in columns if not isinstance(table := selectors[dim], Strided)}
        if (
            not (listed or (is_single and parents is not None))
            or not all(selectors[dim].is_whole for dim in columns if dim not in listed)
            or not all(table.is_short(columns[dim]) for dim, table in listed.items())
        ):
            return False
        positions: np.ndarray | None = None
        for dim in listed or columns:
            renumbering: _Table = (None, None)
            increases = True
            if dim in listed:
                renumbering, increases = listed[dim].renumbering(self.dtype), listed[dim].increases
                self.in_order &= is_single or increases
            pointers, new, kept = _native.take_segments(
                pointers, columns[dim], parents, *renumbering, selectors[dim].size, increases or not is_single
            )
            columns = {other: new if other == dim else column.take(kept) for other, column in columns.items()}
            positions, parents = kept if positions is None else positions.take(kept), None
        assert positions is not None
        self.positions = positions
        self.links.append(Segments(columns, pointers))
        return True

    def _to_runs(self, dim: int, arrays: Sequence[np.ndarray], selector: Selector) -> None:
        """Select positions in a level with a run of consecutive coordinates below each parent."""
        (pointers, starts), above = arrays, self.positions
        first = take_elements(pointers, above)
        counts = take_elements(pointers[1:], above) - first
        backwards = isinstance(selector, Strided) and not selector.increases
        self.positions = concatenate_ranges(first, counts, backwards)
        ends = np.zeros(len(counts) + 1, self.dtype)
        np.cumsum(counts, out=ends[1:])
        shift = take_elements(starts, above) - first  # a run's coordinates and its positions are both consecutive
        columns = {dim: self.positions + np.repeat(shift, counts)}
        ends, columns = self._keep_selected(ends, columns, dim, selector, backwards)
        self.links.append(Segments(columns, ends))

    def _to_singletons(self, dim: int, coordinates: np.ndarray, selector: Selector) -> None:
        """Keep the positions whose coordinate in a singleton level is selected."""
        column = take_elements(coordinates, self.positions)
        pointers = np.arange(len(column) + 1, dtype=self.dtype)
        pointers, columns = self._keep_selected(pointers, {dim: column}, dim, selector)
        self.links.append(Segments(columns, pointers))

    def _keep_selected(
        self,
        pointers: np.ndarray,
        columns: dict[int, np.ndarray],
        dim: int,
        selector: Selector,
        backwards: bool = False,
    ) -> tuple[np.ndarray, dict[int, np.ndarray]]:
        """Keep the positions that are selected in one dimension. Returns their pointers and coordinates.

        `backwards`: the positions below each parent come in descending order.
        """
        self.in_order &= selector.increases or backwards
        kept, new = selector.find(columns[dim])
        if kept is None:
            return pointers, {**columns, dim: new}
        self.positions = kept + self.positions.start if isinstance(self.positions, slice) else self.positions[kept]
        others = {other: new if other == dim else column[kept] for other, column in columns.items()}
        return select_pointers(pointers, kept), others


def _range(
    pointers: np.ndarray, columns: Mapping[int, np.ndarray], selectors: Mapping[int, Strided]
) -> tuple[slice, np.ndarray, dict[int, np.ndarray]] | None:
    """Return the selected positions of adjacent segments if they are a range, their pointers and new coordinates.

    The positions are a range if everything is selected, or if there is a single segment and a slice of step 1
    selects in the outermost level, whose coordinates are sorted. Otherwise the result is None.
    """
    (dim, first), *others = selectors.items()
    is_part = first.step == 1 and len(pointers) == 2
    if not (first.is_whole or is_part) or not all(selector.is_whole for _, selector in others):
        return None
    begin, end = int(pointers[0]), int(pointers[-1])
    if not first.is_whole:
        segment, (low, high) = columns[dim][begin:end], map(columns[dim].dtype.type, first.bounds)
        end = begin + int(np.searchsorted(segment, high, "right"))
        begin = min(begin + int(np.searchsorted(segment, low, "left")), end)
        pointers = np.array([begin, end], pointers.dtype)
    new = {other: column[begin:end] for other, column in columns.items()}
    if first.start:
        new[dim] = new[dim] - new[dim].dtype.type(first.start)
    return slice(begin, end), pointers - pointers[:1], new
