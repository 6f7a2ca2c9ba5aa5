"""Functions that depend on the values of entries: sort, argsort, top_k, nonzero, unique_values, unique_counts."""

from __future__ import annotations

from functools import partial
from math import prod
from types import ModuleType
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.base.arrays import Array
from jsparse.base.dataclass import dataclass
from jsparse.base.limits import checked_nse
from jsparse.errors import DTypeError, PatternError, ShapeError, represented, shortened
from jsparse.formats import Format, Pattern
from jsparse.formats.set_operations import without_ranges
from jsparse.ops.relocation.coordinate_map import CoordinateMap, Rows
from jsparse.ops.relocation.formats import default_in
from jsparse.ops.relocation.operands import as_axis, as_tensor
from jsparse.ops.relocation.relocate import Relocation, relocated
from jsparse.ops.relocation.values import is_known
from jsparse.ops.surgery.selection import coordinates, known_count, selected
from jsparse.tensor.sparse_tensor import SparseLike, SparseTensor, dense_array, dense_levels


def top_k(a: SparseLike, k: jax.Array | int, axis: int = -1, *, nse: int | None = None) -> SparseTensor:
    """Keep the k largest stored entries of each row along `axis`. Rows with at most k entries stay as they are.

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
    at, (count, known) = _ordered(tensor, axis, "top_k"), known_count(k)
    if count is None:
        raise ShapeError(f"Expected k >= 0 for jsparse.top_k, an integer, but got {represented(k)}.")
    if tensor.format.is_dense and not (is_known(tensor.values) and known is not None):
        tensor = tensor.asformat(default_in(tensor.shape, tensor.nse))
    capacity = tensor.nse
    if known is not None:
        rows = prod(size for dim, size in enumerate(tensor.shape) if dim != at)
        capacity = min(capacity, rows * known * _trailing(tensor.format, tensor.shape))
    if isinstance(tensor.pattern, Pattern) and is_known(tensor.values) and known is not None:
        kept: Any = _largest(tensor.pattern.rows(), np.asarray(tensor.values), known, at, np)
    else:
        kept = _traced_largest(tensor, count, at)
    return selected(tensor, kept, checked_nse(nse, "top_k"), capacity)


def sort(a: SparseLike, axis: int = -1, *, descending: bool = False, stable: bool = True) -> SparseTensor:
    """Sort all elements along `axis`, stored or not, as jnp.sort does.

    In each row the negative entries come first, then the zeros, then the other entries; NaN is last. So sorting moves
    the stored entries and adds none. The result is static if the pattern and the values are known, else it is dynamic
    with the tensor's nse, or a larger nse if the format ends with dense levels. It is differentiable in the values.

        >>> jsparse.sort(A)

    Args:
        descending: NaN comes first, then the largest elements, as in jnp.sort.
        stable: an argument of the array API without effect, since equal elements cannot be told apart.

    Raises ShapeError for an axis out of range, DTypeError for complex numbers.
    """
    tensor = as_tensor(a, "sort")
    at = _ordered(tensor, axis, "sort")
    if tensor.format.is_dense:
        return dense_levels(jnp.sort(dense_array(tensor), at, descending=descending), tensor.format)
    one = _Sorted(at, tensor.shape[at], descending)
    return relocated([tensor], Relocation((one,), tensor.shape, without_ranges(tensor.format)))


def argsort(a: SparseLike, axis: int = -1, *, descending: bool = False, stable: bool = True) -> jax.Array:
    """Return an array of the indices that sort the elements along `axis`. The tensor has to store all elements.

        >>> jsparse.argsort(jsparse.asarray([[3, 1, 2]], format="dense")).tolist()
        [[1, 2, 0]]

    Raises PatternError, which says what to call instead, for any other tensor, since the array would be dense;
    ShapeError for an axis out of range; DTypeError for complex numbers.
    """
    tensor = as_tensor(a, "argsort")
    at = _ordered(tensor, axis, "argsort")
    if not tensor.format.is_dense:
        raise PatternError(
            f"Expected a tensor of jsparse.argsort that stores all elements in dense levels, but got {tensor!r}: the "
            f"indices of elements that are not stored are an array of shape {shortened(tensor.shape)}. Write "
            f"jsparse.sort(A) for sorted elements, jsparse.top_k(A, k) or A.argmax(axis) for the largest entries, or "
            f"jnp.argsort(A.todense(), axis)."
        )
    return jnp.argsort(dense_array(tensor), at, descending=descending, stable=stable)


def unique_values(a: SparseLike) -> jax.Array:
    """Find the distinct elements in ascending order, with 0 if an element is not stored, as jnp.unique_values does.

        >>> jsparse.unique_values(jsparse.eye(3)).tolist()
        [0.0, 1.0]

    The result has the dtype of the values. Raises PatternError if the tensor is traced or overflowed: the number of
    values is only known outside jit.
    """
    return jnp.unique_values(_elements(a, "unique_values")[0])


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
    found = jnp.unique_counts(elements)
    if zeros > np.iinfo(found.counts.dtype).max - len(elements):
        raise DTypeError(
            f"Expected a number of zeros that {found.counts.dtype} can hold, but {zeros:,} elements are not stored. "
            f"Set jax.config.update('jax_enable_x64', True)."
        )
    others = max(zeros - 1, 0)  # one of them is among the elements
    return UniqueCounts(found.values, found.counts + jnp.where(found.values == 0, others, 0).astype(found.counts.dtype))


class UniqueCounts(NamedTuple):
    """The result of `unique_counts`: distinct elements (n,), and how often each occurs (n,)."""

    values: jax.Array
    counts: jax.Array


def _elements(a: SparseLike, name: str) -> tuple[jax.Array, int]:
    """Return the stored values, with a 0 appended if any element is not stored, and the number of unstored elements."""
    tensor = as_tensor(a, name)
    if not is_known(tensor.values):
        raise PatternError(
            f"Expected known values, but {tensor!r} has traced ones, and their number of distinct values is unknown. "
            f"Call {name} outside jit, or jnp.unique(A.values, size=n) in it."
        )
    tensor = tensor.static()
    found, zeros = np.asarray(tensor.values), tensor.size - tensor.nse
    return jnp.asarray(np.concatenate([found, np.zeros(min(zeros, 1), found.dtype)])), zeros


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
            f"coordinates. Write A.values != 0, or jsparse.expand_dims(A, 0) for a vector of it."
        )
    if not is_known(tensor.values):
        raise PatternError(
            f"Expected known values, but {tensor!r} has traced ones, so the number of nonzeros is unknown. "
            f"Call nonzero outside jit, or take all stored entries by A.to_coords()."
        )
    coords, values = tensor.to_coords()
    coords = coords[:, np.asarray(values) != 0]
    return tuple(coords[:, np.lexsort(coords[::-1])])


def _ordered(tensor: SparseTensor, axis: int, what: str) -> int:
    """Convert an axis to a dimension, counted from the start. Raises DTypeError for values without an order."""
    if jnp.issubdtype(tensor.dtype, jnp.complexfloating):
        raise DTypeError(
            f"Expected real entries for jsparse.{what}, which needs an order, but they are {tensor.dtype}. Order "
            f"abs(A), or A.with_values(A.values.real)."
        )
    return as_axis(axis, tensor.ndim, what)


def _trailing(format: Format, shape: tuple[int, ...]) -> int:
    return prod(shape[dim] for dim in format.trailing_dims)


@partial(jax.jit, static_argnames="axis", inline=True)
def _traced_largest(tensor: SparseTensor, count: jax.Array, axis: int) -> Array:
    rows: Any = jnp.asarray(coordinates(tensor.pattern))
    return _largest(rows, jax.lax.stop_gradient(tensor.values), count, axis, jnp)


def _largest(rows: Rows, values: Array, count: jax.Array | int, axis: int, xnp: ModuleType) -> Array:
    """Return the mask of the `count` largest entries of each row along `axis`."""
    rank, size, _ = _ranks(rows, -rows[axis], values, axis, xnp)
    return size - rank <= count


@dataclass(frozen=True)
class _Sorted(CoordinateMap):
    """A coordinate map that moves each entry along `axis` to its place in the sorted row.

    `size` is the size of this dimension. The order is descending if `descending` is True.
    """

    reads_values: ClassVar[bool] = True
    axis: int
    size: int
    descending: bool

    def __call__(self, rows: Rows, values: Array, xnp: ModuleType) -> Rows:
        found = _ranks(rows, rows[self.axis], values, self.axis, xnp)
        rank, count, negative = (x.astype(rows[self.axis].dtype) for x in found)  # places may exceed int32
        place = xnp.where(rank < negative, rank, rank + (self.size - count))
        place = self.size - 1 - place if self.descending else place
        return [place.astype(row.dtype) if dim == self.axis else row for dim, row in enumerate(rows)]


def _ranks(rows: Rows, ties: Array, values: Array, axis: int, xnp: ModuleType) -> tuple[Array, Array, Array]:
    """Return for each entry its rank in its row, and the number of entries and of negative entries in that row.

    Entries are ordered by value, and entries of equal value by `ties`. Rows are along `axis`.
    """
    if values.dtype.itemsize == 2 and jnp.issubdtype(values.dtype, jnp.floating):
        values = values.astype(np.float32)  # numpy cannot order narrow floats by several keys
    others = [row for dim, row in enumerate(rows) if dim != axis]
    order = xnp.lexsort((ties, values, *others))
    changed = xnp.zeros(max(len(order) - 1, 0), np.bool_)
    for row in others:
        changed = changed | (row[order][1:] != row[order][:-1])
    group = xnp.concatenate([xnp.zeros(min(len(order), 1), np.int32), xnp.cumsum(changed, dtype=np.int32)])
    first, end = (xnp.searchsorted(group, group, side=side) for side in ("left", "right"))
    below = xnp.concatenate([xnp.zeros(1, np.int32), xnp.cumsum(values[order] < 0, dtype=np.int32)])
    place, number = xnp.argsort(order), xnp.arange(len(order))
    first, count, negative = (x.astype(number.dtype) for x in (first, end - first, below[end] - below[first]))
    return (number - first)[place], count[place], negative[place]
