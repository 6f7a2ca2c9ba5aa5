"""Padding and overflow of dynamic patterns, as functions of the pointers that count the positions in use.

Padding of values is 0. After an overflow values are NaN everywhere, and so are their gradients.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.formats import DynamicType

__all__ = ["Padding", "in_use", "padding_of", "poisoned", "settled"]


@dataclass(frozen=True, slots=True)
class Padding:
    """How the slots in use are counted: by the last element of the last pointers, up to a capacity.

    Attributes:
        capacity: the capacity of the last level with pointers, in positions.
        below: the number of slots below each of its positions.
    """

    capacity: int
    below: int


def padding_of(type_: DynamicType, inner: int = 1) -> Padding | None:
    """The padding of a dynamic pattern with `inner` elements in each slot; None if all slots are always in use."""
    if type_.limit is None:
        return None
    last, capacity = type_.limit
    return Padding(capacity, type_.slots_below(last) * inner)


@partial(jax.jit, static_argnames=("padding", "other"), inline=True)
def in_use(values: Any, pointers: Any, padding: Padding, other: complex) -> Any:
    """Replace the values in padding by `other`. `values` has an element for each slot, or for all of them (size 1)."""
    capacity, below = padding.capacity, padding.below
    slots = jnp.arange(capacity * below)
    used = slots < jnp.minimum(pointers[..., -1:], capacity).astype(slots.dtype) * below
    # A Python number promotes nothing, so the values keep their dtype, weak or not.
    return jnp.where(used, values, other if values.dtype != np.bool_ else bool(other))


@partial(jax.jit, static_argnames="padding", inline=True)
def settled(values: Any, pointers: Any, padding: Padding) -> Any:
    """Make values valid for a tensor: 0 in padding, and NaN after an overflow."""
    values = in_use(values, pointers, padding, 0)
    return poisoned(values, pointers, padding) if jnp.issubdtype(values.dtype, jnp.inexact) else values


@partial(jax.jit, static_argnames="padding", inline=True)
def poisoned(x: Any, pointers: Any, padding: Padding) -> Any:
    """Multiply every element by NaN after an overflow, by 1 otherwise."""
    overflowed = pointers[..., -1] > padding.capacity  # for each pattern of a batch
    overflowed = overflowed.reshape(*overflowed.shape, *[1] * (x.ndim - overflowed.ndim))
    # The product makes gradients NaN, too. Without an overflow the second `where` returns `x` itself, so that Inf and
    # denormal numbers stay exact.
    poison = jnp.where(overflowed, jnp.nan, 1).astype(x.dtype)
    return jnp.where(overflowed, x * poison, x)
