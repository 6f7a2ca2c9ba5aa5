"""Tensor products over several dimensions."""

from __future__ import annotations

from collections.abc import Sequence

import jax
from jax.typing import DTypeLike

from jsparse.convert.creation import as_sparse_operand
from jsparse.errors import ShapeError, represented, shortened
from jsparse.ops.einsum import einsum
from jsparse.ops.relocation.operands import as_axes, as_integer
from jsparse.planning.signature import OutFormat
from jsparse.tensor.sparse_tensor import SparseTensor, TensorLike

__all__ = ["tensordot"]


def tensordot(
    a: TensorLike,
    b: TensorLike,
    axes: int | Sequence[int | Sequence[int]] = 2,
    *,
    out_format: OutFormat = None,
    nse: int | None = None,
    preferred_element_type: DTypeLike | None = None,
) -> SparseTensor | jax.Array:
    """Sum products over dimensions of two tensors, sparse or dense, as jnp.tensordot does. It is one einsum.

        >>> jsparse.tensordot(A, B.T, axes=1)         # A @ B.T of matrices
        >>> jsparse.tensordot(A, X, axes=([1], [0]))  # dimension 1 of A with dimension 0 of X

    Args:
        axes: a number n, to sum over the last n dimensions of `a` and the first n of `b`; or the summed dimensions of
            each, as two lists.
        out_format, nse, preferred_element_type: as in `jsparse.einsum`.

    The result has the dimensions of `a` and then of `b` that are not summed. Dtypes promote as in `jsparse.einsum`.
    Raises ShapeError for axes that do not fit each other, and the errors of `jsparse.einsum`.
    """
    left, right = (as_sparse_operand(x, "jsparse.tensordot") for x in (a, b))
    dims = [len(x.shape) if hasattr(x, "shape") else 0 for x in (left, right)]
    if isinstance(axes, Sequence):
        if len(axes) != 2:
            raise ShapeError(f"Expected two lists of axes for jsparse.tensordot, but got {represented(axes)}.")
        summed = [as_axes(one, ndim, "tensordot") for one, ndim in zip(axes, dims, strict=True)]
    else:
        count = as_integer(axes, "the axes of jsparse.tensordot")
        if not 0 <= count <= min(dims):
            raise ShapeError(
                f"Expected axes from 0 to {min(dims)} for jsparse.tensordot of shapes {shortened(left.shape)} and "
                f"{shortened(right.shape)}, but got {count}."
            )
        summed = [tuple(range(dims[0] - count, dims[0])), tuple(range(count))]
    if len(summed[0]) != len(summed[1]):
        raise ShapeError(
            f"Expected as many axes of both operands of jsparse.tensordot, but got {len(summed[0])} and "
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
