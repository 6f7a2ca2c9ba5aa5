"""Index arrays from coordinate tuples: the tuples are sorted, and levels are filled from the outermost to the last.

In each level a tuple has a position, which never decreases from one tuple to the next. A chain is a level and the
singleton levels below it, which share their positions. The positions depend on the kind of the chain's first level:

    dense              position = parent * size + coordinate
    compressed         position grows by one if the tuple differs from the previous tuple in this chain or above it
    range              as in a compressed level, but below the same parent it grows by as much as the coordinate grows

Pointers say where the positions below each parent begin: at the least position of any tuple with that parent or a later
parent. Positions are counted as if arrays had no end, so the last pointer is the true count after an overflow. Entries
that exceed the length of an array are dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import prod
from operator import or_

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jsparse.base.dataclass import dataclass
from jsparse.formats import PatternType
from jsparse.formats.dynamic import slots_dtype
from jsparse.formats.levels import LevelKind

FAR = 2**62
"""The largest position. Larger ones count as this one, as in the extension's arithmetic (`csrc/levels/positions.h`)."""


@dataclass(frozen=True)
class SortedTuples:
    """Tuples of coordinates in lexicographic order. A live tuple stands for an entry; all other tuples come last.

    Attributes:
        columns: the coordinates (n,) of each level. If a tuple is not live, they are the sizes of the dimensions.
        order: (n,) the index of each tuple before the sort. Equal tuples, and tuples that are not live, keep
            their relative order.
        begins: (n,) whether a tuple is live and differs from the previous tuple.
        count: how many tuples are live.
    """

    columns: tuple[jax.Array, ...]
    order: jax.Array
    begins: jax.Array
    count: jax.Array


def sort_distinct(
    columns: Sequence[jax.Array], live: jax.Array, sizes: Sequence[int], order_dtype: np.dtype
) -> SortedTuples:
    """Sort tuples, and find the first one of each group of equal tuples.

    Args:
        columns: the coordinates (n,) of each level, outermost first, in a dtype that holds the sizes. They may be
            anything where a tuple is not live, and lie in [0, size) where it is.
        live: (n,) whether each tuple counts.
        sizes: the size of the dimension of each level.
        order_dtype: the dtype of the indices of tuples.
    """
    inputs = lax.iota(order_dtype, live.shape[0])
    # A size is more than any coordinate.
    keys = [jnp.where(live, column, size) for column, size in zip(columns, sizes, strict=True)]
    *ordered, order = lax.sort((*keys, inputs), num_keys=len(keys), is_stable=True)
    count = live.sum(dtype=order_dtype)
    begins = (inputs == 0) | differs(ordered)
    return SortedTuples(tuple(ordered), order, begins & (inputs < count), count)


def differs(columns: Sequence[jax.Array]) -> jax.Array:
    """Return whether each tuple differs from the previous tuple in any of these columns. The first does not."""
    return reduce(or_, (column != _before(column) for column in columns))


@dataclass(frozen=True)
class AssembledArrays:
    """The index arrays of a pattern, and the slots of the tuples from which the pattern was made.

    Attributes:
        arrays: the index arrays, in the order of `Format.arrays`, with their padding.
        slots: (n,) the slot of each tuple. It is -1 if the tuple stands for no entry, or exceeds the capacity.
    """

    arrays: tuple[jax.Array, ...]
    slots: jax.Array


def assemble_arrays(columns: Sequence[jax.Array], count: jax.Array, type_: PatternType) -> AssembledArrays:
    """Compute the index arrays of a pattern with an entry at each live tuple, and the slots of the tuples.

    Args:
        columns: the coordinates (n,) of each level, outermost first, in the index dtype of the type. The first `count`
            tuples are live: they are in lexicographic order and in the range of their dimensions. Equal tuples share a
            slot. All other tuples are ignored.
        count: how many tuples are live.
        type_: the type of the pattern.

    Slots have the dtype `slots_dtype(type_, n)`. Raises FormatError for a format that cannot store every
    set of entries.
    """
    type_.format.check_storable()
    length = columns[0].shape[0]
    slot_dtype = slots_dtype(type_, length)
    dtype = np.promote_types(type_.index_dtype, slot_dtype)
    numbers = lax.iota(dtype, length)
    live = numbers < count.astype(dtype)
    state = _Tuples(jnp.zeros(length, dtype), (numbers == 0) & live, live)
    arrays: list[jax.Array] = []
    lengths = iter(type_.array_lengths)
    for chain in type_.format.chains:
        coordinates = [jnp.where(live, columns[level].astype(dtype), 0) for level in chain]
        first = type_.format.levels[chain[0]]
        before, state = state, _enter_chain(state, first.kind, type_.shape[first.dim], coordinates)
        arrays += [_array(role, next(lengths), before, state, coordinates[0]) for role in first.kind.arrays]
        arrays += [_coordinates(next(lengths), state, column) for column in coordinates[1:]]
    most = np.iinfo(type_.index_dtype).max  # a number that does not fit becomes this one
    room = slots_with_room(type_)
    slots = jnp.where(live & (state.positions < room), state.positions, -1).astype(slot_dtype)
    return AssembledArrays(tuple(jnp.minimum(x, most).astype(type_.index_dtype) for x in arrays), slots)


def slots_with_room(type_: PatternType) -> int:
    """The number of slots that the index arrays can store, at most nse.

    Levels with coordinates have room for as many positions as their array is long. Other levels store nothing for a
    position, so only nse limits their positions.
    """
    inner = prod(type_.shape[dim] for dim in type_.format.trailing_dims)
    stored = type_.format.levels[: type_.format.ndim - type_.format.trailing_dense]
    if not stored:
        return min(inner, type_.nse)
    counted = stored[-1].kind.has_coordinates
    positions = type_.array_lengths[-1] if counted else type_.nse // inner if inner > 0 else 0
    return min(positions * inner, type_.nse)


@dataclass(frozen=True)
class _Tuples:
    """The tuples in one level.

    Attributes:
        positions: (n,) the position of each tuple, where it is live.
        begins: (n,) whether the tuple is live, and differs from the previous tuple in this level, in a level above or
            in a singleton level that shares its positions.
        live: (n,) whether each tuple is live, that is, stands for an entry. The live tuples come first.
    """

    positions: jax.Array
    begins: jax.Array
    live: jax.Array


def _enter_chain(above: _Tuples, kind: LevelKind, size: int, chain: Sequence[jax.Array]) -> _Tuples:
    """Find the positions of the tuples in the next chain, which is a level and the singleton levels below it.

    Args:
        kind: the kind of the chain's first level.
        size: the size of that level's dimension.
        chain: the coordinates of the tuples in each level of the chain.
    """
    column = chain[0]
    begins = above.begins | (above.live & differs(chain))
    if kind.is_full:
        # A position that is too large becomes the largest one.
        far = _far(column.dtype)
        fits = above.positions <= lax.div(far - column, jnp.full_like(column, max(size, 1)))
        positions = jnp.where(fits, above.positions * size + column, far)
    elif kind.stores_runs:
        steps = jnp.where(above.begins, 1, column - _before(column))
        first = lax.iota(np.int32, column.shape[0]) == 0
        positions = _running_sum(jnp.where(begins & ~first, steps, 0))
    else:
        positions = lax.cumsum(begins.astype(column.dtype)) - 1
    return _Tuples(positions, begins, above.live)


def _array(role: str, length: int, above: _Tuples, level: _Tuples, column: jax.Array) -> jax.Array:
    """Compute an index array of a level: its pointers, its coordinates or the starts of its runs, as `role` says."""
    if role == "coordinates":
        return _coordinates(length, level, column)
    if role == "starts":
        at = jnp.where(above.begins, above.positions, length)
        return jnp.zeros(length, column.dtype).at[at].set(column, mode="drop")
    far = _far(column.dtype)
    ends = jnp.where(level.live, level.positions + (level.positions < far).astype(level.positions.dtype), 0)
    total = jnp.max(ends, initial=0)
    # A parent beyond the end is later than any other, so all pointers up to the last one stop at its positions.
    at = jnp.where(level.live, jnp.minimum(above.positions, length - 1), length)
    begun = jnp.full(length, total).at[at].min(level.positions, mode="drop", indices_are_sorted=True)
    return lax.cummin(begun, reverse=True).at[length - 1].set(total)


def _coordinates(length: int, level: _Tuples, column: jax.Array) -> jax.Array:
    """The coordinate at each position. Tuples with the same position have the same coordinate."""
    at = jnp.where(level.live, jnp.minimum(level.positions, length), length)
    return jnp.zeros(length, column.dtype).at[at].set(column, mode="drop", indices_are_sorted=True)


def _before(column: jax.Array) -> jax.Array:
    """Shift a column by one: each element becomes the previous element, and the first element stays."""
    return jnp.concatenate([column[:1], column[:-1]])


def _far(dtype: np.dtype) -> int:
    """Return the largest position that the dtype represents, or 2**62 if that is smaller."""
    return min(FAR, np.iinfo(dtype).max)


def _running_sum(steps: jax.Array) -> jax.Array:
    """Return the running sum of steps >= 0, but at most the largest position.

    The sum of two positions fits in an unsigned integer. So the first sum that is too large is detected, and all later
    sums are too large as well.
    """
    far, dtype = _far(steps.dtype), steps.dtype
    sums = lax.cumsum(lax.bitcast_convert_type(steps, np.dtype(f"uint{8 * dtype.itemsize}")))
    exceeds = lax.cummax((sums > far).astype(np.int32)) > 0
    return jnp.where(exceeds, far, lax.bitcast_convert_type(sums, dtype))
