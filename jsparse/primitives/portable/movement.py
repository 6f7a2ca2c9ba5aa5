"""`permute_values` as a gather."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.formats import Relayout
from jsparse.primitives.portable.stream import clamped

__all__ = ["compute_permutation"]


def compute_permutation(values: jax.Array, *, relayout: Relayout, inverse: bool, axis: int) -> jax.Array:
    """The gather of `permute_values`. Slots without a source slot are 0."""
    index = relayout.scatter if inverse else relayout.gather
    if not len(index) or not values.shape[axis]:
        return jnp.zeros((*values.shape[:axis], len(index), *values.shape[axis + 1 :]), values.dtype)
    moved = clamped(jnp.moveaxis(values, axis, 0), [index])
    if (index < 0).any():
        moved = jnp.where((index >= 0).reshape(-1, *[1] * (moved.ndim - 1)), moved, np.zeros((), moved.dtype))
    return jnp.moveaxis(moved, 0, axis)
