"""Joins of patterns: one row for each combination of entries with equal coordinates in shared index variables.

Patterns are joined one after the other, in the order that promises the fewest rows. An index variable of the next
pattern is *bound* if the rows have coordinates in it already. For each row, these coordinates select entries of the
next pattern. If all its index variables are bound, at most one entry is selected, and the row is kept or dropped.
Otherwise each selected entry makes a new row, and the number of new rows depends on the data.

Rows of static patterns are found while the program is traced. All other rows are made by the program, in a loop over
chunks. If row n selects the entries first[n], first[n] + 1, …, then row r of the join combines the row n with

    ends[n-1] <= r < ends[n],        ends = running sum of the numbers of selected entries,

and the entry first[n] + r - ends[n-1] (as in Merrill and Garland, "Merge-based parallel sparse matrix-vector
multiplication", SC 2016). If rows may select several entries of a later pattern, its loop is inside this loop.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.base.arrays import Array
from jsparse.base.dataclass import dataclass
from jsparse.errors import DTypeError
from jsparse.notation import IndexVar
from jsparse.primitives.permute_values import gather_clamped
from jsparse.primitives.portable.stream import Stream
from jsparse.primitives.spec import PatternAccess

MOST_KNOWN = 1 << 16
"""The most rows of static patterns that are joined while a program is traced. Four arrays of as many int32 are
the MiB of constants that a program for platforms other than CPU may have."""

MOST_COUNTED = 1 << 30
"""The most joined rows that are counted at a time, because the running sum is an int32."""

FEW = 5  # patterns whose orders are all compared


def join_order(walks: Sequence[PatternAccess], sizes: Mapping[IndexVar, int]) -> tuple[int, ...]:
    """Return the order for joining patterns that would produce the fewest rows if entries were spread evenly."""

    def rows(order: Sequence[int]) -> float:
        count, total, bound = 1.0, 0.0, set[IndexVar]()
        for n in order:
            count *= walks[n].pattern.nse / max(prod(sizes[v] for v in bound.intersection(walks[n].indices)), 1)
            total += count
            bound |= set(walks[n].indices)
        return total

    if len(walks) <= FEW:
        return min(permutations(range(len(walks))), key=rows)
    order = [min(range(len(walks)), key=lambda n: walks[n].pattern.nse)]
    while len(order) < len(walks):
        order.append(min((n for n in range(len(walks)) if n not in order), key=lambda n: rows([*order, n])))
    return tuple(order)


@dataclass(frozen=True, eq=False)
class Sorted:
    """The entries of a pattern, with entries next to each other that agree in all *bound* index variables.

    An index variable is bound if the rows to join with the pattern have coordinates in it.

    Attributes:
        entries: the entries in that order.
        heads: the bound variables of the leading dense levels, with their sizes. Their coordinates give the position of
            a segment of entries. Without heads, all entries are one segment.
        pointers: the pointers to the segments; None if each segment has one entry, or without heads.
        keys: the other bound variables, with their coordinates in the order of the entries.
    """

    entries: Stream
    heads: tuple[tuple[IndexVar, int], ...]
    pointers: Array | None
    keys: tuple[tuple[IndexVar, Array], ...]

    @property
    def variables(self) -> tuple[IndexVar, ...]:
        """The bound variables."""
        return tuple(v for v, _ in (*self.heads, *self.keys))

    @property
    def multiplies(self) -> bool:
        """Whether several entries may have the same bound coordinates."""
        has_single_entries = bool(self.heads) and self.pointers is None
        return not has_single_entries and set(self.variables) < set(self.entries.coordinates)

    def segments(self, rows: Stream) -> tuple[Array, Array]:
        """Return, for each row, the range [first, end) of the entries that have the row's coordinates."""
        count, sizes = self.entries.rows, dict(self.heads)
        first: Array = jnp.asarray(rows.flat(list(sizes), sizes))
        end: Array = first + (1 if self.heads else count)
        if self.pointers is not None:
            first, end = (jnp.clip(gather_clamped(self.pointers, [first + n]), 0, count) for n in (0, 1))
        if self.keys:
            columns = [column for _, column in self.keys]
            coordinates = [_on_device(rows.coordinates[v]) for v, _ in self.keys]
            begin = _search(columns, coordinates, first, end, count, after=False)
            first, end = begin, _search(columns, coordinates, begin, end, count, after=True)
        end = jnp.maximum(first, end)
        return first, end if rows.live is None else jnp.where(rows.live, end, first)


def _on_device(column: Array) -> Array:
    """Convert known coordinates to a JAX array. Raises DTypeError if JAX would cut them to 32 bits."""
    is_cut = isinstance(column, np.ndarray) and not jax.config.read("jax_enable_x64")
    if is_cut and column.max(initial=0) > np.iinfo(np.int32).max:
        raise DTypeError(
            "Expected coordinates that fit int32 for a join of large patterns with XLA operations, but one coordinate "
            f"is {column.max():,}. Set jax.config.update('jax_enable_x64', True)."
        )
    return jnp.asarray(column)


def _search(columns: Sequence[Any], target: Sequence[Any], first: Array, end: Array, count: int, after: bool) -> Array:
    """Bisect [first, end) for the first entry >= the tuple `target`; with `after`, for the first entry > that tuple."""

    def halve(_: Any, limits: tuple[Any, Any]) -> tuple[Any, Any]:
        low, high = limits
        middle = low + (high - low) // 2
        less: Any = jnp.full(low.shape, after)
        for column, x in zip(reversed(columns), reversed(target), strict=True):
            at = gather_clamped(column, [middle])
            less = (at < x) | ((at == x) & less)
        is_open = low < high
        return jnp.where(is_open & less, middle + 1, low), jnp.where(is_open & ~less, middle, high)

    return jax.lax.fori_loop(0, max(count, 1).bit_length(), halve, (first, end))[0]


def sort_by(
    walk: PatternAccess,
    entries: Stream,
    bound: Collection[IndexVar],
    arrays: Sequence[Array],
    sizes: Mapping[IndexVar, int],
) -> Sorted:
    """Sort the entries of a pattern by the bound variables, unless its levels already store a suitable order.

    Args:
        arrays: the index arrays of the pattern.
    """
    keys = tuple(dict.fromkeys(v for v in walk.indices if v in bound))
    levels, distinct = walk.pattern.format.levels, len(set(walk.indices)) == len(walk.indices)
    full = next((n for n, level in enumerate(levels) if not level.kind.is_full), len(levels))
    if distinct and 0 < full <= len(keys) and walk.indices[: len(keys)] == keys:
        below = levels[full:]
        heads = tuple((v, sizes[v]) for v in keys[:full])
        left = tuple((v, _on_device(entries.coordinates[v])) for v in keys[full:])
        if all(level.kind.is_branchless for level in below):
            return Sorted(entries, heads, None, left)
        if len(below) == 1 and below[0].kind.has_pointers:
            return Sorted(entries, heads, arrays[0], left)
    if not keys:
        return Sorted(entries, (), None, ())
    # An entry that is not live gets the size of the dimension, which is not a row's coordinate.
    xp: Any = np if entries.is_known else jnp
    live, coordinates = entries.live, entries.coordinates
    placed = [coordinates[v] if live is None else xp.where(live, coordinates[v], sizes[v]) for v in keys]
    columns: Sequence[Array]
    if entries.is_known:  # XLA would sort constants while it compiles, and slowly
        order: Array = np.lexsort(placed[::-1]).astype(np.int32)
        columns = [_on_device(column[order]) for column in placed]
    else:
        *columns, order = jax.lax.sort(
            [*map(jnp.asarray, placed), jnp.arange(entries.rows, dtype=jnp.int32)], num_keys=len(keys)
        )
    return Sorted(entries.take(order), (), None, tuple(zip(keys, columns, strict=True)))


def join_known(
    walks: Sequence[PatternAccess],
    streams: Sequence[Stream],
    index: Sequence[Sequence[Any]],
    sizes: Mapping[IndexVar, int],
) -> tuple[Stream, list[Sorted]]:
    """Join the patterns that are known while tracing. Return the join, and the others in the order for joining them.

    Args:
        streams: the entries of each pattern.
        index: for each pattern, its index arrays if it is dynamic.
    """
    first, *left = join_order(walks, sizes)
    rows = streams[first]
    while left and rows.is_known and streams[left[0]].is_known:
        joined = join_streams(rows, streams[left[0]], sizes)
        if joined is None:
            break
        rows, left = joined, left[1:]
    bound, later = set(rows.coordinates), list[Sorted]()
    for n in left:
        pattern = walks[n].pattern
        later.append(sort_by(walks[n], streams[n], bound, pattern.arrays or index[n], sizes))
        bound |= set(streams[n].coordinates)
    return rows, later


def join_streams(rows: Stream, entries: Stream, sizes: Mapping[IndexVar, int]) -> Stream | None:
    """Join two streams that are known while the program is traced. Return None if the join has too many rows."""
    shared = [v for v in entries.coordinates if v in rows.coordinates]
    rows, entries = _alive(rows), _alive(entries)
    row_keys, keys = _numbers_of_tuples(rows, entries, shared, sizes)
    order = np.argsort(keys, kind="stable")
    first, end = (np.searchsorted(keys[order], row_keys, side) for side in ("left", "right"))
    counts = end - first
    if counts.sum() > MOST_KNOWN:
        return None
    parents = np.repeat(np.arange(rows.rows), counts)
    offsets = np.arange(len(parents)) - np.repeat(np.cumsum(counts) - counts, counts)
    same = len(parents) == rows.rows and bool((counts == 1).all())
    return _both(rows if same else rows.take(parents, increasing=True), entries.take(order[first[parents] + offsets]))


def _numbers_of_tuples(
    rows: Stream, entries: Stream, shared: Sequence[IndexVar], sizes: Mapping[IndexVar, int]
) -> tuple[np.ndarray, np.ndarray]:
    """Number the coordinates of two known streams in the index variables `shared`: equal tuples have equal numbers."""
    if prod(sizes[v] for v in shared) < 2**62:
        row_keys, keys = (np.asarray(stream.flat(shared, sizes, np.int64)) for stream in (rows, entries))
        return row_keys, keys
    both = [np.concatenate([stream.coordinates[v] for stream in (rows, entries)]) for v in shared]
    numbers = np.unique(np.stack(both), axis=1, return_inverse=True)[1].reshape(-1)
    return numbers[: rows.rows], numbers[rows.rows :]


def _alive(rows: Stream) -> Stream:
    if rows.live is None:
        return rows
    return replace(rows.take(np.flatnonzero(rows.live), increasing=True), live=None)


def _both(rows: Stream, entries: Stream) -> Stream:
    """Combine each row of one stream with the row of the same index in another stream."""
    live = rows.live if entries.live is None else entries.live if rows.live is None else rows.live & entries.live
    coordinates, positions = {**entries.coordinates, **rows.coordinates}, {**entries.positions, **rows.positions}
    return replace(rows, coordinates=coordinates, positions=positions, live=live)


def visit(total: Any, rows: Stream, later: Sequence[Sorted], add: Callable[[Any, Stream], Any], at_once: int) -> Any:
    """Join a stream with the patterns `later`, and add the joined rows to a total, at most `at_once` at a time.

    Args:
        add: `add(total, rows)` adds the rows of a stream.
    """
    if rows.rows == 0 or any(following.entries.rows == 0 for following in later):
        return total
    if not later:
        return add(total, rows)
    following, *others = later
    most = max(MOST_COUNTED // following.entries.rows, 1)
    if following.multiplies and rows.rows > most:
        return rows.in_parts(most, lambda total, part: visit(total, part, later, add, at_once), total)
    first, end = following.segments(rows)
    if not following.multiplies:
        located = following.entries.take(first).only(first < end)
        return visit(total, _both(rows, located), others, add, at_once)
    ends = jnp.cumsum(end - first, dtype=jnp.int32)
    at_once = min(at_once, rows.rows * following.entries.rows)

    def add_batch(number: Array, total: Any) -> Any:
        numbers = number * at_once + jnp.arange(at_once, dtype=jnp.int32)
        parent = jnp.minimum(jnp.searchsorted(ends, numbers, side="right", method="scan_unrolled"), rows.rows - 1)
        before = gather_clamped(ends, [parent]) - gather_clamped(end - first, [parent])
        entry = gather_clamped(first, [parent]) + numbers - before
        both = _both(rows.take(parent, increasing=True), following.entries.take(entry)).only(numbers < ends[-1])
        return visit(total, both, others, add, at_once)

    # Chunks are counted, not rows: XLA takes a loop from 0 in larger steps than a known bound for an empty one.
    return jax.lax.fori_loop(0, (ends[-1] - 1) // at_once + 1, add_batch, total)
