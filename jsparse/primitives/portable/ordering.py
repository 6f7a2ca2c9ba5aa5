"""Numbers in segments by XLA's sort: what `csrc/sort/` computes on CPU."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def to_ordered_integers(x: jax.Array) -> jax.Array:
    """Map real numbers to unsigned integers in the same order. 0 and -0 are equal, and NaN is above all numbers."""
    x = _whole_bytes(x)
    if x.dtype.kind == "u":
        return x
    sign = np.array(1 << (8 * x.dtype.itemsize - 1), f"uint{8 * x.dtype.itemsize}")
    if x.dtype.kind == "i":
        return lax.bitcast_convert_type(x, sign.dtype) ^ sign
    bits = lax.bitcast_convert_type(jnp.where(x == 0, jnp.zeros_like(x), x), sign.dtype)
    return jnp.where(jnp.isnan(x), ~jnp.zeros_like(bits), jnp.where(bits & sign, ~bits, bits | sign))


def magnitudes(x: jax.Array) -> jax.Array:
    """Map real numbers to unsigned integers in the order of their absolute values. NaN is above all numbers."""
    x = _whole_bytes(x)
    if x.dtype.kind == "u":
        return x
    unsigned = np.dtype(f"uint{8 * x.dtype.itemsize}")
    if x.dtype.kind == "i":  # the magnitude of an int8 of -128 is 128, too
        return ~lax.bitcast_convert_type(jnp.where(x < 0, x, -x), unsigned) + np.array(1, unsigned)
    return to_ordered_integers(jnp.abs(x))


def _whole_bytes(x: jax.Array) -> jax.Array:
    """Convert `x` to one of numpy's own dtypes, whose bits are integers of the same size."""
    if x.dtype == np.bool_:
        return x.astype(np.uint8)
    if x.dtype.kind in "iuf":
        return x
    if jnp.issubdtype(x.dtype, jnp.integer):
        return x.astype(np.uint8 if jnp.issubdtype(x.dtype, jnp.unsignedinteger) else np.int8)
    return x.astype(np.float32)  # bfloat16 and narrower floats


def sort_segments(numbers: jax.Array, starts: jax.Array, width: int, descending: bool) -> tuple[jax.Array, jax.Array]:
    """Return the order and the places that `segments.sort_segments` returns."""
    keys = ~to_ordered_integers(numbers) if descending else to_ordered_integers(numbers)
    segment, slot, begin, end = _bounds(starts, len(numbers))
    inside = slot < end
    keys = jnp.where(inside, keys, jnp.zeros_like(keys))  # all others stay where they are
    *_, order = lax.sort((segment, keys, slot), num_keys=2, is_stable=True)
    # Segments are in order, so sorted numbers are in the segments in which the numbers of these slots were.
    negative = numbers[order] < 0
    at_front = ~negative if descending else negative
    places = jnp.where(at_front, slot - begin, slot + (width - end))
    return order, jnp.where(inside, places, width)


def largest(
    numbers: jax.Array, starts: jax.Array, k: jax.Array, valid: jax.Array | None, by_magnitude: bool
) -> jax.Array:
    """Return the mask that `segments.largest` returns."""
    keys = ~(magnitudes if by_magnitude else to_ordered_integers)(numbers)
    segment, slot, begin, end = _bounds(starts, len(numbers))
    counts = jnp.ones(len(numbers), np.bool_) if valid is None else valid
    *_, order = lax.sort((segment, ~counts, keys, slot), num_keys=3, is_stable=True)
    kept = (slot < end) & (slot - begin < k)
    return jnp.zeros(len(numbers), np.bool_).at[order].set(kept, unique_indices=True) & counts


def _bounds(starts: jax.Array, count: int) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """Return for each slot the number of its segment, the slot itself, and where the segment begins and ends.

    Slots outside of all segments get a segment that is empty.
    """
    slot = lax.iota(starts.dtype, count)
    starts = lax.cummax(jnp.clip(starts, 0, count))
    opened = jnp.zeros(count + 1, starts.dtype).at[starts].add(1)
    segment = lax.cumsum(opened)[:count]  # 0 before the first segment
    bounds = jnp.concatenate([jnp.zeros(1, starts.dtype), starts, jnp.full(1, count, starts.dtype)])
    begin, end = bounds[segment], bounds[segment + 1]
    inside = (segment > 0) & (segment < len(starts))
    return segment, slot, begin, jnp.where(inside, end, begin)
