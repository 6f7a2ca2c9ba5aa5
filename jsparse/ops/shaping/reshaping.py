"""Reshaping, in C or Fortran order."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from types import ModuleType
from typing import Any

import jax
import numpy as np

from jsparse.base.dataclass import dataclass
from jsparse.base.memo import lazy
from jsparse.errors import NotYetSupportedError, ShapeError, short_repr, shorten
from jsparse.formats import Format, Pattern
from jsparse.formats.parse import NAMES, has_name
from jsparse.ops.einsum import einsum
from jsparse.ops.relocation.blocks import lead_pattern, split_format
from jsparse.ops.relocation.coordinate_map import CoordinateMap, Rows
from jsparse.ops.relocation.formats import affordable, default_in
from jsparse.ops.relocation.operands import as_integer, as_tensor
from jsparse.ops.relocation.relocate import Relocation, relocate
from jsparse.ops.shaping.axes import expand_dims, squeeze
from jsparse.tensor.dynamic_pattern import DynamicPattern, dynamic_type
from jsparse.tensor.sparse_tensor import SparseLike, SparseTensor, dense_array, dense_levels


def reshape(a: SparseLike, shape: int | Sequence[int], order: str = "C") -> SparseTensor | jax.Array:
    """Reshape in C order, or in Fortran order ("F"), as jnp.reshape does. One size may be -1 (inferred).

    Every stored entry is kept, and no dense array is made. The formats coo and csf stay. A matrix in another named
    format keeps the format if the result is a matrix. Dense levels of the last dimensions stay dense as far as the new
    shape does not merge these dimensions with others. All other tensors get the default format (dcsr in place of csr if
    there are many more rows than entries). Adding and removing dimensions of size 1 shares index arrays as
    `expand_dims` and `squeeze` do. The result for the shape () is an array.

        >>> jsparse.reshape(A, (-1, 100))

    The dtype stays the same. Raises ShapeError if the sizes do not fit, or if computed offsets exceed int64;
    NotYetSupportedError for another order; DTypeError if a dynamic tensor needs int64 but x64 is off.
    """
    return _reshape(as_tensor(a, "reshape"), shape, order)


def reshape_method(self: SparseTensor, *shape: int | Sequence[int], order: str = "C") -> SparseTensor | jax.Array:
    """Reshape: `A.reshape(m, n)` or `A.reshape((m, n))`. One size may be -1. See `jsparse.reshape`.

    >>> A.reshape(100, -1).shape
    (100, 8000)
    """
    sizes: Any = shape[0] if len(shape) == 1 else shape  # checked there
    return _reshape(as_tensor(self, "reshape"), sizes, order)


def ravel(a: SparseLike, order: str = "C") -> SparseTensor:
    """Reshape to one dimension, in C order, or in Fortran order if `order="F"` (the first dimension changes fastest).

    >>> jsparse.ravel(A).shape

    The dtype stays. Raises NotYetSupportedError for other orders, ShapeError if the number of elements exceeds int64,
    DTypeError if a dynamic tensor needs int64 but x64 is off.
    """
    return _reshape(as_tensor(a, "ravel"), (-1,), order)


def _reshape(tensor: SparseTensor, shape: int | Sequence[int], order: str) -> Any:
    if order not in ("C", "F"):
        raise NotYetSupportedError(f"Expected order='C' or 'F' for a SparseTensor, but got {short_repr(order)}.")
    sizes = _complete_shape(shape, tensor.shape)
    if order == "F" and sizes:
        return _reshape(tensor.transpose(), sizes[::-1], "C").transpose()
    if sizes == tensor.shape:
        return tensor
    if not sizes:
        return einsum(tensor, list(range(tensor.ndim)), [])
    longer = [size for size in sizes if size != 1]
    if longer and longer == [size for size in tensor.shape if size != 1]:
        return expand_dims(squeeze(tensor), [dim for dim, size in enumerate(sizes) if size == 1])
    return reshape_in_format(tensor, sizes)


def _complete_shape(shape: int | Sequence[int], old: tuple[int, ...]) -> tuple[int, ...]:
    """Replace -1 in a shape by a size. Raises ShapeError if the number of elements differs from the old number."""
    sizes = [as_integer(n, "each size of a shape") for n in (shape if isinstance(shape, Sequence) else (shape,))]
    total, unknown = prod(old), [n for n, size in enumerate(sizes) if size == -1]
    if len(unknown) == 1:
        others = prod(size for size in sizes if size != -1)
        if others > 0 and total % others == 0:
            sizes[unknown[0]] = total // others
    if any(size < 0 for size in sizes) or prod(sizes) != total:
        raise ShapeError(
            f"Expected a shape with the {shorten(total)} elements of {shorten(old)}, and -1 at most once, but got "
            f"{shorten(tuple(sizes))}."
        )
    return tuple(sizes)


def reshape_in_format(
    tensor: SparseTensor, shape: tuple[int, ...], format: Format | None = None, capacity: int | None = None
) -> SparseTensor:
    """Reshape a tensor to a shape with the same number of elements, in `format` or, without it, a similar format.

    `capacity` is the capacity of a dynamic result, by default enough for any format.
    """
    if not prod(shape):
        target = format or default_in(shape, 0)
        if isinstance(tensor.pattern, DynamicPattern):
            return SparseTensor._wrap(tensor.values[:0], DynamicPattern.empty(dynamic_type(shape, target, 0)))
        rows = [np.zeros(0, np.int32)] * len(shape)
        return SparseTensor._wrap(tensor.values[:0], Pattern.from_rows(rows, shape, target)[0])
    if tensor.format.is_dense and format is None:
        return dense_levels(dense_array(tensor).reshape(shape), Format.dense(len(shape)))
    tensor, own = _with_block(tensor, shape) if format is None else (tensor, 0)
    target = format or _similar(tensor.format, tensor.shape, tensor.nse, shape, own)
    carried = tuple((tensor.ndim - 1 - n, len(shape) - 1 - n) for n in range(own))
    if capacity is None and target.trailing_dense == own:
        capacity = tensor.nse
    return relocate([tensor], Relocation((Reshaped(tensor.shape, shape, own),), shape, target, carried, capacity))


@lru_cache(maxsize=256)
def _similar(format: Format, before: tuple[int, ...], nse: int, shape: tuple[int, ...], own: int) -> Format:
    """Choose the result's format: the last `own` dimensions are dense; the others keep a named format if possible."""
    outer, lead = len(shape) - own, split_format(format, before, own)
    entries = nse // max(lead.elements, 1)
    name = lead.format.name
    if lead.format.ndim > 1 and name in NAMES and has_name(name, outer):
        return affordable(Format.plain(name, outer), shape, entries).with_dense(own)
    return default_in(shape[:outer], entries).with_dense(own)


def _with_block(tensor: SparseTensor, shape: tuple[int, ...]) -> tuple[SparseTensor, int]:
    """Replace trailing dense levels by dense levels of the new shape. Returns the tensor and the number of new levels.

    Only dense levels that store the last dimensions in order are replaced, and only if the last sizes of the new shape
    have the same product.
    """
    order, kept = tensor.format.order, 0
    while kept < min(tensor.format.trailing_dense, tensor.ndim - 1) and order[-1 - kept] == tensor.ndim - 1 - kept:
        kept += 1
    for count in range(kept, 0, -1):
        block, outer = prod(tensor.shape[tensor.ndim - count :]), len(shape)
        while outer > 1 and prod(shape[outer:]) < block:
            outer -= 1
        if block and prod(shape[outer:]) == block:
            lead = split_format(tensor.format, tensor.shape, count)
            pattern = lead_pattern(tensor.pattern, lead).extended(shape[outer:])
            return SparseTensor._wrap(tensor.values, pattern), len(shape) - outer
    return tensor, 0


@dataclass(frozen=True)
class Reshaped(CoordinateMap):
    """A coordinate map to another shape that keeps each entry's offset in C order.

    The last `own` dimensions of both shapes are equal. Dimensions are merged and split within groups with equal
    products of sizes, so that offsets are computed over as few dimensions as possible: (10⁹, 10⁹, 10⁹) to (10¹⁸, 10⁹)
    needs no number above 10¹⁸.
    """

    old: tuple[int, ...]
    new: tuple[int, ...]
    own: int = 0

    @lazy
    def groups(self) -> list[tuple[range, range]]:
        """Pairs of a range of old dimensions and a range of new dimensions whose sizes have the same product."""
        ends, groups = (len(self.old) - self.own, len(self.new) - self.own), []
        i = j = 0
        while i < ends[0] or j < ends[1]:
            a, b = i, j
            i, j = min(i + 1, ends[0]), min(j + 1, ends[1])
            while (left := prod(self.old[a:i])) != (right := prod(self.new[b:j])):
                i, j = (i + 1, j) if left < right else (i, j + 1)
            groups.append((range(a, i), range(b, j)))
        return groups

    @property
    def largest(self) -> int:
        """The largest number of elements in a group of dimensions. Computed offsets are less."""
        return max((prod(self.old[dim] for dim in old) for old, _ in self.groups), default=0)

    def __call__(self, rows: Rows, xnp: ModuleType) -> Rows:
        moved: list[Any] = [None] * (len(self.new) - self.own)
        for old, new in self.groups:
            position = rows[0] * 0
            for dim in old:
                position = position * self.old[dim] + rows[dim]
            for dim in reversed(new):
                moved[dim] = position if dim == new.start else position % self.new[dim]
                position = position // self.new[dim]
        return [*moved, *rows[len(self.old) - self.own :]]
