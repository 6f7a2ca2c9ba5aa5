"""Creation of sparse tensors from coordinates and values: `SparseTensor.from_coords`."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax.typing import DTypeLike

from jsparse.base.arrays import Array, check_numbers, host_array, jax_array, parse_dtype
from jsparse.base.limits import check_bytes, parse_nse
from jsparse.convert.dynamic_creation import from_coordinate_blocks, parse_coordinates
from jsparse.convert.static_creation import static_tensor
from jsparse.convert.sums import NUMBERS, scatter_sums
from jsparse.errors import FormatError, PatternError, ShapeError, shorten
from jsparse.formats import Format, Pattern, default_format
from jsparse.formats.validate import sizes_of, split_coordinates
from jsparse.tensor.sparse_tensor import SparseTensor


def from_coords(
    coords: npt.ArrayLike,
    values: npt.ArrayLike = 1,
    shape: Sequence[int] | None = None,
    format: Format | str | None = "coo",
    *,
    dtype: DTypeLike | None = None,
    nse: int | None = None,
) -> SparseTensor:
    """Make a tensor from coordinates and values, in any order. Duplicates are summed, explicit zeros are kept.

        >>> A = SparseTensor.from_coords([[0, 2, 2], [1, 0, 0]], [1.0, 2.0, 3.0], shape=(3, 2))
        >>> A.nse  # the two entries at (2, 0) share a slot
        2
        >>> SparseTensor.from_coords([[0, 2], [1, 0]], shape=(3, 2))  # ones
        >>> SparseTensor.from_coords([[0, 2]], jnp.ones((2, 8)), shape=(3, 8))  # rows 0 and 2, each of 8 numbers

    Args:
        coords: integers of any dtype, of shape (ndim, n).
        values: numbers of shape (n,), or one number for all entries. One number has the dtype that `jnp.asarray` gives
            it. For dense blocks, numbers of shape (n, ...): the axes after the first are the last dimensions of the
            tensor. Dense levels store these dimensions, and `coords` have no rows for them. Values may be traced, and
            the tensor is differentiable in them.
        shape: the size of each dimension. It is required.
        format: a format, or its name or notation. By default it is coo, followed by the dense levels of blocks; another
            format for blocks has to end in these levels.
        dtype: the dtype of the tensor, by default the dtype of the values. Duplicates are summed in it, and sums are
            rounded once.
        nse: the capacity in slots, which makes the pattern dynamic. Traced coordinates also make it dynamic; the
            capacity is then n entries by default.

    Concrete coordinates without `nse` give a static pattern and must be within the shape. In a dynamic pattern,
    coordinates out of range (negative ones included) are padding. If the entries exceed the capacity, a concrete call
    raises PatternError. In a traced call, float values become NaN, and `overflowed` becomes True.

    Raises PatternError (coordinates, capacity, no shape), ShapeError (values), FormatError and SubscriptError (format),
    DTypeError (no numbers; int64 indices are needed, but x64 is off), IntegerRangeError (integers beyond `dtype`).
    """
    nse = parse_nse(nse, "from_coords")
    if shape is None:
        raise PatternError(
            "Expected shape= of from_coords, the size of each dimension, because coordinates do not determine it. "
            "Write SparseTensor.from_coords(coords, values, shape=(m, n))."
        )
    target = None if dtype is None else parse_dtype(dtype, "dtype= of from_coords to be a dtype of numbers")
    sizes = sizes_of(shape)
    coords = parse_coordinates(coords)
    values = _values(values, coords, sizes, target)
    dynamic = isinstance(coords, jax.core.Tracer) or nse is not None
    format = None if not sizes and format == "coo" else format  # a scalar has no levels
    layout = _layout(format, len(sizes), values.ndim - 1, dynamic)
    _check_values(values, values.shape[:1], sizes)
    if dynamic:
        return from_coordinate_blocks(coords, values, sizes, layout, True, nse, target)
    outer = len(sizes) - (values.ndim - 1)
    rows = split_coordinates(coords, sizes[:outer])
    _check_values(values, coords.shape[1:], sizes)
    if not rows:
        total = scatter_sums(values, (np.zeros(len(values), np.int32),), (1,), target)
        return SparseTensor(total, Pattern._of_valid((), layout, ()))
    return static_tensor(rows, values, sizes, layout, target)


def _values(values: npt.ArrayLike, coords: Array, sizes: tuple[int, ...], dtype: np.dtype | None) -> Array:
    """Return the values of the entries as a numpy or jax array. A single number is repeated for every entry."""
    if not isinstance(values, jax.Array):
        is_array = np.ndim(values) or dtype is not None
        values = host_array(values, NUMBERS, dtype) if is_array else jax_array(values, NUMBERS)
    check_numbers(values.dtype, NUMBERS)
    if values.ndim:
        return values
    rows = coords.shape[0] if coords.ndim == 2 else len(sizes)  # other coordinates are refused later
    shape = (*coords.shape[-1:], *sizes[rows:])
    check_bytes(shape, values.dtype, "the values of all entries", "Pass coordinates with a row for each dimension.")
    if isinstance(values, jax.core.Tracer):
        return jnp.broadcast_to(values, shape)
    return np.full(shape, np.asarray(values))


def _layout(format: Format | str | None, ndim: int, inner: int, dynamic: bool) -> Format:
    """Return the format, whose last `inner` levels are dense and store the last `inner` dimensions in order."""
    if not 0 < inner < ndim:
        return default_format(ndim) if format is None and not dynamic else Format.plain(format or "coo", ndim)
    if format in (None, "coo"):
        return Format.of("coo", ndim - inner).with_dense(inner)
    layout, outer = Format.plain(format, ndim), ndim - inner
    if layout.trailing_dense < inner or layout.order[outer:] != tuple(range(outer, ndim)):
        raise FormatError(
            f"Expected a format that ends in dense levels for the dimensions of each entry's values, {inner} in "
            f"number, but got {shorten(layout)}. Leave out format=, or convert the tensor with asformat."
        )
    return layout


def _check_values(values: Array, count: tuple[int, ...], sizes: tuple[int, ...]) -> None:
    """Raise ShapeError if values do not have the shape `count`, followed by the last dimensions for blocks."""
    axes = values.ndim - 1
    fits = axes < max(len(sizes), 1)
    expected = (*count, *sizes[len(sizes) - axes :]) if fits else f"{shorten(count)} or with fewer axes than {sizes}"
    if values.shape != expected:
        raise ShapeError(
            f"Expected values of shape {expected}, one for each column of the coordinates, but got {values.shape}. "
            "Pass coordinates of shape (ndim, n) and values of shape (n,). If values have shape (n, ...), their other "
            "axes are the last dimensions, and coordinates must leave these out."
        )
