"""Rules for indexing by slices, and for rows at given indices."""

from __future__ import annotations

import operator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.base.arrays import Array
from jsparse.ops.building.random import numpy_unless_traced
from jsparse.ops.shaping.axes import expand_dims
from jsparse.sparsification.deferred import dense, uniform_number
from jsparse.sparsification.equation import Equation
from jsparse.sparsification.rules import sparse_rule
from jsparse.sparsification.shapes import move_elements
from jsparse.sparsification.sparse_value import SparseValue, Value, check_known, whole
from jsparse.tensor.sparse_tensor import SparseTensor


@sparse_rule("slice")
def slice_tensor(equation: Equation, x: SparseValue) -> Value:
    """Take a range of each dimension."""
    starts, limits = equation.params["start_indices"], equation.params["limit_indices"]
    strides = equation.params["strides"] or [1] * x.ndim
    index = tuple(slice(*bounds) for bounds in zip(starts, limits, strides, strict=True))
    return move_elements(equation, x, operator.itemgetter(index), partial(_index_background, index=index))


def _index_background(background: jax.Array, index: tuple[slice, ...]) -> jax.Array:
    """Index an array. Dimensions of size 1 stand for repeated elements and stay."""
    pairs = zip(index, background.shape, strict=False)
    return background[tuple(slice(None) if size == 1 else at for at, size in pairs)]


@sparse_rule("split")
def split(equation: Equation, x: SparseValue) -> list[Value]:
    """Split a tensor into consecutive ranges of a dimension."""
    axis, end, parts = equation.params["axis"], 0, []
    for size in equation.params["sizes"]:
        index = (*[slice(None)] * axis, slice(end, end + size))
        parts.append(move_elements(equation, x, operator.itemgetter(index), partial(_index_background, index=index)))
        end += size
    return parts


@sparse_rule("dynamic_slice")
def slice_tensor_at(equation: Equation, x: Value, *starts: Any) -> Value:
    """Take a range of each dimension. If the start is not known, the range has to be one coordinate or all."""
    if not isinstance(x, SparseValue):
        raise equation.not_supported("starts at an index that is a SparseTensor", "Index by arrays.")
    index: list[Any] = []
    added = []
    for dim, (start, size) in enumerate(zip(starts, equation.params["slice_sizes"], strict=True)):
        last, number = x.shape[dim] - size, uniform_number(start)
        if number is not None or not last:
            first = min(max(int(number), 0), last) if last else 0
            index.append(slice(first, first + size))
        elif size == 1:
            index.append(jnp.clip(start, 0, last))
            added.append(dim)
        else:
            raise equation.not_supported(
                f"starts at a traced index of dimension {dim}", "Slice at known indices, or pass A.todense()."
            )

    def select(tensor: SparseTensor) -> SparseTensor:
        part = tensor[tuple(index)]
        if part.ndim == 0 or not added:
            return part.reshape(equation.shape) if not part.ndim else part
        return expand_dims(part, tuple(added))

    def of_background(b: jax.Array) -> jax.Array:
        for dim, (start, size) in enumerate(zip(starts, equation.params["slice_sizes"], strict=True)):
            b = b if b.shape[dim] == 1 else jax.lax.dynamic_slice_in_dim(b, start, size, dim)
        return b

    return move_elements(equation, x, select, of_background)


@sparse_rule("gather")
def gather_elements(equation: Equation, x: Value, indices: jax.Array) -> Value:
    """Take rows or columns at an array of indices, or elements at points: `A[rows]` and `A[rows, columns]`."""
    if isinstance(x, SparseValue):
        numbers, ndim = equation.params["dimension_numbers"], x.ndim
        axes, collapsed = tuple(numbers.start_index_map), tuple(numbers.collapsed_slice_dims)
        batch = tuple(numbers.operand_batching_dims)
        sizes = tuple(1 if dim in (*axes, *batch) else size for dim, size in enumerate(x.shape))
        count = np.ndim(indices) - 1
        other_dims = tuple(dim if dim < axes[0] else dim + count - 1 for dim in range(ndim) if dim not in axes)
        if tuple(equation.params["slice_sizes"]) == sizes:
            points = numpy_unless_traced(dense(indices))
            if sorted((*collapsed, *batch)) == list(range(ndim)):
                return _elements(equation, x, points)
            if len(axes) == 1 and axes == collapsed and not batch and tuple(numbers.offset_dims) == other_dims:
                take = partial(_take_background, points=points[..., 0], axis=axes[0])
                return move_elements(equation, x, lambda tensor: tensor.take(points[..., 0], axes[0]), take)
    raise equation.not_supported(
        "indexes a SparseTensor by slices at several arrays", "Write A[rows, columns] outside jsparse.sparsify."
    )


def _take_background(background: jax.Array, points: Array, axis: int) -> jax.Array:
    """Take from an array along `axis`. A dimension of size 1 stands for repeated elements."""
    if background.shape[axis] > 1:
        return jnp.take(background, points, axis, mode="clip")
    added = [1] * np.ndim(points)
    return background.reshape((*background.shape[:axis], *added, *background.shape[axis + 1 :]))


def _elements(equation: Equation, x: SparseValue, points: Array) -> jax.Array:
    """Read elements at points, from the entries or the background. Batch dimensions become coordinates of points."""
    check_known(x, equation)
    index, outside = _index(equation, x.shape, points)
    tensor = whole(x).tensor
    elements: Any = tensor[index]
    if not x.background.is_zero:
        stored: Any = tensor.with_values(jnp.ones(tensor.nse, jnp.float32))[index]
        background = x.background.as_array(x.ndim, x.dtype)
        repeats = tuple(0 if size == 1 else at for at, size in zip(index, background.shape, strict=True))
        elements = jnp.where(stored != 0, elements, background[repeats])
    if outside is None:
        return elements
    return jnp.where(outside, equation.fill_value(x.dtype), elements)


def _index(equation: Equation, shape: tuple[int, ...], points: Array) -> tuple[tuple[Array, ...], Array | None]:
    """Return the clipped coordinates of points in each dimension, and whether each point is out of range.

    The latter is None if no point is out of range, or if JAX clips points that are, rather than give them fill values.
    """
    numbers, result = equation.params["dimension_numbers"], equation.shape
    xnp: Any = np if isinstance(points, np.ndarray) else jnp
    index: list[Any] = [0] * len(shape)
    outside: Any = np.False_
    for n, dim in enumerate(numbers.start_index_map):
        at, last = points[..., n], max(shape[dim] - 1, 0)
        outside = outside | (at < 0) | (at > last)
        index[dim] = xnp.clip(at, 0, last)
    for dim, at in zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True):
        index[dim] = np.arange(result[at]).reshape([-1 if n == at else 1 for n in range(len(result))])
    is_filled = equation.params["mode"] == jax.lax.GatherScatterMode.FILL_OR_DROP
    fills_none = not is_filled or (xnp is np and not outside.any())
    return tuple(index), None if fills_none else outside
