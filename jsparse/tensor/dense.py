"""Conversions between dense arrays and tensors whose levels are all dense, which have no index arrays."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from jsparse.formats import Format, Pattern
from jsparse.tensor.sparse_tensor import SparseTensor

__all__ = ["dense_array", "dense_levels"]


def dense_array(x: Any) -> jax.Array:
    """The dense array of a SparseTensor whose levels are all dense. Anything else is returned as it is."""
    if not isinstance(x, SparseTensor):
        return x
    order = x.format.order
    stored = x.values.reshape([x.shape[d] for d in order])
    return jnp.transpose(stored, [order.index(d) for d in range(x.ndim)]) if x.ndim else stored.reshape(())


def dense_levels(x: jax.Array, layout: Format) -> SparseTensor:
    """The tensor with dense levels only that stores `x`, traced or not. It is static, as it has no index arrays."""
    pattern = Pattern._trusted(tuple(x.shape), layout, ())
    return SparseTensor._unchecked(jnp.transpose(x, layout.order).reshape(-1), pattern)
