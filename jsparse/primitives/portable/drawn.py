"""Random samples without replacement as XLA operations: what `csrc/random/draw.cc` computes on CPU."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def draw(key: jax.Array, sizes: jax.Array, count: int) -> jax.Array:
    """Draw `count` distinct numbers below each of the `sizes` (n,). If a size is at most `count`, take 0, 1, ….

    For j = 0, …, count - 1, a random number up to u = size - count + j joins the set. If it is in the set already, u
    joins the set instead.

    Args:
        key: (2,) the words of a key, uint32.
    """
    rows, dtype = sizes.shape[0], sizes.dtype
    # There are two random words for each row and draw.
    row, column = (lax.broadcasted_iota(np.uint32, (rows, count), axis).reshape(-1) for axis in (0, 1))
    high, low = (words.reshape(rows, count) for words in threefry(key[0], key[1], row, column))

    def draw_one(j: jax.Array, chosen: jax.Array) -> jax.Array:
        most = jnp.maximum(sizes - count + j.astype(dtype), 0)
        number = _below(most + 1, high[:, j], low[:, j])
        repeated = (chosen == number[:, None]).any(axis=1)
        return chosen.at[:, j].set(jnp.where(repeated, most, number))

    first = lax.broadcasted_iota(dtype, (rows, count), 1)
    if not rows or not count:
        return first
    chosen = lax.fori_loop(0, count, draw_one, jnp.full_like(first, -1))
    return jnp.where(sizes[:, None] > count, chosen, first)


ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = np.uint32(0x1BD11BDA)


def threefry(first: jax.Array, second: jax.Array, a: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the two words of Threefry-2x32 with 20 rounds, as jax.random has it, of a key and counters.

    Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011).
    """
    keys = (first, second, PARITY ^ first ^ second)
    a, b = a + keys[0], b + keys[1]
    for step in range(5):
        for rotation in ROTATIONS[step % 2]:
            a = a + b
            b = (b << rotation | b >> 32 - rotation) ^ a
        a, b = a + keys[(step + 1) % 3], b + keys[(step + 2) % 3] + np.uint32(step + 1)
    return a, b


def _below(size: jax.Array, high: jax.Array, low: jax.Array) -> jax.Array:
    """Return the upper 64 bits of `size` times the 64 random bits `high, low`: a number below `size`."""
    if size.dtype.itemsize == 8:
        wide = jnp.uint64
        return _product(size.astype(wide), high.astype(wide) << 32 | low.astype(wide))[0].astype(size.dtype)
    factor = size.astype(np.uint32)
    above, lower = _product(factor, high)
    carried = lower + _product(factor, low)[0]
    return (above + (carried < lower).astype(np.uint32)).astype(size.dtype)


def _product(a: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the upper and the lower half of the product of unsigned integers, from products of their halves."""
    half = 4 * a.dtype.itemsize
    mask = a.dtype.type(2**half - 1)
    a_high, a_low, b_high, b_low = a >> half, a & mask, b >> half, b & mask
    middle = a_high * b_low + (a_low * b_low >> half)
    crossed = a_low * b_high + (middle & mask)
    return a_high * b_high + (middle >> half) + (crossed >> half), a * b
