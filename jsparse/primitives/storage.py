"""Dense arrays in the order of storage that a kernel wants."""

from __future__ import annotations

from math import prod
from typing import Any

import jax.numpy as jnp

from jsparse.primitives.routine import swapped

__all__ = ["stored_in"]

LARGE = 1 << 16  # elements from which on the extension's routine is worth its call; XLA may fuse what is smaller


def stored_in(x: Any, order: tuple[int, ...]) -> Any:
    """The array with its dimensions in another order, as `jnp.transpose`; quickly where two runs of them swap."""
    if order == tuple(range(x.ndim)):
        return x
    swap = _swap(order)
    if swap is None or x.size < LARGE:
        return jnp.transpose(x, order)
    first, middle, end = swap
    sizes = [prod(x.shape[part]) for part in (slice(first), slice(first, middle), slice(middle, end))]
    return swapped(x.reshape(sizes)).reshape([x.shape[n] for n in order])


def _swap(order: tuple[int, ...]) -> tuple[int, int, int] | None:
    """(a, b, end) if dimensions [a, b) and [b, end) change places and all before stay where they are."""
    end = len(order)
    first = next((n for n in range(end) if order[n] != n), end)
    middle = order[first] if first < end else end
    wanted = (*range(first), *range(middle, end), *range(first, middle))
    return (first, middle, end) if order == wanted else None
