"""Indexing, `A[...]` and `A.take`, with numpy's meaning."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jsparse.base import _native
from jsparse.base.arrays import allocate_aligned, jax_array
from jsparse.base.limits import parse_nse
from jsparse.convert.creation import of_any_array
from jsparse.errors import DTypeError, PatternError, ShapeError, short_repr, shorten
from jsparse.formats import Pattern
from jsparse.ops.indexing.at_coords import elements_at, locate
from jsparse.ops.indexing.index import read_index
from jsparse.ops.indexing.select import ones_on, select
from jsparse.ops.relocation.operands import as_axis
from jsparse.primitives.host import is_on_host, on_device
from jsparse.tensor.leaves import check_leaves
from jsparse.tensor.sparse_tensor import PatternLike, SparseTensor


def getitem(self: PatternLike, index: Any) -> Any:
    """Index a tensor as numpy does. The result is differentiable in the values.

        >>> A[2:10, ::-2]         # a SparseTensor of the stored entries in the range
        >>> A[3]                  # a row, as a SparseTensor of rank 1
        >>> A[3, 4]               # an array of shape ()
        >>> A[[4, 0, 0]], A[mask] # rows, in any order
        >>> A[rows, columns]      # an array of the elements at these points, of the arrays' shape
        >>> A[M]                  # an array of the elements where M, a SparseTensor of bools, is True
        >>> A.pattern[3], A.pattern[3, 4]  # the pattern of a row, and whether an entry is stored

    A pattern is indexed as a tensor of ones. The result is a pattern where indexing a tensor returns a tensor, and
    bools where indexing a tensor returns elements.

    The result is an array if all dimensions are indexed by integers, or by several arrays with or without integers.
    Otherwise it is a SparseTensor. The remaining dimensions keep their kinds of levels. If no level with coordinates
    remains, the format becomes coo. The result has a dynamic pattern if the tensor has one. The capacity is then enough
    for all entries of the tensor, but at most the size of the result. Traced indices that are out of range or negative
    select nothing. Traced arrays together with slices need a capacity, see `take`.

    Raises ShapeError (out of range, too many indices, shapes that do not agree), PatternError (a capacity is needed),
    NotYetSupportedError (other forms).
    """
    items = index if isinstance(index, tuple) else (index,)
    if len(items) == 1 and items[0] is Ellipsis:
        return self  # Flax reads a variable as `variable[...]`, and its leaves may be anything, so nothing is checked
    if isinstance(self, SparseTensor):
        check_leaves(self, "A in A[...]")
    if len(items) == 1 and isinstance(items[0], SparseTensor):
        return elements_where(self, items[0])
    if len(items) == 1 and isinstance(self, SparseTensor):
        masked = elements_of_mask(self, items[0])
        if masked is not None:
            return masked
    read = read_index(items, self.shape)
    selected = select(self, read, None)
    return selected if read.empty_axis is None else selected[(*[slice(None)] * read.empty_axis, slice(0))]


@of_any_array("take", jnp.take, patterns=True)
def take(
    self: PatternLike, indices: ArrayLike | Sequence[int], axis: int | None = None, *, nse: int | None = None
) -> PatternLike | jax.Array:
    """Select coordinates of one dimension, as `jnp.take` does. The result is differentiable in the values.

        >>> A.take([4, 0, 0], axis=0)         # rows 4, 0 and 0
        >>> A.take(rows, axis=0, nse=1000)    # rows that are traced; the result has a dynamic pattern
        >>> A.take(3, axis=1)                 # a column, as a SparseTensor of rank 1

    Args:
        indices: integers of any shape. Known indices count from the end if they are negative. Traced indices that are
            out of range or negative select nothing: the result has no entries there.
        axis: the dimension, which may be left out only for a tensor of one dimension. To take from the flattened
            tensor, write `A.at_coords(np.unravel_index(indices, A.shape))`.
        nse: the capacity of a result with a dynamic pattern. Traced `indices` need `nse`, unless they are one
            integer. If the tensor has a dynamic pattern, indices that repeat need `nse`, too. For a static result
            `nse` is an upper bound, which is checked.

    Returns a SparseTensor (for a pattern, a pattern) in which the dimensions of `indices` replace `axis`, or an array
    if no dimension is left.

    Raises ShapeError (an index or the axis is out of range), DTypeError (no integers), PatternError (more than `nse`
    entries, or `nse` is needed).
    """
    if isinstance(self, SparseTensor):
        check_leaves(self, "A in A.take")
    nse = parse_nse(nse, "take")
    dim = _axis(axis, self.ndim)
    is_traced = any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(indices))
    table: Any = jnp.asarray(indices) if is_traced else np.asarray(indices)
    table = table if table.size or is_traced else table.astype(np.int64)  # numpy reads an empty list as floats
    if not jnp.issubdtype(table.dtype, jnp.integer):
        raise DTypeError(
            f"Expected indices of A.take to be integers, but got {table.dtype}. To select with a mask, write A[mask]."
        )
    item = table if is_traced or table.ndim else int(table)
    return select(self, read_index((*[slice(None)] * dim, item), self.shape), nse)


@of_any_array("take_along_axis", jnp.take_along_axis)
def take_along_axis(self: SparseTensor, indices: ArrayLike, axis: int = -1) -> jax.Array:
    """Read the elements at indices along a dimension, as jnp.take_along_axis does.

        >>> best = A.argmax(axis=1, keepdims=True)
        >>> jsparse.take_along_axis(A, best, axis=1).shape
        (1000, 1)

    Args:
        indices: an array of integers with as many dimensions as A, and with the size of A, or 1, in all dimensions
            except `axis`. Known indices count from the end if they are negative. Traced indices that are out of range,
            negative ones included, read 0.

    Returns an array with the shape of A, except that it has the size of `indices` along `axis`. The array is
    differentiable in the values. Raises ShapeError for other shapes and for known indices out of range, DTypeError for
    indices that are not integers.
    """
    at = as_axis(axis, self.ndim, "take_along_axis")
    table = jax_array(indices, "the indices of jsparse.take_along_axis to be integers")
    if table.dtype.kind not in "iu":
        raise DTypeError(f"Expected integers as indices of jsparse.take_along_axis, but got {table.dtype}.")
    wanted = tuple(n if dim == at else size for dim, (n, size) in enumerate(zip(table.shape, self.shape, strict=False)))
    if table.ndim != self.ndim or any(n not in (size, 1) for n, size in zip(table.shape, wanted, strict=True)):
        raise ShapeError(
            f"Expected indices of jsparse.take_along_axis of shape {shorten(self.shape)} except along axis {axis}, or "
            f"with sizes of 1, but got {shorten(table.shape)}."
        )
    size = self.shape[at]
    if not isinstance(table, jax.core.Tracer):
        known = np.asarray(table)
        if known.size and not -size <= known.min() <= known.max() < size:
            raise ShapeError(
                f"Expected indices from {-size} to {size - 1} along axis {axis} of jsparse.take_along_axis."
            )
        table = jnp.where(table < 0, table + size, table)
    rows = [
        jnp.broadcast_to(table, wanted) if dim == at else jax.lax.broadcasted_iota(table.dtype, wanted, dim)
        for dim in range(self.ndim)
    ]
    return self.at_coords(jnp.stack([row.reshape(-1) for row in rows])).reshape(wanted)


def _axis(axis: int | None, ndim: int) -> int:
    """Convert the argument `axis` of `take` to a dimension. Raises ShapeError if there is no such dimension."""
    if axis is None and ndim == 1:
        return 0
    if axis is None:
        raise ShapeError(
            f"Expected axis= of A.take for a tensor with {ndim} dimensions. For elements of the flattened tensor, "
            "write A.at_coords(np.unravel_index(indices, A.shape))."
        )
    try:
        dim = operator.index(axis)
    except TypeError as error:
        raise DTypeError(f"Expected axis= of A.take to be an integer, but got {short_repr(axis)}.") from error
    if not -ndim <= dim < ndim:
        raise ShapeError(f"Expected axis= of A.take from {-ndim} to {ndim - 1}, but got {shorten(dim)}.")
    return dim % ndim


_POINTS = 1 << 16  # the points of a mask that are looked up at a time


def elements_of_mask(tensor: SparseTensor, mask: Any) -> jax.Array | None:
    """Return the elements of a known tensor where an array of bools of its shape is True, in row-major order.

    The mask is read in parts, because the coordinates of all its points would take much more memory than the elements.
    Returns None for anything but such a mask, and for tensors that are not known.
    """
    if not isinstance(mask, np.ndarray | jax.Array) or isinstance(mask, jax.core.Tracer):
        return None
    if mask.dtype != np.bool_ or mask.ndim < 2 or mask.shape != tensor.shape:
        return None
    if not isinstance(tensor.pattern, Pattern) or not is_on_host(tensor.values):
        return None
    known, values = np.asarray(mask), np.asarray(tensor.values)
    elements = allocate_aligned((int(np.count_nonzero(known)),), values.dtype)
    rows, done = max(_POINTS // max(known[:1].size, 1), 1), 0
    for start in range(0, len(known), rows):
        first, *others = np.nonzero(known[start : start + rows])
        slots = locate(tensor.pattern, [first + start, *others])
        elements[done : done + len(slots)] = _native.take(values, slots)
        done += len(slots)
    return on_device([elements], [tensor.values])[0]


def elements_where(tensor: PatternLike, mask: SparseTensor) -> jax.Array:
    """Return the elements of a tensor where a mask is True, in row-major order, as numpy's `A[mask]` does.

    Raises ShapeError if the mask does not have the tensor's shape, DTypeError if the mask is not of bools, PatternError
    if the mask is traced.
    """
    check_leaves(mask, "the mask in A[mask]")
    if mask.shape != tensor.shape:
        raise ShapeError(
            f"Expected a mask with the tensor's shape {shorten(tensor.shape)}, but got {shorten(mask.shape)}."
        )
    if mask.dtype != np.bool_:
        raise DTypeError(
            f"Expected a SparseTensor that indexes another to hold bools, but got {mask.dtype}. Compare it: "
            "A[B.with_values(B.values != 0)]."
        )
    if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(mask)):
        raise PatternError(
            "Expected a known mask, because the number of its True entries is the length of the result, but it is "
            "traced. Multiply by it, A * mask, or index outside jit."
        )
    mask = mask.static()
    assert isinstance(mask.pattern, Pattern)
    kept = np.flatnonzero(np.asarray(mask.values))
    points = [row[kept] for row in mask.pattern.rows()]
    if mask.format.order != tuple(range(mask.ndim)):
        order = _native.lexsort(points, mask.shape)
        points = [row[order] for row in points]
    if isinstance(tensor, SparseTensor):
        return elements_at(tensor, points, len(kept))
    return elements_at(ones_on(tensor), points, len(kept)).astype(bool)
