"""Values gathered from the slots of a static pattern: on the host if they are known, else by an index relation."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.base import _native
from jsparse.ops.evaluate import evaluate
from jsparse.ops.indexing.positions import Positions
from jsparse.primitives.host import is_in_memory, on_device

__all__ = ["gathered", "split"]


def gathered(values: jax.Array, slots: Positions) -> jax.Array:
    """Compute `values[slots]`, and 0 where a slot is -1, differentiable in the values.

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
    moved: Any = evaluate("R[q] = V[slots[q]]", V=values, slots=slots)
    return moved


def split(values: jax.Array | None, bounds: Sequence[int]) -> list[jax.Array]:
    """The values from each bound to the next one."""
    if is_in_memory(values):
        known = np.asarray(values)
        return on_device([known[start:stop].copy() for start, stop in pairwise(bounds)], [values])
    return [jnp.asarray(values)[start:stop] for start, stop in pairwise(bounds)]
