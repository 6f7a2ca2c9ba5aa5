"""Padding and overflow of dynamic patterns, as functions of the pointers that count the positions in use.

Padding of values is 0. After an overflow values are NaN everywhere, and so are their gradients.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.base.arrays import allocate_aligned
from jsparse.base.dataclass import dataclass
from jsparse.formats import Pattern, PatternType
from jsparse.primitives.host import host_arrays, is_on_host, on_device


@dataclass(frozen=True, slots=True)
class Padding:
    """How the slots in use are counted: by the last element of the last pointers, up to a capacity.

    Attributes:
        capacity: the capacity of the last level with pointers, in positions.
        below: the number of slots below each position of that level.
    """

    capacity: int
    below: int


def padding_of(type_: Pattern | PatternType, inner: int = 1) -> Padding | None:
    """The padding of a pattern with `inner` elements in each slot; None if all slots are always in use."""
    if type_.limit is None:
        return None
    last, capacity = type_.limit
    return Padding(capacity, type_._slots_below(last) * inner)


def in_use(values: Any, pointers: Any, padding: Padding, other: complex) -> Any:
    """Replace the values in padding by `other`. `values` has an element for each slot, or one for all slots."""
    if not _is_one(values, pointers):
        return _fill_padding(values, pointers, padding=padding, other=other)
    known, ends = host_arrays([values, pointers])
    used = min(int(ends[-1]), padding.capacity) * padding.below
    filled = allocate_aligned((padding.capacity * padding.below,), known.dtype)
    filled[:used] = known if len(known) == 1 else known[:used]
    filled[used:] = other
    return on_device([filled], [values, pointers])[0]


def _is_one(values: Any, pointers: Any) -> bool:
    """Return whether values and pointers are known, and belong to a single pattern, not to a batch of patterns."""
    return np.ndim(values) == np.ndim(pointers) == 1 and is_on_host(values, pointers)


@partial(jax.jit, static_argnames=("padding", "other"), inline=True)
def _fill_padding(values: Any, pointers: Any, padding: Padding, other: complex) -> Any:
    capacity, below = padding.capacity, padding.below
    slots = jnp.arange(capacity * below)
    ends = pointers[..., -1:]
    ends = jnp.where(ends < capacity, ends, capacity)  # jax.experimental.jet has no minimum of integers
    used = slots < ends.astype(slots.dtype) * below
    # A Python number promotes nothing, so the values keep their dtype, weak or not.
    return jnp.where(used, values, other if values.dtype != np.bool_ else bool(other))


def mask_invalid(values: Any, pointers: Any, padding: Padding) -> Any:
    """Make values valid for a tensor: 0 in padding, and NaN after an overflow."""
    return (_mask if _is_one(values, pointers) else _jit_mask)(values, pointers, padding=padding)


def _mask(values: Any, pointers: Any, padding: Padding) -> Any:
    return poison_overflow(in_use(values, pointers, padding, 0), pointers, padding)


_jit_mask = jax.jit(_mask, static_argnames="padding", inline=True)


def poison_overflow(x: Any, pointers: Any, padding: Padding) -> Any:
    """Multiply every element by NaN after an overflow. Integers, which have no NaN, do not change."""
    if not jnp.issubdtype(x.dtype, jnp.inexact):
        return x
    if is_on_host(pointers) and np.ndim(pointers) == 1 and int(np.asarray(pointers)[-1]) <= padding.capacity:
        return x
    return _poison_overflow(x, pointers, padding=padding)


@partial(jax.jit, static_argnames="padding", inline=True)
def _poison_overflow(x: Any, pointers: Any, padding: Padding) -> Any:
    overflowed = pointers[..., -1] > padding.capacity  # for each pattern of a batch
    overflowed = overflowed.reshape(*overflowed.shape, *[1] * (x.ndim - overflowed.ndim))
    # The product makes gradients NaN, too. Without an overflow the second `where` returns `x` itself, so that Inf and
    # denormal numbers stay exact.
    poison = jnp.where(overflowed, jnp.nan, 1).astype(x.dtype)
    return jnp.where(overflowed, x * poison, x)


def overflow(pattern: Pattern | PatternType, arrays: Sequence[Any]) -> Any:
    """Return whether a dynamic pattern, or each pattern of a batch, has more entries than its capacity.

    The result is None for a pattern that cannot overflow. `arrays` begins with the pattern's index arrays.
    """
    if pattern.limit is None:
        return None
    last, capacity = pattern.limit
    return arrays[last][..., -1] > capacity


def nan_where(condition: Any, x: Any) -> Any:
    """Replace elements by NaN where the condition holds. Integers, which have no NaN, do not change."""
    return jnp.where(condition, jnp.asarray(jnp.nan, x.dtype), x) if jnp.issubdtype(x.dtype, jnp.inexact) else x


def true_count(end: Any, source: Pattern | PatternType, result: PatternType) -> Any:
    """Return the count that marks a result as overflowed if its source has overflowed; 0 if the source has not.

    It is the source's true count, converted to the number of positions in the level of the result's last pointers. But
    it is at least one more than the result's capacity.

    Args:
        end: the last element of the source's last pointers, for each pattern of a batch.
    """
    assert source.limit is not None
    assert result.limit is not None
    (last, most), (array, capacity) = source.limit, result.limit
    xp: Any = np if isinstance(end, np.integer) else jnp
    slots = (int(end) if xp is np else end) * source._slots_below(last)  # numpy would warn where int32 wraps
    positions = xp.maximum(slots // max(result._slots_below(array), 1), capacity + 1)
    return xp.where(end > most, positions, 0).astype(result.index_dtype)
