"""Conversion from and to scipy.sparse arrays and matrices."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from jsparse.convert.scipy_structure import compressed, entries_of, scipy_sparse
from jsparse.convert.sums import summands
from jsparse.errors import DTypeError, PatternError, ShapeError, shortened
from jsparse.formats import Format, Pattern
from jsparse.formats.validate import check_bounds, checked_shape
from jsparse.tensor.leaves import check_leaves
from jsparse.tensor.sparse_tensor import SparseTensor

if TYPE_CHECKING:
    from scipy.sparse import sparray


def from_scipy(x: Any, format: Format, dtype: np.dtype | None = None) -> tuple[Pattern, np.ndarray, bool]:
    """Convert a scipy.sparse array or matrix to a pattern in `format`, and to the values of its slots.

    Returns (pattern, values, fresh); `fresh` says that the values are a copy. Unsorted and repeated entries are legal,
    and duplicates are summed, without rounding before the caller converts the sums to `dtype`.

    Raises PatternError if the index arrays and the data of `x` do not fit each other, and locates the fault in one of
    them; DTypeError if the values are no numbers.
    """
    shape = checked_shape(x.shape, format)
    try:
        if x.format in ("csr", "csc"):
            parts = compressed(x, shape)
            if parts.is_sorted and x.format == format.name:
                return Pattern._trusted(shape, format, parts.copied(shape)), parts.values, False
            rows, values = parts.entries(x.format, shape)
        else:
            rows, values = entries_of(x, shape)
    except PatternError as error:
        raise _wrong(x, error) from error
    given = values if dtype is None else summands(values, dtype)
    try:
        pattern, summed = Pattern.of_entries(rows, given, shape, format)
    except PatternError:
        _check_bounds(x, rows, shape)
        raise
    return pattern, summed, summed is not values


def _check_bounds(x: Any, rows: Sequence[np.ndarray], shape: tuple[int, ...]) -> None:
    try:
        check_bounds(rows, shape)
    except PatternError as error:
        raise _wrong(x, error) from error


def _wrong(x: Any, error: PatternError) -> PatternError:
    kind = f"{type(x).__name__} of shape {shortened(x.shape)}"
    return PatternError(f"{error} This {kind} is not as scipy.sparse describes it: make it anew.")


def to_scipy(tensor: SparseTensor) -> sparray:
    """Convert to a scipy.sparse array: csr_array or csc_array for matrices in these formats, coo_array for all others.

    Explicit zeros are kept. The arrays are copies.

        >>> A.to_scipy().tocsc()

    Raises ShapeError for a tensor without dimensions (before SciPy 1.15, for every rank other than two); DTypeError if
    the values are traced, or have a dtype that scipy does not support (bfloat16, float16).
    """
    check_leaves(tensor, "A in A.to_scipy")
    if isinstance(tensor.values, jax.core.Tracer):
        raise DTypeError(f"Expected known values, but {tensor!r} has traced ones. Convert outside jit.")
    tensor = tensor.static()
    assert isinstance(tensor.pattern, Pattern)
    values = np.array(tensor.values)
    if values.dtype.kind == "V" or values.dtype == np.float16:
        raise DTypeError(f"Expected values that scipy.sparse can hold, but got {values.dtype}. Use astype('float32').")
    sparse = scipy_sparse()
    if tensor.format.name in ("csr", "csc"):
        make = sparse.csr_array if tensor.format.name == "csr" else sparse.csc_array
        pointers, coordinates = tensor.pattern.arrays
        return make((values, coordinates.copy(), pointers.copy()), shape=(tensor.shape[0], tensor.shape[1]))
    try:
        return sparse.coo_array((values, tuple(tensor.pattern.to_coords())), shape=tensor.shape)
    except (TypeError, ValueError) as error:
        raise ShapeError(
            f"Expected a matrix for scipy.sparse {version('scipy')}, or from 1.15 on a tensor of one dimension or "
            f"more, but the tensor has shape {tensor.shape}. Use to_coords()."
        ) from error
