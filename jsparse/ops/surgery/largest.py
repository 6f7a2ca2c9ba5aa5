"""Selects the k largest numbers of an array, as a mask. Among equal numbers, the first in the array are selected.

Numbers are compared by their keys: unsigned integers of the same width and in the same order (`ordered`). The k-th
largest key is found bit by bit, from the highest bit: a bit is set if at least k keys are >= the result with this bit.
The search reads the array once for each bit, and is faster than a sort or `jax.lax.top_k`.
"""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.base.arrays import Array


def ordered(x: Array) -> Array:
    """Map real numbers to unsigned integers in the same order. 0 and -0 are equal; NaN is above all, -NaN below."""
    xp, x = _namespace(x), _widened(x)
    if x.dtype.kind == "u":
        return x
    sign = np.array(1 << (8 * x.dtype.itemsize - 1), f"uint{8 * x.dtype.itemsize}")
    if x.dtype.kind == "i":
        return _bits(x) ^ sign
    bits = _bits(xp.where(x == 0, xp.zeros_like(x), x))
    return xp.where(bits & sign, ~bits, bits | sign)


def magnitudes(x: Array) -> Array:
    """Map numbers to unsigned integers in the order of their absolute values. NaN is above all numbers."""
    xp, x = _namespace(x), _widened(x)
    if x.dtype.kind == "i":
        return ~_bits(xp.where(x < 0, x, -x)) + 1  # the magnitude of an int8 of -128 is 128, too
    return x if x.dtype.kind == "u" else _bits(xp.abs(x))


def largest(keys: Any, valid: Any, k: Any) -> Array:
    """Return the mask of the k largest `valid` keys, or of all valid keys if there are at most k.

    Among equal keys the first ones are chosen. For numpy arrays the mask is a numpy array, and nothing is compiled.

    Args:
        keys: (n,) unsigned integers.
        valid: (n,) bools.
        k: an integer >= 0, which may be traced.
    """
    xp = _namespace(keys)
    count = np.int32 if keys.size < 2**31 else np.int64
    k = xp.asarray(k).astype(count)
    kth = _kth_on_host(keys, valid, int(k)) if xp is np else _kth(keys, valid, k, count)
    above, ties = valid & (keys > kth), valid & (keys == kth)
    left = k - above.sum(dtype=count)
    first = xp.arange(keys.size, dtype=count) < (_end_on_host if xp is np else _end)(ties, left)
    return (above | (ties & first)) & (k > 0)


def _end(mask: Array, k: jax.Array) -> jax.Array:
    """Return an index before which the mask has k True elements, or the length if the mask has fewer than k.

    The mask is split into rows of equal length. Cumulative sums run over the numbers of True elements of the rows, and
    over one row: `jnp.cumsum` over all elements would cost about as much as the search for the k-th largest number.
    """
    width = max(1, math.isqrt(mask.size))
    rows = jnp.pad(mask, (0, -mask.size % width)).reshape(-1, width)
    if not rows.size:
        return k * 0
    counts = rows.sum(axis=1, dtype=k.dtype)
    before = jnp.cumsum(counts) - counts
    row = jnp.maximum((before <= k).sum(dtype=k.dtype) - 1, 0)  # the last one that begins after at most k elements
    within = (jnp.cumsum(rows[row], dtype=k.dtype) <= k - before[row]).sum(dtype=k.dtype)
    return row * width + jnp.minimum(within, mask.size - row * width)


def _end_on_host(mask: np.ndarray, k: Any) -> int:
    indices = np.flatnonzero(mask)
    return int(indices[k]) if 0 <= k < len(indices) else mask.size


def _kth(keys: Any, valid: Array, k: jax.Array, count: Any) -> jax.Array:
    """Find the largest number x such that at least k valid keys are >= x; 0 if fewer than k keys are valid."""
    bits, one = 8 * keys.dtype.itemsize, np.array(1, keys.dtype)

    def step(n: jax.Array, found: jax.Array) -> jax.Array:
        larger = found | (one << (bits - 1 - n).astype(keys.dtype))
        enough = ((keys >= larger) & valid).sum(dtype=count) >= k
        return jnp.where(enough, larger, found)

    return jax.lax.fori_loop(0, bits, step, jnp.zeros((), keys.dtype))


def _kth_on_host(keys: np.ndarray, valid: np.ndarray, k: int) -> np.ndarray:
    among = keys[valid]
    at = len(among) - k
    return np.partition(among, at)[at] if 0 <= at < len(among) else np.zeros((), keys.dtype)


def _namespace(x: Array) -> ModuleType:
    return np if isinstance(x, np.ndarray) else jnp


def _widened(x: Array) -> Array:
    """Convert `x` to one of numpy's own dtypes with whole bytes, so that the result can be viewed as integers."""
    if x.dtype == np.bool_:
        return x.astype(np.uint8)
    if jnp.issubdtype(x.dtype, jnp.integer):
        unsigned = jnp.issubdtype(x.dtype, jnp.unsignedinteger)
        return x if x.dtype.kind in "iu" else x.astype(np.uint8 if unsigned else np.int8)
    return x if x.dtype.kind in "fc" else x.astype(np.float32)  # bfloat16 and narrower floats


def _bits(x: Array) -> Array:
    unsigned = np.dtype(f"uint{8 * x.dtype.itemsize}")
    return x.view(unsigned) if isinstance(x, np.ndarray) else jax.lax.bitcast_convert_type(x, unsigned)
