"""The axes of a reduction, and the shape of its result."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from math import prod
from typing import Any

import jax
import jax.numpy as jnp

from jsparse.errors import ShapeError, shorten
from jsparse.notation.ellipsis import letters_of
from jsparse.tensor.sparse_tensor import Axis, SparseTensor


def axes_to_reduce(axis: Axis, ndim: int) -> tuple[int, ...]:
    """The reduced dimensions in ascending order. Raises ShapeError if an axis is repeated or out of range."""
    every = range(ndim) if axis is None else axis if isinstance(axis, Sequence) else [axis]
    axes = [operator.index(one) for one in every]
    wrapped = {one % ndim for one in axes if -ndim <= one < ndim}
    if len(wrapped) != len(axes):
        raise ShapeError(f"Expected different axes from {-ndim} to {ndim - 1} to reduce over, but got {axis}.")
    return tuple(sorted(wrapped))


def subscripts_of(tensor: SparseTensor, reduced: Sequence[int]) -> str:
    """The subscripts of the einsum that reduces these dimensions."""
    letters = letters_of(tensor.ndim)
    return f"{letters}->{''.join(letters[at] for at in range(tensor.ndim) if at not in reduced)}"


def elements_per_result(tensor: SparseTensor, reduced: Sequence[int], name: str) -> int:
    """The number of elements that are reduced to one element of the result.

    Raises ShapeError for a maximum or minimum of no elements.
    """
    total = prod(tensor.shape[at] for at in reduced)
    kept = prod(size for at, size in enumerate(tensor.shape) if at not in reduced)
    if not total and kept and name in ("max", "min", "argmax", "argmin"):
        raise ShapeError(
            f"Expected elements to reduce in A.{name}, but the reduced dimensions of shape {shorten(tensor.shape)} "
            f"have none, and an empty {name} has no value. Pass stored=True, or reduce other dimensions."
        )
    return total


def with_kept_axes(result: SparseTensor | jax.Array, reduced: Sequence[int], ndim: int, keepdims: bool) -> Any:
    """Insert the reduced dimensions with size 1 into the result if `keepdims`, else return it unchanged."""
    if not keepdims:
        return result
    if isinstance(result, SparseTensor):
        return result[tuple(None if at in reduced else slice(None) for at in range(ndim))]
    return jnp.expand_dims(result, tuple(reduced))
