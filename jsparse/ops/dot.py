"""`dot`, `vecdot` and `tensordot`: products of tensors, under numpy's names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from jsparse.base.arrays import jax_array
from jsparse.convert.creation import as_sparse_operand
from jsparse.errors import ShapeError, short_repr, shorten
from jsparse.ops.einsum import einsum
from jsparse.ops.elementwise.operators import as_operand, matmul, multiply
from jsparse.ops.relocation.operands import as_axes, as_axis, as_integer
from jsparse.ops.shaping.axes import moveaxis
from jsparse.planning.signature import OutFormat
from jsparse.tensor.sparse_tensor import SparseTensor, TensorLike


def dot(a: TensorLike, b: TensorLike) -> SparseTensor | jax.Array:
    """Compute the product of two operands, sparse or dense, as jnp.dot does.

        >>> jsparse.dot(A, B.T).shape
        (1000, 1000)

    A scalar multiplies the other operand. Otherwise products are summed over the last dimension of `a` and the second
    to last dimension of `b` (or the only dimension of a vector `b`). The result has the other dimensions of `a`, then
    the other dimensions of `b`. Raises ShapeError if the sizes of the summed dimensions differ.
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
        axis: the dimension to sum over, which has the same size in both operands.

    Raises ShapeError for an axis out of range, or shapes that do not fit.
    """
    left, right = as_operand(a), as_operand(b)
    if not isinstance(left, SparseTensor) and not isinstance(right, SparseTensor):
        return jnp.vecdot(left, right, axis=axis)
    at = [as_axis(axis, x.ndim, "vecdot") for x in (left, right)]
    sizes = [x.shape[n] for x, n in zip((left, right), at, strict=True)]
    if sizes[0] != sizes[1]:
        raise ShapeError(f"Expected operands of jsparse.vecdot with equal sizes along axis {axis}, but got {sizes}.")
    one, other = (
        moveaxis(x, n, -1) if isinstance(x, SparseTensor) else jnp.moveaxis(x, n, -1)
        for x, n in zip((left, right), at, strict=True)
    )
    return einsum("...n,...n->...", one.conj(), other)


def tensordot(
    a: TensorLike,
    b: TensorLike,
    axes: int | Sequence[int | Sequence[int]] = 2,
    *,
    out_format: OutFormat = None,
    nse: int | None = None,
    preferred_element_type: DTypeLike | None = None,
) -> SparseTensor | jax.Array:
    """Sum products over dimensions of two tensors, sparse or dense, as jnp.tensordot does, by one einsum.

        >>> jsparse.tensordot(A, B.T, axes=1)         # A @ B.T of matrices
        >>> jsparse.tensordot(A, X, axes=([1], [0]))  # dimension 1 of A with dimension 0 of X

    Args:
        axes: a number n, to sum over the last n dimensions of `a` and the first n of `b`; or two lists, the summed
            dimensions of `a` and the summed dimensions of `b`.
        out_format, nse, preferred_element_type: as in `jsparse.einsum`.

    The result has the dimensions that are not summed, first from `a`, then from `b`. Dtypes promote as in
    `jsparse.einsum`.
    Raises ShapeError for axes that do not match, and the errors of `jsparse.einsum`.
    """
    left, right = map(_with_shape, (a, b))
    dims = [len(x.shape) for x in (left, right)]
    if isinstance(axes, Sequence):
        if len(axes) != 2:
            raise ShapeError(f"Expected two lists of axes for jsparse.tensordot, but got {short_repr(axes)}.")
        summed = [as_axes(one, ndim, "tensordot") for one, ndim in zip(axes, dims, strict=True)]
    else:
        count = as_integer(axes, "the axes of jsparse.tensordot")
        if not 0 <= count <= min(dims):
            raise ShapeError(
                f"Expected axes from 0 to {min(dims)} for jsparse.tensordot of shapes {shorten(left.shape)} and "
                f"{shorten(right.shape)}, but got {count}."
            )
        summed = [tuple(range(dims[0] - count, dims[0])), tuple(range(count))]
    if len(summed[0]) != len(summed[1]):
        raise ShapeError(
            f"Expected the same number of axes for both operands of jsparse.tensordot, but got {len(summed[0])} and "
            f"{len(summed[1])}."
        )
    first = list(range(dims[0]))
    second = [dims[0] + dim for dim in range(dims[1])]
    for m, n in zip(*summed, strict=True):
        second[n] = m
    kept = [dim for dim in first if dim not in summed[0]] + [dim for dim in second if dim >= dims[0]]
    return einsum(
        left, first, right, second, kept,
        out_format=out_format, nse=nse, preferred_element_type=preferred_element_type,
    )  # fmt: skip


def _with_shape(x: Any) -> Any:
    """Make an array of a list or a number that `jsparse.tensordot` got; return any other operand as einsum takes it."""
    x = as_sparse_operand(x, "jsparse.tensordot")
    return x if hasattr(x, "shape") else jax_array(x, "the operands of jsparse.tensordot to be arrays or SparseTensors")
