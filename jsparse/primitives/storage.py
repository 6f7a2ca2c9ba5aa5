"""Dense arrays in the storage order that a kernel requires."""

from __future__ import annotations

from math import prod
from typing import Any

import jax.numpy as jnp
import numpy as np

from jsparse.primitives.routine import swapped

__all__ = ["stored_in"]

LARGE = 1 << 22  # the least elements for which the routine `swap` is faster than XLA, which may also remove a transpose


def stored_in(x: Any, order: tuple[int, ...]) -> Any:
    """Transpose an array as `jnp.transpose` does. The routine `swap` does it if two blocks of dimensions swap."""
    if order == tuple(range(x.ndim)):
        return x
    if isinstance(x, np.ndarray):
        return np.ascontiguousarray(x.transpose(order))
    swap = _swap(order)
    if swap is None or x.size < LARGE:
        return jnp.transpose(x, order)
    first, middle, end = swap
    sizes = [prod(x.shape[part]) for part in (slice(first), slice(first, middle), slice(middle, end))]
    return swapped(x.reshape(sizes)).reshape([x.shape[n] for n in order])


def _swap(order: tuple[int, ...]) -> tuple[int, int, int] | None:
    """The bounds (a, b, end) if `order` swaps dimensions [a, b) and [b, end) and keeps all before; None otherwise."""
    end = len(order)
    first = next((n for n in range(end) if order[n] != n), end)
    middle = order[first] if first < end else end
    swapped_order = (*range(first), *range(middle, end), *range(first, middle))
    return (first, middle, end) if order == swapped_order else None
