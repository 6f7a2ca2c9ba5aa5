"""Functions that permute the elements along dimensions: flip and roll."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from types import ModuleType

from jsparse.base.arrays import Array
from jsparse.base.dataclass import dataclass
from jsparse.errors import ShapeError, shorten
from jsparse.formats.set_operations import without_ranges
from jsparse.ops.relocation.coordinate_map import Composed, CoordinateMap, Rows
from jsparse.ops.relocation.operands import as_axes, as_integer, as_tensor
from jsparse.ops.relocation.relocate import Relocation, relocate
from jsparse.ops.shaping.reshaping import Reshaped
from jsparse.tensor.sparse_tensor import Axis, SparseLike, SparseTensor


def flip(a: SparseLike, axis: Axis = None) -> SparseTensor:
    """Reverse the order of the elements along `axis` (one dimension, several, or None for all), as jnp.flip does.

    The result has the tensor's format and nse.

        >>> jsparse.flip(A, 1)

    The dtype stays the same. Raises ShapeError for an axis out of range or given twice.
    """
    tensor = as_tensor(a, "flip")
    axes = as_axes(axis, tensor.ndim, "flip")
    flipped = _Flipped(tuple(size if dim in axes else None for dim, size in enumerate(tensor.shape)))
    return _permute_elements(tensor, flipped, axes)


def roll(a: SparseLike, shift: int | Sequence[int], axis: Axis = None) -> SparseTensor:
    """Shift the elements along `axis`, as jnp.roll does: elements shifted past one end continue at the other end.

    Without an axis the tensor is rolled as if it had one dimension. The result has the tensor's format, but compressed
    levels in place of range levels.

        >>> jsparse.roll(A, (1, -2), axis=(0, 1))

    Args:
        shift: known integers, one for each axis or one for all axes.

    The dtype stays. Raises ShapeError for an axis out of range, and if the number of shifts does not match the number
    of axes.
    """
    tensor = as_tensor(a, "roll")
    every = shift if isinstance(shift, Sequence) else [shift]
    shifts = [as_integer(one, "the shift of jsparse.roll") for one in every]
    if axis is None:
        flat = (prod(tensor.shape),)
        if not flat[0] or not sum(shifts) % flat[0]:
            return tensor
        maps = Reshaped(tensor.shape, flat), _roll_map(flat, [sum(shifts)]), Reshaped(flat, tensor.shape)
        return _permute_elements(tensor, Composed(maps), tuple(range(tensor.ndim)))
    axes = [as_axes(one, tensor.ndim, "roll")[0] for one in (axis if isinstance(axis, Sequence) else [axis])]
    if len(shifts) != len(axes) and 1 not in (len(shifts), len(axes)):
        raise ShapeError(
            f"Expected one shift, or a shift for each axis, for jsparse.roll, but got {shorten(shifts)} and "
            f"{shorten(axes)}."
        )
    total = [0] * tensor.ndim
    for n in range(max(len(shifts), len(axes))):
        total[axes[n % len(axes)]] += shifts[n % len(shifts)]
    moved = tuple(dim for dim, by in enumerate(total) if tensor.shape[dim] and by % tensor.shape[dim])
    return _permute_elements(tensor, _roll_map(tensor.shape, total), moved)


def _permute_elements(tensor: SparseTensor, one: CoordinateMap, moved: Sequence[int]) -> SparseTensor:
    """Apply a permutation of the elements that changes coordinates only in the dimensions `moved`."""
    if not moved:
        return tensor
    format = tensor.format if isinstance(one, _Flipped) else without_ranges(tensor.format)
    capacity = tensor.nse if format == tensor.format else None
    carried = tuple((dim, dim) for dim in range(tensor.ndim) if dim not in moved)
    return relocate([tensor], Relocation((one,), tensor.shape, format, carried, capacity))


@dataclass(frozen=True)
class _Flipped(CoordinateMap):
    """A coordinate map that reverses each dimension whose size is given, and keeps the dimensions with None."""

    sizes: tuple[int | None, ...]

    def __call__(self, rows: Rows, xnp: ModuleType) -> Rows:
        return [row if size is None else size - 1 - row for row, size in zip(rows, self.sizes, strict=True)]


@dataclass(frozen=True)
class _Rolled(CoordinateMap):
    """A coordinate map that adds shifts to coordinates, modulo the sizes.

    `shifts` has a pair (shift, size) with 0 < shift < size for each dimension, or None if the dimension has no shift.
    """

    shifts: tuple[tuple[int, int] | None, ...]

    def __call__(self, rows: Rows, xnp: ModuleType) -> Rows:
        return [
            row if by is None else _roll_coordinates(row, *by, xnp) for row, by in zip(rows, self.shifts, strict=True)
        ]


def _roll_coordinates(row: Array, shift: int, size: int, xnp: ModuleType) -> Array:
    return row + xnp.where(row < size - shift, shift, shift - size).astype(row.dtype)  # never above the size


def _roll_map(shape: Sequence[int], shifts: Sequence[int]) -> _Rolled:
    pairs = ((by % size if size else 0, size) for by, size in zip(shifts, shape, strict=True))
    return _Rolled(tuple((by, size) if by else None for by, size in pairs))
