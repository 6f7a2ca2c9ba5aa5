"""Norms of vectors and matrices. Elements that are not stored count as zeros."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.errors import NotYetSupportedError, ShapeError, short_repr
from jsparse.formats import Format, Level
from jsparse.formats.levels import COMPRESSED
from jsparse.ops.einsum import einsum
from jsparse.ops.reductions.stored import as_run
from jsparse.ops.relocation.operands import as_axes, as_tensor
from jsparse.tensor.entrywise import jit_map
from jsparse.tensor.sparse_tensor import Axis, SparseLike, SparseTensor


def norm(a: SparseLike, ord: float | str | None = None, axis: Axis = None, keepdims: bool = False) -> jax.Array:
    """Compute the norm of a vector or a matrix, or of all vectors or matrices along `axis`, like jnp.linalg.norm.

        >>> jsparse.norm(A)            # the root of the sum of squares
        >>> jsparse.norm(A, 1)         # the largest column sum of absolute values
        >>> jsparse.norm(A, axis=1)    # of each row

    Args:
        ord: None, 2 or any other positive number, inf, -inf or 0 (the number of nonzeros) for vectors; None, "fro", 1,
            -1, inf or -inf for matrices.
        axis: one dimension for norms of vectors, two dimensions for norms of matrices. By default the tensor itself is
            the vector or matrix; for `ord=None` it may have any rank.
        keepdims: keep the reduced dimensions, with size 1.

    The result is an array of a real dtype: the dtype of the entries, or the default float for integers. Raises
    NotYetSupportedError for orders that need singular values, ShapeError for axes that do not match.
    """
    tensor = as_tensor(a, "norm")
    axes = as_axes(axis, tensor.ndim, "norm")
    if not jnp.issubdtype(tensor.dtype, jnp.inexact):
        tensor = tensor.astype(float)
    if ord is None or (len(axes) == 1 and ord == 2) or (len(axes) == 2 and ord == "fro"):
        result = jnp.sqrt(_sum_over_axes(_map(_square, tensor), axes))
    elif len(axes) == 1:
        result = _of_vectors(tensor, ord, axes[0])
    elif len(axes) == 2:
        result = _of_matrices(tensor, ord, axes)
    else:
        raise ShapeError(
            f"Expected one axis or two for jsparse.norm with ord={short_repr(ord)}, but got {len(axes)} of a tensor "
            f"of {tensor.ndim} dimensions. Pass axis=."
        )
    shape = [1 if dim in axes else size for dim, size in enumerate(tensor.shape)]
    return result.reshape(shape) if keepdims else result


def _of_vectors(tensor: SparseTensor, ord: Any, axis: int) -> jax.Array:
    if ord in (np.inf, -np.inf):
        return _extreme(abs(tensor), (axis,), largest=ord > 0)
    if ord == 0:
        return _sum_over_axes(_map(_nonzero, tensor), (axis,))
    if isinstance(ord, str) or not ord > 0:
        raise NotYetSupportedError(
            "Expected ord of jsparse.norm for vectors to be None, a number >= 0, inf or -inf, but got "
            f"{short_repr(ord)}. Use jnp.linalg.norm for a dense vector."
        )
    if ord == 1:
        return _sum_over_axes(abs(tensor), (axis,))
    return _sum_over_axes(_map(_power, abs(tensor), exponent=float(ord)), (axis,)) ** (1 / ord)


def _of_matrices(tensor: SparseTensor, ord: float | str | None, axes: Sequence[int]) -> jax.Array:
    if ord not in (1, -1, np.inf, -np.inf):
        raise NotYetSupportedError(
            f"Expected ord of jsparse.norm for matrices to be None, 'fro', 1, -1, inf or -inf, but got "
            f"{short_repr(ord)}. The 2-norm is the root of the largest eigenvalue of A.T @ A: iterate with A @ x, or "
            f"use jnp.linalg.norm(A.todense(), {short_repr(ord)})."
        )
    summed, left = axes if ord in (1, -1) else (axes[1], axes[0])
    kept = [dim for dim in range(tensor.ndim) if dim != summed]
    sums = einsum(
        abs(tensor),
        list(range(tensor.ndim)),
        kept,
        out_format=Format(tuple(Level(COMPRESSED, dim) for dim in range(len(kept)))),
        nse=tensor.pattern.capacity,
    )
    assert isinstance(sums, SparseTensor)
    return _extreme(sums, (kept.index(left),), largest=ord > 0)


def _extreme(tensor: SparseTensor, axes: Sequence[int], largest: bool) -> jax.Array:
    """Compute the maximum or minimum of numbers >= 0 over axes. Elements that are not stored count as 0."""
    size = prod(tensor.shape[dim] for dim in axes)
    kept = [dim for dim in range(tensor.ndim) if dim not in axes]
    tensor = tensor if kept else as_run(tensor)
    indices = list(range(tensor.ndim))
    extreme: Any = einsum(tensor, indices, kept, out_format="dense", semiring="max_plus" if largest else "min_plus")
    if largest:
        return jnp.maximum(extreme, 0)
    count = _sum_over_axes(_map(_one, tensor), axes)
    return jnp.where(count < size, jnp.zeros((), extreme.dtype), extreme)


def _sum_over_axes(tensor: SparseTensor, axes: Sequence[int]) -> jax.Array:
    kept = [dim for dim in range(tensor.ndim) if dim not in axes]
    tensor = tensor if kept else as_run(tensor)
    sums: Any = einsum(tensor, list(range(tensor.ndim)), kept, out_format="dense")
    return sums


def _map(function: Callable[..., jax.Array], tensor: SparseTensor, **options: Any) -> SparseTensor:
    return SparseTensor._wrap(jit_map(function, tensor.pattern, tensor.values, **options), tensor.pattern)


def _square(x: jax.Array) -> jax.Array:
    return (x * x.conj()).real


def _nonzero(x: jax.Array) -> jax.Array:
    return (x != 0).astype(x.real.dtype)


def _one(x: jax.Array) -> jax.Array:
    return jnp.ones(x.shape, np.int32)


def _power(x: jax.Array, exponent: float) -> jax.Array:
    return x**exponent
