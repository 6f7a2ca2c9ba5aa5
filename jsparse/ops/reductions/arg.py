"""`argmax` and `argmin` over stored entries."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.convert.creation import of_any_array
from jsparse.errors import DTypeError
from jsparse.notation.ellipsis import letters_of
from jsparse.ops.einsum import contract
from jsparse.ops.reductions.axes import axes_to_reduce, subscripts_of, with_kept_axes
from jsparse.ops.reductions.stored import check_ordered, extreme_of_entries
from jsparse.tensor.sparse_tensor import SparseTensor

LARGEST_ARANGE = 1 << 20  # coordinates of a dimension up to this size are looked up in an array of that size


@of_any_array("argmax", jnp.argmax, "A in A.argmax")
def argmax(self: SparseTensor, axis: int | None = None, *, keepdims: bool = False) -> jax.Array:
    """Find the index along `axis` of the largest stored entry, as an integer array: -1 where nothing is stored.

        >>> A.argmax(axis=1)  # the column of the largest entry of each row

    If the largest entry occurs several times, its smallest index is returned. With axis=None the result is the index
    into the flattened tensor, in row-major order. NaN counts as the largest number. Raises DTypeError for complex
    numbers and for indices beyond int32 without x64, ShapeError for an axis out of range.
    """
    return _arg("argmax", "max", self, axis, keepdims)


@of_any_array("argmin", jnp.argmin, "A in A.argmin")
def argmin(self: SparseTensor, axis: int | None = None, *, keepdims: bool = False) -> jax.Array:
    """Find the index along `axis` of the smallest stored entry. See `argmax`; NaN counts as the smallest number.

    >>> A.argmin(axis=1).shape
    (1000,)
    """
    return _arg("argmin", "min", self, axis, keepdims)


def _arg(name: str, extreme: str, tensor: SparseTensor, axis: int | None, keepdims: bool) -> jax.Array:
    check_ordered(name, tensor)
    reduced = axes_to_reduce(axis, tensor.ndim)
    if not tensor.ndim:
        return jnp.zeros((), jnp.int32)
    dtype = _index_dtype(name, tensor, reduced)
    tensor = tensor.with_values(jax.lax.stop_gradient(tensor.values))
    if tensor.dtype == jnp.bool_:
        tensor = tensor.astype(jnp.int8)
    best = extreme_of_entries(extreme, tensor, reduced)
    inner = letters_of(tensor.ndim)
    kept = subscripts_of(tensor, reduced).split("->")[1]
    ones = tensor.with_values(jnp.ones(tensor.nse, tensor.dtype))
    at_entries = contract(f"{inner},{kept}->{inner}", ones, best, out_format=tensor)
    within: Any = jnp.zeros(tensor.nse, dtype)  # the row-major index of each slot within the reduced dimensions
    for at in reduced:
        within = within * tensor.shape[at] + _coordinates(tensor, at).astype(dtype)
    positions, none = tensor.with_values(within), np.iinfo(dtype).max

    def candidate(value: jax.Array, winner: jax.Array, position: jax.Array) -> SparseTensor | jax.Array:
        is_winner = (value == winner) | ((value != value) & (winner != winner))
        return jnp.where(is_winner, position, none)

    indices = extreme_of_entries("min", tensor.map(candidate, at_entries, positions), reduced)
    return with_kept_axes(jnp.where(indices == none, -1, indices), reduced, tensor.ndim, keepdims)


def _index_dtype(name: str, tensor: SparseTensor, reduced: Sequence[int]) -> np.dtype:
    size = prod(tensor.shape[at] for at in reduced)
    if size <= np.iinfo(np.int32).max:
        return np.dtype(np.int32)
    if not jax.config.read("jax_enable_x64"):
        raise DTypeError(
            f"Expected indices that fit int32, but A.{name} runs over {size:,} elements. Reduce one axis, or set "
            "jax.config.update('jax_enable_x64', True)."
        )
    return np.dtype(np.int64)


def _coordinates(tensor: SparseTensor, dim: int) -> jax.Array:
    """The coordinate of each slot in one dimension."""
    size, inner = tensor.shape[dim], letters_of(tensor.ndim)
    if size <= max(LARGEST_ARANGE, 4 * tensor.nse):
        places = jnp.arange(size)
        ones = tensor.with_values(jnp.ones(tensor.nse, places.dtype))
        return contract(f"{inner},{inner[dim]}->{inner}", ones, places, out_format=tensor).values
    core = tensor.pattern.core  # few entries in a long dimension
    coordinates = jnp.asarray(core.to_coords()[tensor.format.order.index(dim)])
    return jnp.repeat(coordinates, tensor.nse // max(core.nse, 1))
