"""Functions that depend on the values of entries: sort, argsort, top_k, nonzero, unique_values, unique_counts."""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.base.arrays import Array
from jsparse.base.limits import parse_nse
from jsparse.errors import DTypeError, PatternError, ShapeError, short_repr, shorten
from jsparse.formats import Format, Level, Pattern
from jsparse.formats.levels import COMPRESSED
from jsparse.formats.set_operations import without_ranges
from jsparse.ops.evaluate import evaluate
from jsparse.ops.relocation.formats import default_in
from jsparse.ops.relocation.operands import as_axis, as_tensor
from jsparse.ops.relocation.values import is_known, on_device
from jsparse.ops.surgery.selection import is_traced, parse_count, select_slots
from jsparse.primitives.segments import largest, sort_segments
from jsparse.tensor.dynamic_pattern import DynamicPattern
from jsparse.tensor.sparse_tensor import SparseLike, SparseTensor, dense_array, dense_levels


def top_k(a: SparseLike, k: jax.Array | int, axis: int = -1, *, nse: int | None = None) -> SparseTensor:
    """Keep the k largest stored entries of each row along `axis`. Rows with at most k entries stay unchanged.

    Among equal entries the first ones are kept, and NaN is the largest number, as in jax.lax.top_k. The result has the
    tensor's format. It is static if the pattern, the values and k are known, else dynamic. It is differentiable in the
    values.

        >>> jsparse.top_k(A, 8)  # at most 8 entries in each row

    Args:
        k: an integer, which may be traced: one program serves every k.
        nse: the capacity of a dynamic result. The default is enough for k entries in each row, or it is the tensor's
            nse if this is less or k is traced. For a static result `nse` is an upper bound that is checked.

    Raises ShapeError for a negative k or an axis out of range, DTypeError for complex numbers, PatternError if the
    entries exceed `nse`.
    """
    tensor = as_tensor(a, "top_k")
    at, (count, known) = _dimension_to_sort(tensor, axis, "top_k"), parse_count(k)
    if count is None:
        raise ShapeError(f"Expected k >= 0 for jsparse.top_k, an integer, but got {short_repr(k)}.")
    if tensor.format.is_dense and not (is_known(tensor.values) and known is not None):
        tensor = tensor.asformat(default_in(tensor.shape, tensor.nse))
    capacity = tensor.nse
    if known is not None:
        rows = prod(size for dim, size in enumerate(tensor.shape) if dim != at)
        capacity = min(capacity, rows * known * prod(tensor.shape[dim] for dim in tensor.format.trailing_dims))
    return select_slots(tensor, _largest(tensor, count, at), parse_nse(nse, "top_k"), capacity)


def sort(a: SparseLike, axis: int = -1, *, descending: bool = False, stable: bool = True) -> SparseTensor:
    """Sort all elements along `axis`, stored or not, as jnp.sort does.

    In each row the negative entries come first, then the zeros, then the other entries; NaN is last. So sorting moves
    the stored entries and adds none. The result is static if the pattern and the values are known, else it is dynamic
    with the tensor's nse, or a larger nse if the format ends with dense levels. It is differentiable in the values.

        >>> jsparse.sort(A)

    Args:
        descending: whether NaN comes first, then the largest elements, as in jnp.sort.
        stable: an argument of the array API. It has no effect, because equal elements cannot be told apart.

    Raises ShapeError for an axis out of range, DTypeError for complex numbers.
    """
    tensor = as_tensor(a, "sort")
    at = _dimension_to_sort(tensor, axis, "sort")
    if tensor.format.is_dense:
        x, starts = _along_last(tensor, at)
        ordered, _ = _sort_values(x.reshape(-1), starts, 0, descending)
        return dense_levels(jnp.moveaxis(ordered.reshape(x.shape), -1, at), tensor.format)
    return _sort_rows(_by_rows(tensor, at), at, descending).asformat(without_ranges(tensor.format))


def argsort(a: SparseLike, axis: int = -1, *, descending: bool = False, stable: bool = True) -> jax.Array:
    """Return an array of the indices that sort the elements along `axis`. The tensor must store all elements.

        >>> jsparse.argsort(jsparse.asarray([[3, 1, 2]], format="dense")).tolist()
        [[1, 2, 0]]

    Raises PatternError, which says what to call instead, for any other tensor, because the array would be dense;
    ShapeError for an axis out of range; DTypeError for complex numbers.
    """
    tensor = as_tensor(a, "argsort")
    at = _dimension_to_sort(tensor, axis, "argsort")
    if not tensor.format.is_dense:
        raise PatternError(
            f"Expected a tensor that stores all elements in dense levels for jsparse.argsort, but got {tensor!r}: the "
            f"indices of all elements would be an array of shape {shorten(tensor.shape)}. Write jsparse.sort(A) for "
            "sorted elements, jsparse.top_k(A, k) or A.argmax(axis) for the largest entries, or "
            "jnp.argsort(A.todense(), axis)."
        )
    x, starts = _along_last(tensor, at)
    order, _ = sort_segments(x.reshape(-1), starts, descending=descending)
    within = (order - starts[:-1].repeat(x.shape[-1])).astype(jnp.arange(0).dtype).reshape(x.shape)
    return jnp.moveaxis(jnp.asarray(within), -1, at)


def unique_values(a: SparseLike) -> jax.Array:
    """Find the distinct elements in ascending order, with 0 if an element is not stored, as jnp.unique_values does.

        >>> jsparse.unique_values(jsparse.eye(3)).tolist()
        [0.0, 1.0]

    The result has the dtype of the values. Raises PatternError if the tensor is traced or overflowed: the number of
    values is only known outside jit.
    """
    elements, _ = _elements(a, "unique_values")
    values: np.ndarray = np.unique(_sortable(elements), equal_nan=False)
    return on_device(values.astype(elements.dtype, copy=False))


def unique_counts(a: SparseLike) -> UniqueCounts:
    """Find the distinct elements in ascending order, and how often each occurs, as jnp.unique_counts does.

        >>> values, counts = jsparse.unique_counts(jsparse.eye(3))
        >>> values.tolist(), counts.tolist()
        ([0.0, 1.0], [6, 3])

    Elements that are not stored count as 0, and every NaN is distinct. Returns a pair with the attributes `values`,
    with the dtype of the tensor, and `counts`, integers. Raises PatternError as `unique_values` does, DTypeError if a
    count needs int64 but x64 is off.
    """
    elements, zeros = _elements(a, "unique_counts")
    values, counts = np.unique(_sortable(elements), return_counts=True, equal_nan=False)
    values = values.astype(elements.dtype, copy=False)
    dtype = jnp.arange(0).dtype
    if zeros > np.iinfo(dtype).max - len(elements):
        raise DTypeError(
            f"Expected a number of zeros that {dtype} can hold, but {zeros:,} elements are not stored. "
            f"Set jax.config.update('jax_enable_x64', True)."
        )
    others = max(zeros - 1, 0)  # one of them is among the elements
    return UniqueCounts(on_device(values), on_device((counts + np.where(values == 0, others, 0)).astype(dtype)))


class UniqueCounts(NamedTuple):
    """The result of `unique_counts`: distinct elements (n,), and how often each occurs (n,)."""

    values: jax.Array
    counts: jax.Array


def _sortable(x: np.ndarray) -> np.ndarray:
    """Convert numbers to a dtype that numpy sorts fast, in which they are the same."""
    return x if x.dtype.kind in "biufc" and x.dtype != np.float16 else x.astype(np.float32)


def _elements(a: SparseLike, name: str) -> tuple[np.ndarray, int]:
    """Return the stored values, with a 0 appended if any element is not stored, and the number of unstored elements."""
    tensor = as_tensor(a, name)
    if not is_known(tensor.values):
        raise PatternError(
            f"Expected known values, but {tensor!r} has traced values, so the number of distinct values is unknown. "
            f"Call {name} outside jit, or jnp.unique(A.values, size=n) inside."
        )
    tensor = tensor.static()
    values, zeros = np.asarray(tensor.values), tensor.size - tensor.nse
    return np.concatenate([values, np.zeros(min(zeros, 1), values.dtype)]), zeros


def nonzero(a: SparseLike) -> tuple[np.ndarray, ...]:
    """Find the coordinates of the entries that are not 0, as one integer array for each dimension, like jnp.nonzero.

    The coordinates are in C order. NaN is not 0.

        >>> rows, columns = jsparse.nonzero(A)

    Each array has the shape (n,) and the dtype of the index arrays. Raises PatternError if the tensor is traced or
    overflowed: the number n is only known outside jit. Raises ShapeError for a tensor of rank 0, as jnp.nonzero does.
    """
    tensor = as_tensor(a, "nonzero")
    if not tensor.ndim:
        raise ShapeError(
            f"Expected a tensor with dimensions for jsparse.nonzero, but got {tensor!r}, whose element has no "
            "coordinates. Write A.values != 0, or make it a vector with jsparse.expand_dims(A, 0)."
        )
    if not is_known(tensor.values):
        raise PatternError(
            f"Expected known values, but {tensor!r} has traced values, so the number of nonzeros is unknown. Call "
            "nonzero outside jit, or take all stored entries with A.to_coords()."
        )
    coords, values = tensor.to_coords()
    coords = coords[:, np.asarray(values) != 0]
    return tuple(coords[:, np.lexsort(coords[::-1])])


def _dimension_to_sort(tensor: SparseTensor, axis: int, what: str) -> int:
    """Convert an axis to a dimension, counted from the start. Raises DTypeError for values without an order."""
    if jnp.issubdtype(tensor.dtype, jnp.complexfloating):
        raise DTypeError(
            f"Expected real entries for jsparse.{what}, which needs an order, but they are {tensor.dtype}. Sort "
            "abs(A), or A.with_values(A.values.real)."
        )
    return as_axis(axis, tensor.ndim, what)


def _is_by_rows(format: Format, axis: int) -> bool:
    *above, last = format.levels
    return last.dim == axis and last.kind.has_segments and all(level.unique for level in above)


def _by_rows(tensor: SparseTensor, axis: int) -> SparseTensor:
    """Convert to a format whose last level has the entries of each row along `axis` one after the other."""
    if _is_by_rows(tensor.format, axis):
        return tensor
    dims = [*(dim for dim in tensor.format.order if dim != axis), axis]
    return tensor.asformat(Format(tuple(Level(COMPRESSED, dim) for dim in dims)))


def _largest(tensor: SparseTensor, count: int | np.integer | jax.Array, axis: int) -> Array:
    """Return the mask (nse,) of the `count` largest entries of each row along `axis`."""
    if tensor.format.is_dense:
        x, starts = _along_last(tensor, axis)
        kept = largest(x.reshape(-1), count, starts).reshape(x.shape)
        return dense_levels(jnp.moveaxis(kept, -1, axis), tensor.format).values
    if _is_by_rows(tensor.format, axis):
        return largest(tensor.values, count, tensor.pattern.arrays[-2])
    numbers = np.arange(tensor.nse, dtype=np.int32 if tensor.nse < 2**31 else np.int64)
    rows = _by_rows(SparseTensor._wrap(on_device(numbers), tensor.pattern), axis)
    starts, slots = rows.pattern.arrays[-2], rows.values
    if is_traced(tensor.values, slots):
        kept = largest(jax.lax.stop_gradient(tensor.values)[slots], count, starts)
        # Padding has the number 0, but is in no row: only marks are written.
        return jnp.zeros(tensor.nse, np.bool_).at[jnp.where(kept, slots, tensor.nse)].set(True, mode="drop")
    known = np.asarray(slots)
    mask = np.zeros(tensor.nse, np.bool_)
    mask[known[np.asarray(largest(np.asarray(tensor.values)[known], count, starts))]] = True
    return mask


def _sort_rows(rows: SparseTensor, axis: int, descending: bool) -> SparseTensor:
    """Sort a tensor whose last level has the entries of rows: values and coordinates change, and nothing else."""
    pattern = rows.pattern
    *above, starts, _ = pattern.arrays
    values, places = _sort_values(rows.values, starts, rows.shape[axis], descending)
    if isinstance(pattern, Pattern) and is_known(places):
        arrays = (*above, starts, np.asarray(places))
        return SparseTensor._wrap(values, Pattern._of_valid(pattern.shape, pattern.format, arrays))
    dynamic = rows.dynamic().pattern
    assert isinstance(dynamic, DynamicPattern)
    *above, starts, _ = dynamic.arrays
    arrays = (*above, starts, places.astype(dynamic.index_dtype))
    return SparseTensor._wrap(values, DynamicPattern(dynamic.type, arrays))


def _sort_values(values: Array, starts: Array, width: int, descending: bool) -> tuple[jax.Array, Array]:
    """Return the values of each row in order, and their places in a row of `width` elements."""
    if is_known(values):
        return sort_segments(values, starts, width, descending=descending, known=True)
    order, places = sort_segments(values, starts, width, descending=descending)
    # A statement, because its derivative is a kernel's, too.
    ordered: Any = evaluate("C[q] = V[G[q]]", V=values, G=order) if len(order) else values
    return ordered, places


def _along_last(tensor: SparseTensor, axis: int) -> tuple[jax.Array, np.ndarray]:
    """Return a tensor with dense levels as an array whose last axis is `axis`, and the starts of its rows."""
    x = jnp.moveaxis(dense_array(tensor), axis, -1)
    return x, np.arange(0, x.size + 1, x.shape[-1]) if x.size else np.zeros(1, np.int64)
