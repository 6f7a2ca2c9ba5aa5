"""Functions that add, drop and permute dimensions. Index arrays are shared wherever the levels allow it."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

import jax
import jax.numpy as jnp

from jsparse.base.dataclass import dataclass
from jsparse.convert.creation import of_any_array
from jsparse.errors import ShapeError, shorten
from jsparse.ops.einsum import einsum
from jsparse.ops.relocation.coordinate_map import CoordinateMap, Rows
from jsparse.ops.relocation.formats import remaining_format
from jsparse.ops.relocation.operands import as_axes, as_axis, as_tensor
from jsparse.ops.relocation.relocate import Relocation, relocate
from jsparse.tensor.sparse_tensor import Axis, SparseLike, SparseTensor


@of_any_array("transpose", jnp.transpose)
def transpose(self: SparseTensor, axes: Sequence[int] | None = None) -> SparseTensor:
    """Permute the dimensions, by default reverse them, as `A.transpose(axes)` does. Values and indices are shared.

        >>> jsparse.transpose(T, (2, 0, 1)).shape
        (40, 20, 30)

    The dtype stays the same. Raises ShapeError if `axes` is not a permutation.
    """
    return self.transpose(None if axes is None else as_axes(axes, self.ndim, "transpose"))


@of_any_array("permute_dims", jnp.permute_dims)
def permute_dims(self: SparseTensor, /, axes: Sequence[int]) -> SparseTensor:
    """Permute the dimensions: the array API's name for `transpose` with axes. See `transpose`.

    >>> jsparse.permute_dims(A, (1, 0)).shape
    (800, 1000)
    """
    return transpose(self, axes)


@of_any_array("matrix_transpose", jnp.matrix_transpose)
def matrix_transpose(self: SparseTensor, /) -> SparseTensor:
    """Swap the last two dimensions, as `A.mT` does. Values and indices are shared.

        >>> jsparse.matrix_transpose(T).shape
        (20, 40, 30)

    The dtype stays the same. Raises ShapeError for fewer than two dimensions.
    """
    return self.mT


@of_any_array("unstack", jnp.unstack)
def unstack(self: SparseTensor, /, *, axis: int = 0) -> tuple[SparseTensor | jax.Array, ...]:
    """Split a tensor into its slices along `axis`, which do not have that dimension. The inverse of `stack`.

        >>> len(jsparse.unstack(T)), jsparse.unstack(T)[0].shape
        (20, (30, 40))

    The parts of a vector are arrays of shape (). Raises ShapeError for an axis out of range.
    """
    at = as_axis(axis, self.ndim, "unstack")
    return tuple(self[(slice(None),) * at + (n,)] for n in range(self.shape[at]))


def expand_dims(a: SparseLike, axis: int | Sequence[int]) -> SparseTensor:
    """Insert dimensions of size 1 as dense levels, as jnp.expand_dims does. The index arrays are shared.

        >>> jsparse.expand_dims(A, 0).shape
        (1, 1000, 800)

    Args:
        axis: the positions of the new dimensions in the result, one or several.

    The dtype stays the same. Raises ShapeError for an axis out of range or given twice.
    """
    tensor = as_tensor(a, "expand_dims")
    count = len(axis) if isinstance(axis, Sequence) else 1
    ndim = tensor.ndim + count
    new = as_axes(axis, ndim, "expand_dims")
    kept, added = iter(range(tensor.ndim)), iter(range(tensor.ndim, ndim))
    axes = [next(added) if dim in new else next(kept) for dim in range(ndim)]
    return SparseTensor._wrap(tensor.values, tensor.pattern.extended([1] * count).transposed(axes))


def squeeze(a: SparseLike, axis: Axis = None) -> SparseTensor | jax.Array:
    """Remove dimensions of size 1, as jnp.squeeze does: the dimensions `axis`, or all (None).

    Removing a dimension that a dense level stores does not touch the index arrays. Removing any other dimension builds
    a new pattern. The result is an array of shape () if no dimension is left.

        >>> jsparse.squeeze(A[:, None]).shape

    The dtype stays the same. Raises ShapeError for an axis that is out of range or whose size is not 1.
    """
    tensor = as_tensor(a, "squeeze")
    if axis is None:
        dims = tuple(dim for dim, size in enumerate(tensor.shape) if size == 1)
    else:
        dims = as_axes(axis, tensor.ndim, "squeeze")
    if any(tensor.shape[dim] != 1 for dim in dims):
        raise ShapeError(
            f"Expected axes of size 1 to squeeze, but got axis {shorten(axis)} of a tensor of shape "
            f"{shorten(tensor.shape)}."
        )
    if tensor.ndim and len(dims) == tensor.ndim:
        return einsum(tensor, list(range(tensor.ndim)), [])
    full = [dim for dim in dims if dim in tensor.format.full_dims]
    if full:  # a dense level of size 1 has one position below each parent, so no index array changes
        remaining = [dim for dim in range(tensor.ndim) if dim not in full]
        pattern = tensor.pattern._with_levels(
            tuple(tensor.shape[dim] for dim in remaining), tensor.format.restricted(remaining)
        )
        tensor = SparseTensor._wrap(tensor.values, pattern)
    others = [dim - sum(earlier < dim for earlier in full) for dim in dims if dim not in full]
    if not others:
        return tensor
    kept = tuple(dim for dim in range(tensor.ndim) if dim not in others)
    shape = tuple(tensor.shape[dim] for dim in kept)
    format = remaining_format(tensor.format, [dim in kept for dim in range(tensor.ndim)])
    carried = tuple((dim, n) for n, dim in enumerate(kept))
    return relocate([tensor], Relocation((_Kept(kept),), shape, format, carried, tensor.nse))


@dataclass(frozen=True)
class _Kept(CoordinateMap):
    """A coordinate map that leaves out all dimensions but `dims`."""

    dims: tuple[int, ...]

    def __call__(self, rows: Rows, xnp: ModuleType) -> Rows:
        return [rows[dim] for dim in self.dims]


def moveaxis(a: SparseLike, source: int | Sequence[int], destination: int | Sequence[int]) -> SparseTensor:
    """Move dimensions to other positions, as jnp.moveaxis does. Values and index arrays are shared.

        >>> jsparse.moveaxis(A, 0, -1)

    The dtype stays the same. Raises ShapeError for axes out of range or given twice, and if the numbers of sources and
    destinations differ.
    """
    tensor = as_tensor(a, "moveaxis")
    sources = as_axes([source] if not isinstance(source, Sequence) else source, tensor.ndim, "moveaxis")
    targets = as_axes([destination] if not isinstance(destination, Sequence) else destination, tensor.ndim, "moveaxis")
    if len(sources) != len(targets):
        raise ShapeError(
            f"Expected the same number of sources and destinations for jsparse.moveaxis, but got {len(sources)} "
            f"sources and {len(targets)} destinations."
        )
    order = [dim for dim in range(tensor.ndim) if dim not in sources]
    for target, dim in sorted(zip(targets, sources, strict=True)):
        order.insert(target, dim)
    return tensor.transpose(order)


def swapaxes(a: SparseLike, axis1: int, axis2: int) -> SparseTensor:
    """Swap two dimensions, as jnp.swapaxes does. Values and index arrays are shared.

        >>> jsparse.swapaxes(A, 0, 1)  # A.T of a matrix

    The dtype stays the same. Raises ShapeError for an axis out of range.
    """
    tensor = as_tensor(a, "swapaxes")
    first, second = as_axis(axis1, tensor.ndim, "swapaxes"), as_axis(axis2, tensor.ndim, "swapaxes")
    order = list(range(tensor.ndim))
    order[first], order[second] = second, first
    return tensor.transpose(order)
