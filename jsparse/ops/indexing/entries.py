"""The entries of a static pattern that selectors select: one step for each level, from the outermost to the innermost.

A step knows the selected positions of the level above. So a row of a csr matrix is found by its two pointers, and a
range of rows is a range of slots. It records which of them each of its own positions is below; the entries' coordinates
follow from these links, from the innermost level to the outermost, where they are needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias

import numpy as np

from jsparse.formats import Level, Pattern
from jsparse.ops.indexing.links import Block, Link, Segments
from jsparse.ops.indexing.selector import Selector, Strided

__all__ = ["Entries", "Positions", "as_array", "count", "selected_entries", "taken"]

Positions: TypeAlias = slice | np.ndarray
"""Positions of a level: a range of them, or (n,) any."""


@dataclass(frozen=True)
class Entries:
    """Selected entries.

    Attributes:
        slots: their slots.
        links: the selected positions of each level, from the outermost to the innermost.
        dropped: the dimensions whose new coordinates are left out.
        in_order: they are sorted by their new coordinates, in storage order.
    """

    slots: Positions
    links: tuple[Link | Block, ...]
    dropped: frozenset[int]
    in_order: bool

    def rows(self) -> Mapping[int, np.ndarray]:
        """The new coordinates of the entries, for each dimension of the pattern that was not dropped."""
        found: dict[int, np.ndarray] = {}
        numbers: np.ndarray | None = None  # of the position above each entry; None: entry n is below position n
        for link in reversed(self.links):
            if link.dim not in self.dropped:
                found[link.dim] = link.coordinates(numbers)
            numbers = link.parents(numbers)
        return found

    def pointers(self) -> np.ndarray:
        """The pointers from the positions above the last level to the entries, which are in order and distinct."""
        last = self.links[-1]
        assert isinstance(last, Segments)
        return last.pointers()


def selected_entries(pattern: Pattern, selectors: Mapping[int, Selector], dropped: frozenset[int]) -> Entries:
    """The entries that are selected in every dimension. New coordinates of the dimensions `dropped` are left out."""
    state = _Selection(pattern.index_dtype)
    stored = iter(pattern.arrays)
    for level in pattern.format.levels:
        own = list(islice(stored, len(level.kind.arrays)))
        state.step(level, own, selectors[level.dim])
    return Entries(state.positions, tuple(state.links), dropped, state.in_order)


class _Selection:
    """The selected positions of the levels so far.

    Attributes:
        positions: the positions.
        links: what is known of them, by level.
        in_order: the positions are sorted by their new coordinates.
    """

    def __init__(self, dtype: np.dtype) -> None:
        self.dtype = dtype
        self.positions: Positions = slice(0, 1)
        self.links: list[Link | Block] = []
        self.in_order = True

    def step(self, level: Level, arrays: list[np.ndarray], selector: Selector) -> None:
        """Go down one level, which has these index arrays."""
        if level.kind.is_full:
            self._to_dense(level.dim, selector)
            return
        if level.kind.is_branchless:
            coordinates, counts, backwards = taken(arrays[0], self.positions), None, False
        else:
            backwards = level.unique and isinstance(selector, Strided) and not selector.increases
            coordinates, counts = self._to_segments(level, arrays, selector, backwards)
        self._keep(level.dim, selector, coordinates, counts)
        self.in_order &= selector.increases or backwards

    def _to_dense(self, dim: int, selector: Selector) -> None:
        """Go to the selected positions of a dense level: all parents have the same."""
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
        self.links.append(Block(dim, parents, size, self.dtype))

    def _to_segments(
        self, level: Level, arrays: list[np.ndarray], selector: Selector, backwards: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """Go to all positions below the parents. Returns their coordinates, and their numbers below each parent.

        `backwards`: the positions below each parent come in descending order.
        """
        above = self.positions
        if isinstance(above, slice):
            ends = arrays[0][above.start : above.stop + 1]
            first, last = ends[:-1], ends[1:]
        else:
            first, last = arrays[0][above], arrays[0][above + 1]
        if level.kind.has_coordinates and len(first) == 1 and isinstance(selector, Strided):
            first, last = _narrowed(arrays[1], int(first[0]), int(last[0]), selector)
        counts = last - first
        if backwards:
            self.positions = _concatenated_backwards(last, counts, self.dtype)
        elif isinstance(above, slice) or len(first) == 1:  # segments of neighbours are neighbours
            self.positions = slice(int(first[0]), int(last[-1])) if len(first) else slice(0, 0)
        else:
            self.positions = _concatenated(first, counts, self.dtype)
        if level.kind.has_coordinates:
            return taken(arrays[1], self.positions), counts
        shift = taken(arrays[1], above) - first  # a run's coordinates and its positions are both consecutive
        return as_array(self.positions, self.dtype) + np.repeat(shift, counts), counts

    def _keep(self, dim: int, selector: Selector, coordinates: np.ndarray, counts: np.ndarray | None) -> None:
        """Keep the selected ones of the positions, which have these coordinates.

        `counts` are the numbers of positions below each parent; None if the positions are those of the level above.
        """
        kept, new = selector.find(coordinates)
        if kept is not None:
            self.positions = kept + self.positions.start if isinstance(self.positions, slice) else self.positions[kept]
        self.links.append(Link(dim, new, kept) if counts is None else Segments(dim, new, kept, counts, self.dtype))


def count(positions: Positions) -> int:
    """The number of positions."""
    return positions.stop - positions.start if isinstance(positions, slice) else len(positions)


def as_array(positions: Positions, dtype: Any = np.int64) -> np.ndarray:
    """The positions as an array."""
    if isinstance(positions, slice):
        return np.arange(positions.start, positions.stop, dtype=dtype)
    return positions.astype(dtype, copy=False)


def taken(array: np.ndarray, positions: Positions) -> np.ndarray:
    """The elements at the positions: a view if these are a range."""
    return array[positions] if isinstance(positions, slice) else array.take(positions)


def _narrowed(coordinates: np.ndarray, first: int, last: int, selector: Strided) -> tuple[np.ndarray, np.ndarray]:
    """The part of a segment between the bounds of a selector, by bisection: a segment is sorted."""
    segment, (low, high) = coordinates[first:last], map(coordinates.dtype.type, selector.bounds)
    start = first + int(np.searchsorted(segment, low, "left"))
    return np.array([start]), np.array([max(start, first + int(np.searchsorted(segment, high, "right")))])


def _concatenated(first: np.ndarray, counts: np.ndarray, dtype: Any) -> np.ndarray:
    """The ranges from `first[n]` on, of `counts[n]` numbers each, one behind the other."""
    ends = np.cumsum(counts, dtype=np.int64)
    total = int(ends[-1]) if len(ends) else 0
    found = np.repeat((first - ends + counts).astype(dtype), counts)
    found += np.arange(total, dtype=dtype)
    return found


def _concatenated_backwards(last: np.ndarray, counts: np.ndarray, dtype: Any) -> np.ndarray:
    """The ranges of `counts[n]` numbers each from `last[n] - 1` on downwards, one behind the other."""
    starts = np.cumsum(counts, dtype=np.int64) - counts
    found = np.repeat((last + starts - 1).astype(dtype), counts)
    found -= np.arange(len(found), dtype=dtype)
    return found
