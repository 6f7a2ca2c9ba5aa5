"""Gathers that read within their arrays whatever the indices are."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from jsparse.base.arrays import Array

__all__ = ["clamped"]


def clamped(x: Array, index: Sequence[Array]) -> jax.Array:
    """The elements `x[index[0], index[1], …]` of an array. Each index is clamped to its range; -1 does not wrap.

    An index has shape (rows,), and the result (rows, …) with the axes of `x` that are not indexed. It is zeros if an
    indexed axis has size 0.
    """
    x, count = jnp.asarray(x), len(index)
    if 0 in x.shape[:count]:
        return jnp.zeros((len(index[0]), *x.shape[count:]), x.dtype)
    wide = max((jnp.asarray(i).dtype for i in index), key=lambda dtype: dtype.itemsize)
    return jax.lax.gather(
        x,
        jnp.stack([jnp.asarray(i).astype(wide) for i in index], -1),
        jax.lax.GatherDimensionNumbers(
            offset_dims=tuple(range(1, 1 + x.ndim - count)),
            collapsed_slice_dims=tuple(range(count)),
            start_index_map=tuple(range(count)),
        ),
        slice_sizes=(*[1] * count, *x.shape[count:]),
        mode=jax.lax.GatherScatterMode.CLIP,
    )
