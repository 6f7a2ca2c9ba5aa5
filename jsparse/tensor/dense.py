"""Tensors whose levels are all dense: arrays in another order of dimensions, without index arrays."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from jsparse.formats import Format, Pattern
from jsparse.tensor.sparse_tensor import SparseTensor

__all__ = ["dense_array", "dense_levels"]


def dense_array(x: Any) -> Any:
    """The array that a SparseTensor with dense levels only stores; anything else itself."""
    if not isinstance(x, SparseTensor):
        return x
    order = x.format.order
    stored = x.values.reshape([x.shape[d] for d in order])
    return jnp.transpose(stored, [order.index(d) for d in range(x.ndim)]) if x.ndim else stored.reshape(())


def dense_levels(x: Any, layout: Format) -> SparseTensor:
    """An array, traced or not, as the values of a tensor whose levels are all dense: no index array, so static."""
    pattern = Pattern._trusted(tuple(x.shape), layout, ())
    return SparseTensor._unchecked(jnp.transpose(x, layout.order).reshape(-1), pattern)
