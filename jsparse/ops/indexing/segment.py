"""One traced coordinate of the outermost level of a static pattern: in every level below, its positions are one range.

So its index arrays are slices of the pattern's, of constant length, and nothing is assembled. A row of a mask is taken
in this way at each step of a decoder.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.base.memo import remembered
from jsparse.formats import DynamicType, Format, Pattern
from jsparse.formats.dynamic import core_type
from jsparse.ops.indexing.selection import Selection
from jsparse.tensor.dynamic_pattern import DynamicPattern, dynamic_type
from jsparse.tensor.sparse_tensor import SparseTensor

Range = tuple[Any, Any]
"""The first position in a level, and the number of positions; both are traced integers."""


def longest_segment(pattern: Pattern, selection: Selection) -> int | None:
    """The most slots below one coordinate of the dimension from which a single traced integer selects.

    None unless that dimension has the outermost level of a static pattern, and the level is dense.
    """
    outer = pattern.format.levels[0]
    if list(selection.tables) != [outer.dim] or selection.points != 1 or not outer.kind.is_full:
        return None
    return _longest(pattern)[-1]


def select_segment(tensor: SparseTensor, selection: Selection, format: Format, nse: int) -> SparseTensor | None:
    """The entries below the coordinate that a single traced integer selects; none if it is out of range.

    Args:
        format: of the result.
        nse: the capacity of the result.

    Returns None where `longest_segment` does, and where the result has other levels or a smaller capacity.
    """
    pattern = tensor.pattern
    if not isinstance(pattern, Pattern) or longest_segment(pattern, selection) is None:
        return None
    levels = pattern.format.levels
    kept = levels if selection.table_shape else levels[1:]
    if format.is_dense or [(x.kind, x.unique) for x in format.levels] != [(x.kind, x.unique) for x in kept]:
        return None
    type_ = dynamic_type(selection.shape, format, nse)
    capacities = core_type(type_).capacities[bool(selection.table_shape) :]
    if any(most > held for most, held in zip(_longest(pattern), capacities, strict=False)):
        return None
    (table,) = selection.tables.values()
    arrays, (first, count) = _arrays(pattern, type_, table.reshape(()))
    made = DynamicPattern(type_, arrays)
    values: Any = tensor.values  # None for the tensor of ones that stands for a pattern
    if values is not None:
        slots = jnp.arange(type_.nse, dtype=first.dtype)
        where = jnp.where(slots < count, first + slots, pattern.nse)
        values = jnp.asarray(values).at[where].get(mode="fill", fill_value=0)
    return SparseTensor._unchecked(values, made)


@remembered(maxsize=256)
def _longest(pattern: Pattern) -> tuple[int, ...]:
    """The most positions below one coordinate of the outermost level, which is dense, in each level below it, and at
    last in the slots."""
    found, bounds = list[int](), np.arange(pattern.shape[pattern.format.levels[0].dim] + 1)
    stored = iter(pattern.arrays)
    for level in pattern.format.levels[1:]:
        own = list(islice(stored, len(level.kind.arrays)))
        if level.kind.has_pointers:
            bounds = own[0][bounds].astype(np.int64)
        elif level.kind.is_full:
            bounds = bounds * pattern.shape[level.dim]
        found.append(int(np.diff(bounds).max(initial=0)))
    return (*found, found[-1] if found else 1)


def _arrays(pattern: Pattern, type_: DynamicType, at: jax.Array) -> tuple[tuple[jax.Array, ...], Range]:
    """The index arrays of the entries below coordinate `at` of the outermost level, and the range of their slots."""
    extent = pattern.shape[pattern.format.levels[0].dim]
    inside = (at >= 0) & (at < extent)
    first = jnp.where(inside, at, 0).astype(type_.index_dtype)
    count = inside.astype(type_.index_dtype)
    found, lengths = list[jax.Array](), iter(type_.array_lengths)
    stored = iter(_padded(pattern, type_.array_lengths))
    for level in pattern.format.levels[1:]:
        size = pattern.shape[level.dim] if level.kind.is_full else 1
        below: Range = (first * size, count * size)
        for role in level.kind.arrays:
            array, length = jnp.asarray(next(stored)), next(lengths)
            if role == "pointers":
                part = jax.lax.dynamic_slice(array, (first,), (length,))
                end = array[first + count]
                found.append((jnp.minimum(part, end) - part[0]).astype(type_.index_dtype))
                below = part[0], end - part[0]
                continue
            begin, used = below if role == "coordinates" else (first, count)
            part = jax.lax.dynamic_slice(array, (begin,), (length,))
            found.append(jnp.where(jnp.arange(length) < used, part, 0).astype(type_.index_dtype))
        first, count = below
    return tuple(found), (first, count)


@remembered(maxsize=64)
def _padded(pattern: Pattern, lengths: tuple[int, ...]) -> tuple[np.ndarray, ...]:
    """The index arrays of a pattern, long enough for a slice of the given length from any position."""
    ends = (a[-1:] if len(a) else np.zeros(1, a.dtype) for a in pattern.arrays)
    return tuple(np.append(a, np.repeat(e, n)) for a, e, n in zip(pattern.arrays, ends, lengths, strict=True))
