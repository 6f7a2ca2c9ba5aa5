"""Linear layers with sparse weights."""

from __future__ import annotations

from math import prod

import jax
from jax.typing import ArrayLike, DTypeLike

from jsparse.errors import DTypeError, ShapeError
from jsparse.nn.operands import dense_array, plus_bias, rounded, sparse_or_dense, unrounded_sums
from jsparse.tensor.sparse_tensor import SparseTensor, TensorLike


def linear(
    x: TensorLike, weight: SparseTensor, bias: ArrayLike | None = None, *, dtype: DTypeLike | None = None
) -> jax.Array:
    """Compute x W + b for a sparse matrix W.

        >>> W = jsparse.random(jax.random.key(0), (64, 32), density=0.1)
        >>> jsparse.nn.linear(jnp.ones((8, 64)), W, jnp.zeros(32)).shape
        (8, 32)

    Args:
        x: (..., in), an array or a sparse tensor, such as bags of words.
        weight: a SparseTensor (in, out), static or dynamic.
        bias: an array (out,), or None.
        dtype: the dtype of the computation; by default the dtype to which the operands promote.

    Returns an array (..., out).

    Raises DTypeError if the weight is no SparseTensor, ShapeError for shapes that do not fit.
    """
    x, weight, bias = _cast(x, weight, bias, dtype, "linear")
    if weight.ndim != 2 or not x.ndim or x.shape[-1] != weight.shape[0]:
        raise ShapeError(
            f"Expected x (..., in) and a weight (in, out) in linear, but got x {x.shape} and a weight {weight.shape}."
        )
    rows = x.reshape(prod(x.shape[:-1]), x.shape[-1])
    found = plus_bias(unrounded_sums("bi,io->bo", rows, weight), bias, "linear")
    return rounded(found, x, weight, bias).reshape(*x.shape[:-1], weight.shape[1])


def block_linear(
    x: TensorLike, weight: SparseTensor, bias: ArrayLike | None = None, *, dtype: DTypeLike | None = None
) -> jax.Array:
    """Compute x W + b for a matrix W that stores some of its blocks.

        >>> blocks = jsparse.random(jax.random.key(0), (4, 2), density=0.5).pattern.extended([16, 16])
        >>> W = jsparse.SparseTensor(jnp.ones(blocks.nse), blocks)
        >>> jsparse.nn.block_linear(jnp.ones((8, 64)), W, jnp.zeros(32)).shape
        (8, 32)

    Args:
        x: (..., in), an array or a sparse tensor, such as bags of words.
        weight: a SparseTensor (in / b, out / c, b, c) whose last two levels are dense, static or dynamic.
        bias: an array (out,), or None.
        dtype: the dtype of the computation; by default the dtype to which the operands promote.

    Returns an array (..., out).

    Raises DTypeError if the weight is no SparseTensor, ShapeError for shapes that do not fit.
    """
    x, weight, bias = _cast(x, weight, bias, dtype, "block_linear")
    if weight.ndim != 4 or not x.ndim or x.shape[-1] != weight.shape[0] * weight.shape[2]:
        raise ShapeError(
            f"Expected x (..., in) and a weight (in / b, out / c, b, c) in block_linear, but got x {x.shape} and a "
            f"weight {weight.shape}."
        )
    out = weight.shape[1] * weight.shape[3]
    rows = x.reshape(prod(x.shape[:-1]), weight.shape[0], weight.shape[2])
    found = unrounded_sums("nik,ijkl->njl", rows, weight).reshape(rows.shape[0], out)
    found = plus_bias(found, bias, "block_linear")
    return rounded(found, x, weight, bias).reshape(*x.shape[:-1], out)


def _cast(
    x: TensorLike, weight: SparseTensor, bias: ArrayLike | None, dtype: DTypeLike | None, layer: str
) -> tuple[SparseTensor | jax.Array, SparseTensor, jax.Array | None]:
    """Convert the operands to a dtype. None keeps the dtypes. Raises DTypeError if the weight is no SparseTensor."""
    x = sparse_or_dense(x, layer, "x (..., in)", dtype=dtype)
    if not isinstance(weight, SparseTensor):
        raise DTypeError(f"Expected a SparseTensor as the weight of {layer}, but got a {type(weight).__name__}.")
    bias = None if bias is None else dense_array(bias, layer, "a bias (out,)")
    if dtype is None:
        return x, weight, bias
    return x, weight.astype(dtype), None if bias is None else bias.astype(dtype)
