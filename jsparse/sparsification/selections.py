"""Rules of indexing: slices, and rows at given indices."""

from __future__ import annotations

import operator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.ops.shaping.axes import expand_dims
from jsparse.sparsification.deferred import dense, known_number
from jsparse.sparsification.equation import Equation
from jsparse.sparsification.rules import sparse_rule
from jsparse.sparsification.shapes import moved
from jsparse.sparsification.sparse_value import SparseValue, Value
from jsparse.tensor.sparse_tensor import SparseTensor

__all__: list[str] = []


@sparse_rule("slice")
def sliced(equation: Equation, x: SparseValue) -> Value:
    """Take a range of each dimension."""
    starts, limits = equation.params["start_indices"], equation.params["limit_indices"]
    strides = equation.params["strides"] or [1] * x.ndim
    index = tuple(slice(*bounds) for bounds in zip(starts, limits, strides, strict=True))
    return moved(equation, x, operator.itemgetter(index))


@sparse_rule("split")
def split(equation: Equation, x: SparseValue) -> list[Value]:
    """Cut into consecutive ranges of a dimension."""
    axis, end, parts = equation.params["axis"], 0, []
    for size in equation.params["sizes"]:
        index = (*[slice(None)] * axis, slice(end, end + size))
        parts.append(moved(equation, x, operator.itemgetter(index)))
        end += size
    return parts


@sparse_rule("dynamic_slice")
def sliced_at(equation: Equation, x: Value, *starts: Any) -> Value:
    """Take a range of each dimension: where the start is not known, one coordinate or all of them."""
    if not isinstance(x, SparseValue):
        raise equation.unsupported("starts at an index that is a SparseTensor", "Index by arrays.")
    index: list[Any] = []
    added = []
    for dim, (start, size) in enumerate(zip(starts, equation.params["slice_sizes"], strict=True)):
        last, number = x.shape[dim] - size, known_number(start)
        if number is not None or not last:
            first = min(max(int(number), 0), last) if last else 0
            index.append(slice(first, first + size))
        elif size == 1:
            index.append(jnp.clip(start, 0, last))
            added.append(dim)
        else:
            raise equation.unsupported(
                f"starts at a traced index of dimension {dim}", "Slice at known indices, or pass A.todense()."
            )

    def selected(tensor: SparseTensor) -> SparseTensor:
        found = tensor[tuple(index)]
        if found.ndim == 0 or not added:
            return found.reshape(equation.shape) if not found.ndim else found
        return expand_dims(found, tuple(added))

    return moved(equation, x, selected)


@sparse_rule("gather")
def taken(equation: Equation, x: Value, indices: jax.Array) -> Value:
    """Take rows or columns at an array of indices, or elements at points: `A[rows]` and `A[rows, columns]`."""
    if isinstance(x, SparseValue):
        numbers, ndim = equation.params["dimension_numbers"], x.ndim
        axes, collapsed = tuple(numbers.start_index_map), tuple(numbers.collapsed_slice_dims)
        sizes = tuple(1 if dim in axes else size for dim, size in enumerate(x.shape))
        count = np.ndim(indices) - 1
        rest = tuple(dim if dim < axes[0] else dim + count - 1 for dim in range(ndim) if dim not in axes)
        if axes == collapsed and tuple(equation.params["slice_sizes"]) == sizes:
            points = _known(dense(indices))
            if axes == tuple(range(ndim)):
                return moved(equation, x, lambda tensor: tensor[tuple(points[..., dim] for dim in axes)])
            if len(axes) == 1 and tuple(numbers.offset_dims) == rest:
                return moved(equation, x, lambda tensor: tensor.take(points[..., 0], axes[0]))
    raise equation.unsupported(
        "indexes a SparseTensor by slices at several arrays", "Write A[rows, columns] outside of jsparse.sparsify."
    )


def _known(indices: Value) -> Any:
    return indices if isinstance(indices, jax.core.Tracer) else np.asarray(indices)
