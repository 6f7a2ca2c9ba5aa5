"""Arrays in pickles, as raw bytes with a dtype and a shape.

NumPy's own pickles hold the state of objects, so a damaged byte may have any effect. Here it only changes a number.
"""

from __future__ import annotations

from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.base.arrays import Array, copy_on_device, is_number, raw_bytes
from jsparse.base.dataclass import dataclass
from jsparse.errors import LeafError


@dataclass(frozen=True, slots=True)
class Packed:
    """An array of numbers, in row-major order."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes
    on_device: bool


def pack_leaf(leaf: jax.Array) -> Any:
    """Convert a leaf for pickling: concrete arrays of numbers become `Packed`; anything else stays unchanged."""
    if not isinstance(leaf, jax.Array | np.ndarray) or isinstance(leaf, jax.core.Tracer):
        return leaf
    if not is_number(leaf.dtype) or getattr(leaf, "weak_type", False):
        return leaf
    return Packed(leaf.dtype.name, tuple(leaf.shape), raw_bytes(leaf).tobytes(), isinstance(leaf, jax.Array))


def unpack_leaf(leaf: Any) -> Array:
    """Invert `pack_leaf`. Raises LeafError if the data do not fit the dtype and the shape."""
    if not isinstance(leaf, Packed):
        return leaf
    try:
        dtype = jnp.dtype(leaf.dtype)
        if prod(leaf.shape) * dtype.itemsize != len(leaf.data):
            raise ValueError(f"{len(leaf.data)} bytes for {leaf.dtype} of shape {leaf.shape}")
        array = np.frombuffer(leaf.data, dtype).reshape(leaf.shape)
    except (TypeError, ValueError) as error:
        raise LeafError(f"Expected an array as it was pickled, but got {str(error)[:200]}. Pickle it again.") from error
    return copy_on_device(array) if leaf.on_device else array.copy()
