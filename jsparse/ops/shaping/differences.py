"""`diff`, and its inverse `cumulative_sum`, which works along trailing dense levels only."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax.typing import DTypeLike

from jsparse.errors import PatternError, ShapeError
from jsparse.ops.relocation.operands import as_axis, as_integer, as_tensor
from jsparse.ops.shaping.joining import concatenate
from jsparse.tensor.sparse_tensor import SparseLike, SparseTensor, dense_array, dense_levels


def diff(
    a: SparseLike,
    n: int = 1,
    axis: int = -1,
    prepend: SparseLike | None = None,
    append: SparseLike | None = None,
) -> SparseTensor:
    """Compute the differences of adjacent elements along `axis` n times, as jnp.diff does.

        >>> jsparse.diff(A, axis=1).shape
        (1000, 799)

    Args:
        a: a tensor.
        n: how many times differences are computed. Each time the size of `axis` shrinks by 1.
        axis: the dimension.
        prepend, append: tensors that are first joined with `a` along `axis`, before and after the elements of `a`.

    The result stores an entry where either adjacent element is stored. Raises ShapeError for an axis out of range, a
    negative n, and tensors that do not match.
    """
    tensor = as_tensor(a, "diff")
    if prepend is not None or append is not None:
        tensor = concatenate([x for x in (prepend, tensor, append) if x is not None], axis)
    at, times = as_axis(axis, tensor.ndim, "diff"), as_integer(n, "the n of jsparse.diff")
    if times < 0:
        raise ShapeError(f"Expected n >= 0 for jsparse.diff, but got {times}.")
    every = (slice(None),) * at
    for _ in range(times):
        later, earlier = tensor[(*every, slice(1, None))], tensor[(*every, slice(None, -1))]
        if tensor.dtype == jnp.bool_:
            later, earlier = later.astype(jnp.int8), earlier.astype(jnp.int8)
            tensor = (later - earlier).map(lambda x: x != 0)
        else:
            tensor = later - earlier
    return tensor


def cumulative_sum(
    a: SparseLike, /, *, axis: int | None = None, dtype: DTypeLike | None = None, include_initial: bool = False
) -> SparseTensor:
    """Compute running sums along a dimension with a trailing dense level, as jnp.cumulative_sum does.

        >>> blocks = jsparse.asarray(np.ones((2, 3)), jsparse.Format.of("(i, j) -> (i : compressed, j : dense)", 2))
        >>> jsparse.cumulative_sum(blocks, axis=1).todense().tolist()
        [[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]]

    Args:
        axis: the dimension. It may be left out for a vector.
        dtype: the dtype of the sums, by default the dtype of jnp.cumulative_sum.
        include_initial: whether the sums begin with an additional 0. This needs a tensor with only dense levels.

    Along any other dimension the sums after an entry differ from 0, so the result would be dense: a PatternError says
    what to call instead. Raises ShapeError for an axis out of range.
    """
    tensor = as_tensor(a, "cumulative_sum")
    if axis is None and tensor.ndim > 1:
        raise ShapeError(f"Expected axis= of jsparse.cumulative_sum for a tensor with {tensor.ndim} dimensions.")
    at = as_axis(-1 if axis is None else axis, tensor.ndim, "cumulative_sum")
    inner = tensor.format.trailing_dims
    if at not in inner or (include_initial and not tensor.format.is_dense):
        raise PatternError(
            f"Expected an axis of jsparse.cumulative_sum that a trailing dense level stores, but got {axis} of "
            f"{tensor!r}: the running sums would be dense. Write jnp.cumsum(A.todense(), axis), or A.sum(axis) for the "
            "sums over all elements."
        )
    options: dict[str, Any] = {"dtype": dtype, "include_initial": include_initial}
    if tensor.format.is_dense:
        return dense_levels(jnp.cumulative_sum(dense_array(tensor), axis=at, **options), tensor.format)
    blocks = tensor.values.reshape(-1, *(tensor.shape[dim] for dim in inner))
    sums = jnp.cumulative_sum(blocks, axis=1 + inner.index(at), **options)
    return tensor.with_values(sums.reshape(tensor.values.shape))
