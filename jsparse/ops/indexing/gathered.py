"""Values gathered from the slots of a static pattern: on the host if they are known, else by an index relation."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse import _native
from jsparse.ops.evaluate import evaluate
from jsparse.ops.indexing.positions import Positions

__all__ = ["gathered"]


def gathered(values: Any, slots: Positions) -> jax.Array:
    """Compute `values[slots]`, and 0 where a slot is -1, differentiable in the values.

    Known values are gathered without XLA, which would compile a program for each number of slots.
    """
    if _is_on_host(values):
        known = np.asarray(values)
        part = known[slots].copy() if isinstance(slots, slice) else _native.take(np.ascontiguousarray(known), slots)
        place = values.sharding if getattr(values, "committed", False) else None
        return jax.device_put(part, place, may_alias=True)  # nothing else refers to this memory
    values = jnp.asarray(values)
    if isinstance(slots, slice):
        return values[slots.start : slots.stop]
    if not len(slots) or not values.size:
        return jnp.zeros(len(slots), values.dtype)
    if values.weak_type:
        return values.at[np.where(slots < 0, len(values), slots)].get(mode="fill", fill_value=0)
    moved: Any = evaluate("R[q] = V[slots[q]]", V=values, slots=slots)
    return moved


def _is_on_host(values: Any) -> bool:
    """Whether values are known and in memory of one device; a weak dtype would get lost on the host."""
    if isinstance(values, np.ndarray):
        return True
    if not isinstance(values, jax.Array) or isinstance(values, jax.core.Tracer) or values.weak_type:
        return False
    return len(values.devices()) == 1
