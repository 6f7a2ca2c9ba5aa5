"""Conversions to the sparse arrays of other libraries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import numpy as np
import scipy.sparse

from jsparse.errors import DTypeError, ShapeError
from jsparse.formats import Pattern

if TYPE_CHECKING:
    from jsparse.tensor import SparseTensor

__all__ = ["to_scipy"]


def to_scipy(tensor: SparseTensor) -> Any:
    """The scipy.sparse array with the same stored entries: csr_array, csc_array or coo_array, sharing nothing.

    Raises ShapeError unless the tensor is a matrix, DTypeError for a dtype that numpy itself does not have, and for
    traced values.
    """
    if tensor.ndim != 2:
        raise ShapeError(
            f"Expected a matrix for scipy.sparse, but the tensor has shape {tensor.shape}. Use to_coords()."
        )
    if isinstance(tensor.values, jax.core.Tracer):
        raise DTypeError(f"Expected values that are known, but those of {tensor!r} are traced. Convert outside jit.")
    tensor = tensor.static()
    assert isinstance(tensor.pattern, Pattern)
    values = np.array(tensor.values)
    if values.dtype.kind == "V" or values.dtype == np.float16:
        raise DTypeError(f"Expected values that scipy.sparse can hold, but got {values.dtype}. Use astype('float32').")
    if tensor.format.name in ("csr", "csc"):
        make = scipy.sparse.csr_array if tensor.format.name == "csr" else scipy.sparse.csc_array
        pointers, coordinates = tensor.pattern.arrays
        return make((values, coordinates.copy(), pointers.copy()), shape=(tensor.shape[0], tensor.shape[1]))
    return scipy.sparse.coo_array((values, tuple(tensor.pattern.to_coords())), shape=tensor.shape)
