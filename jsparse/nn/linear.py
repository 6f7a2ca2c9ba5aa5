"""Linear layers with sparse weights."""

from __future__ import annotations

from math import prod

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike, DTypeLike

from jsparse.errors import DTypeError, ShapeError, describe_type
from jsparse.nn.layer import Initializer
from jsparse.nn.operands import check_bias, round_to_operands, sparse_or_dense, wide, wide_sums
from jsparse.tensor.leaves import with_sound_leaves
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
        weight: a SparseTensor (in, out) in any format, static or dynamic; or the blocks of such a matrix, as a
            SparseTensor (in / b, out / c, b, c).
        bias: an array (out,), or None.
        dtype: the dtype of the computation; by default the dtype to which the operands promote.

    Returns an array (..., out).

    Raises DTypeError if the weight is not a SparseTensor, ShapeError for shapes that do not fit.
    """
    return affine(sparse_or_dense(x, "linear", "x (..., in)"), weight, bias, dtype)


def affine(
    x: SparseTensor | jax.Array, weight: SparseTensor, bias: ArrayLike | None, dtype: DTypeLike | None
) -> jax.Array:
    """Compute `linear` of an x that a layer has converted and checked."""
    if not isinstance(weight, SparseTensor):
        raise DTypeError(f"Expected a SparseTensor as the weight of linear, but got {describe_type(weight)}.")
    inputs, out = weight.shape[::2], prod(weight.shape[1::2])
    if weight.ndim not in (2, 4) or not x.ndim or x.shape[-1] != prod(inputs):
        expected = "(in / b, out / c, b, c)" if weight.ndim == 4 else "(in, out)"
        raise ShapeError(
            f"Expected x (..., in) and a weight {expected} in linear, but got x {x.shape} and a weight {weight.shape}."
        )
    text = "ni,ij->nj" if weight.ndim == 2 else "nik,ijkl->njl"
    weight, bias = with_sound_leaves(weight, f"operand 1 of '{text}'"), check_bias(bias, (out,), "linear")
    if dtype is not None:
        x, weight, bias = x.astype(dtype), weight.astype(dtype), None if bias is None else bias.astype(dtype)
    # A call of JAX's reshape takes longer than a small product, even where the shape stays.
    rows = x if x.ndim == weight.ndim == 2 else x.reshape(prod(x.shape[:-1]), *inputs)
    sums = wide_sums(text, rows, weight)
    sums = sums if weight.ndim == 2 else sums.reshape(rows.shape[0], out)
    sums = round_to_operands(sums if bias is None else sums + wide(bias), x, weight, bias)
    return sums if x.ndim == 2 else sums.reshape(*x.shape[:-1], out)


def block_linear(
    x: TensorLike, weight: SparseTensor, bias: ArrayLike | None = None, *, dtype: DTypeLike | None = None
) -> jax.Array:
    """Compute x W + b for a matrix W that stores some of its blocks. `linear` does the same.

        >>> W = jsparse.asarray(np.kron(np.eye(4, 2), np.ones((16, 16))), format="bsr(16, 16)")
        >>> jsparse.nn.block_linear(jnp.ones((8, 64)), W, jnp.zeros(32)).shape
        (8, 32)

    See `linear` for the arguments and the result. Raises DTypeError and ShapeError as `linear` does.
    """
    return linear(x, weight, bias, dtype=dtype)


def normal_initializer(inputs: float) -> Initializer:
    """Return an initializer that draws normal numbers with variance 1 / inputs."""
    return lambda key, shape, dtype: jax.random.normal(key, shape, dtype) / jnp.sqrt(jnp.asarray(inputs, dtype))
