"""Gathers values from the slots of a static pattern, and elements of index arrays at the positions of a level."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TypeAlias, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from jsparse.base import _native
from jsparse.ops.evaluate import evaluate
from jsparse.primitives.host import is_in_memory, on_device

Positions: TypeAlias = slice | np.ndarray
"""Positions in a level: a slice if they are a range, or an array (n,)."""


def count(positions: Positions) -> int:
    """The number of positions."""
    return positions.stop - positions.start if isinstance(positions, slice) else len(positions)


def as_array(positions: Positions, dtype: DTypeLike = np.int64) -> np.ndarray:
    """The positions as an array."""
    if isinstance(positions, slice):
        return np.arange(positions.start, positions.stop, dtype=dtype)
    return positions.astype(dtype, copy=False)


def take_elements(array: np.ndarray, positions: Positions) -> np.ndarray:
    """Return the elements at the positions, as a view if the positions are a range."""
    return array[positions] if isinstance(positions, slice) else array.take(positions)


def concatenate_ranges(first: np.ndarray, counts: np.ndarray, backwards: bool) -> np.ndarray:
    """Concatenate ranges of integers. Range n has the `counts[n]` integers that start at `first[n]`.

    Args:
        backwards: whether each range is in descending order, so that it ends with `first[n]`.
    """
    starts = np.cumsum(counts, dtype=np.int64) - counts
    base = first + counts - 1 + starts if backwards else first - starts
    integers = np.repeat(base.astype(first.dtype), counts)
    steps = np.arange(len(integers), dtype=first.dtype)
    return (np.subtract if backwards else np.add)(integers, steps, out=integers)


def gather_values(values: jax.Array, slots: Positions) -> jax.Array:
    """Gather `values[slots]`, with 0 where a slot is -1. The result is differentiable in the values.

    Known values are gathered without XLA, which would compile a program for each number of slots.
    """
    if isinstance(slots, slice):
        return split(values, [slots.start, slots.stop])[0]
    if is_in_memory(values):
        return on_device([_native.take(np.ascontiguousarray(values), slots)], [values])[0]
    values = jnp.asarray(values)
    if not len(slots) or not values.size:
        return jnp.zeros(len(slots), values.dtype)
    if values.weak_type:
        return values.at[np.where(slots < 0, len(values), slots)].get(mode="fill", fill_value=0)
    return cast("jax.Array", evaluate("R[q] = V[slots[q]]", V=values, slots=slots))


def split(values: jax.Array | None, bounds: Sequence[int]) -> list[jax.Array]:
    """Split the values: part n has the values from `bounds[n]` up to `bounds[n + 1]`, which is excluded."""
    if is_in_memory(values):
        known = np.asarray(values)
        return on_device([known[start:stop].copy() for start, stop in pairwise(bounds)], [values])
    return [jnp.asarray(values)[start:stop] for start, stop in pairwise(bounds)]
