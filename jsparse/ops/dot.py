"""`dot` and `vecdot`: products under names that numpy has besides `@` and `tensordot`."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jsparse.errors import ShapeError
from jsparse.ops.einsum import einsum
from jsparse.ops.elementwise.operators import as_operand, matmul, multiply
from jsparse.ops.relocation.operands import as_axis
from jsparse.ops.shaping.axes import moveaxis
from jsparse.ops.shaping.tensordot import tensordot
from jsparse.tensor.sparse_tensor import SparseTensor, TensorLike

__all__ = ["dot", "vecdot"]


def dot(a: TensorLike, b: TensorLike) -> SparseTensor | jax.Array:
    """Compute the product of two operands, sparse or dense, as jnp.dot does.

        >>> jsparse.dot(A, B.T).shape
        (1000, 1000)

    A scalar multiplies. Otherwise the last dimension of `a` is summed with the second last of `b`, or its only one. The
    result has the other dimensions of `a` and of `b`. Raises ShapeError if the sizes differ.
    """
    left, right = as_operand(a), as_operand(b)
    if not left.ndim or not right.ndim:
        if isinstance(left, SparseTensor):
            return multiply(left, right)
        return multiply(right, left) if isinstance(right, SparseTensor) else jnp.dot(left, right)
    if left.ndim <= 2 and right.ndim <= 2:
        return matmul(left, right)
    return tensordot(left, right, ((left.ndim - 1,), (max(right.ndim - 2, 0),)))


def vecdot(a: TensorLike, b: TensorLike, /, *, axis: int = -1) -> SparseTensor | jax.Array:
    """Compute Σ conj(a) · b along a dimension of two operands that broadcast, sparse or dense, as jnp.vecdot does.

        >>> jsparse.vecdot(A, A).shape
        (1000,)

    Args:
        axis: the dimension, which has the same size in both.

    Raises ShapeError for an axis out of range, or shapes that do not fit.
    """
    left, right = as_operand(a), as_operand(b)
    if not isinstance(left, SparseTensor) and not isinstance(right, SparseTensor):
        return jnp.vecdot(left, right, axis=axis)
    at = [as_axis(axis, x.ndim, "vecdot") for x in (left, right)]
    sizes = [x.shape[n] for x, n in zip((left, right), at, strict=True)]
    if sizes[0] != sizes[1]:
        raise ShapeError(f"Expected operands of jsparse.vecdot of one size along axis {axis}, but got {sizes}.")
    one, other = (_with_last(x, n) for x, n in zip((left, right), at, strict=True))
    return einsum("...n,...n->...", one.conj(), other)


def _with_last(x: SparseTensor | jax.Array, axis: int) -> SparseTensor | jax.Array:
    return moveaxis(x, axis, -1) if isinstance(x, SparseTensor) else jnp.moveaxis(x, axis, -1)
