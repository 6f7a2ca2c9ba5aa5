"""Finds whether two dynamic patterns have the same entries, even if their index arrays are traced."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.errors import LeafError, PatternError
from jsparse.formats import Pattern
from jsparse.tensor.composed import Composition, dynamic_patterns
from jsparse.tensor.dynamic_pattern import DynamicPattern, same_entries
from jsparse.tensor.sparse_tensor import SparseTensor


def differ(a: SparseTensor, b: SparseTensor) -> bool:
    """Whether the patterns of two tensors are known to differ. False if this depends on traced index arrays."""
    on: list[Pattern | DynamicPattern | Composition] = [a.pattern, b.pattern]
    of_a, of_b = map(dynamic_patterns, on)
    statics = [p.static_part() for p in on if isinstance(p, Composition)]
    if len(statics) == 2 and statics[0] != statics[1]:
        return True
    if not statics and not (of_a and of_b):
        return a.pattern != b.pattern
    return any(map(_differ, of_a, of_b))


def _differ(a: DynamicPattern, b: DynamicPattern) -> bool:
    if a.type != b.type:
        return True
    if same_entries(a, b) or not (a.concrete and b.concrete) or a.is_tangent or b.is_tangent:
        return False
    return any(x is not y and not np.array_equal(x, y) for x, y in zip(a.arrays, b.arrays, strict=True))


def fingerprint(pattern: DynamicPattern | Composition) -> jax.Array:
    """Hash the index arrays of each pattern of a batch to uint32. Two different patterns collide in 1 of 2³² cases.

    Raises LeafError for the pattern of a tangent, which has no index arrays.
    """
    patterns = dynamic_patterns(pattern)
    if any(on.is_tangent for on in patterns):
        raise LeafError(
            f"Expected parameters with index arrays, which show that moments belong to their entries, but {pattern!r} "
            "lacks them. With Equinox, pass eqx.filter(model, eqx.is_array) as the parameters, to optimizer.init and "
            "to optimizer.update."
        )
    return _fingerprint(tuple(array for on in patterns for array in on.arrays))


@jax.jit
def _fingerprint(arrays: tuple[jax.Array, ...]) -> jax.Array:
    total = jnp.zeros(arrays[0].shape[:-1], jnp.uint32)
    for number, array in enumerate(arrays):
        places = jnp.arange(array.shape[-1], dtype=jnp.uint32) + np.uint32(number << 28)
        bits = array.astype(jnp.uint32)
        if array.dtype.itemsize == 8:  # both halves are hashed
            bits ^= _mix_bits((array >> np.asarray(32, array.dtype)).astype(jnp.uint32))
        mixed = _mix_bits(bits * np.uint32(0x9E3779B1) ^ places * np.uint32(0x85EBCA6B))
        total += mixed.sum(-1, dtype=jnp.uint32)
    return total


def _mix_bits(x: jax.Array) -> jax.Array:
    """Spread the bits of x, so that changes at several places do not cancel each other in a sum."""
    x = (x ^ (x >> np.uint32(15))) * np.uint32(0xC2B2AE35)
    return x ^ (x >> np.uint32(16))


def is_other(stored: jax.Array, pattern: DynamicPattern | Composition, message: str) -> jax.Array | bool:
    """Whether the fingerprint of a pattern differs from `stored`: a traced bool array, or False.

    Raises PatternError with `message` if both fingerprints are known and differ.
    """
    present = fingerprint(pattern)
    if isinstance(stored, jax.core.Tracer) or isinstance(present, jax.core.Tracer):
        return present != stored
    if not np.array_equal(present, stored):
        raise PatternError(message)
    return False
