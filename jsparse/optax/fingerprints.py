"""Finds whether two dynamic patterns have the same entries, even if their index arrays are traced."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.errors import LeafError, PatternError
from jsparse.tensor.dynamic_pattern import DynamicPattern, same_entries
from jsparse.tensor.sparse_tensor import SparseTensor


def differ(a: SparseTensor, b: SparseTensor) -> bool:
    """Whether the patterns of two tensors are known to differ. False if this depends on traced index arrays."""
    if not (isinstance(a.pattern, DynamicPattern) and isinstance(b.pattern, DynamicPattern)):
        return a.pattern != b.pattern
    if a.pattern.type != b.pattern.type:
        return True
    patterns = (a.pattern, b.pattern)
    if same_entries(*patterns) or not all(on.concrete for on in patterns) or any(on.is_tangent for on in patterns):
        return False
    pairs = zip(a.pattern.arrays, b.pattern.arrays, strict=True)
    return any(x is not y and not np.array_equal(x, y) for x, y in pairs)


def fingerprint(pattern: DynamicPattern) -> jax.Array:
    """Hash the index arrays of each pattern of a batch to uint32. Two different patterns collide in 1 of 2³² cases.

    Raises LeafError for the pattern of a tangent, which has no index arrays.
    """
    if pattern.is_tangent:
        raise LeafError(
            f"Expected parameters with index arrays, by which moments are known to belong to their entries, but "
            f"{pattern!r} lacks them. With Equinox, pass eqx.filter(model, eqx.is_array) as the parameters, to "
            f"optimizer.init and to optimizer.update."
        )
    return _fingerprint(pattern.arrays)


@jax.jit
def _fingerprint(arrays: tuple[jax.Array, ...]) -> jax.Array:
    total = jnp.zeros(arrays[0].shape[:-1], jnp.uint32)
    for number, array in enumerate(arrays):
        places = jnp.arange(array.shape[-1], dtype=jnp.uint32) + np.uint32(number << 28)
        total += _mixed(_bits(array) * np.uint32(0x9E3779B1) ^ places * np.uint32(0x85EBCA6B)).sum(-1, dtype=jnp.uint32)
    return total


def _bits(array: jax.Array) -> jax.Array:
    """Convert each index to 32 bits. For an index of 64 bits, both halves are hashed."""
    if array.dtype.itemsize < 8:
        return array.astype(jnp.uint32)
    return array.astype(jnp.uint32) ^ _mixed((array >> np.asarray(32, array.dtype)).astype(jnp.uint32))


def _mixed(x: jax.Array) -> jax.Array:
    """Spread the bits of x, so that changes at several places do not cancel each other in a sum."""
    x = (x ^ (x >> np.uint32(15))) * np.uint32(0xC2B2AE35)
    return x ^ (x >> np.uint32(16))


def is_other(stored: jax.Array, pattern: DynamicPattern, message: str) -> jax.Array | bool:
    """Whether the fingerprint of a pattern differs from `stored`: a traced bool array, or False.

    Raises PatternError with `message` if both fingerprints are known and differ.
    """
    found = fingerprint(pattern)
    if isinstance(stored, jax.core.Tracer) or isinstance(found, jax.core.Tracer):
        return found != stored
    if not np.array_equal(found, stored):
        raise PatternError(message)
    return False
