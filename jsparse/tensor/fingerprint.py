"""Fingerprints of dynamic patterns: 32 bits that tell apart what programs cannot compare before they run."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.errors import PatternError
from jsparse.tensor.dynamic_pattern import DynamicPattern

__all__ = ["fingerprint", "is_other"]


def fingerprint(pattern: DynamicPattern) -> Any:
    """A uint32 for each pattern of a batch. Other index arrays have another one but for one case in 2³²."""
    return _fingerprint(pattern.arrays)


@jax.jit
def _fingerprint(arrays: tuple[Any, ...]) -> Any:
    total = jnp.zeros(arrays[0].shape[:-1], jnp.uint32)
    for number, array in enumerate(arrays):
        places = jnp.arange(array.shape[-1], dtype=jnp.uint32) + np.uint32(number << 28)
        total += _mixed(_bits(array) * np.uint32(0x9E3779B1) ^ places * np.uint32(0x85EBCA6B)).sum(-1, dtype=jnp.uint32)
    return total


def _bits(array: Any) -> Any:
    """The 32 bits of each index; of 64 bits, both halves."""
    if array.dtype.itemsize < 8:
        return array.astype(jnp.uint32)
    return array.astype(jnp.uint32) ^ _mixed((array >> np.asarray(32, array.dtype)).astype(jnp.uint32))


def _mixed(x: Any) -> Any:
    """Spread the bits of x, so that the changes of several places do not cancel in a sum."""
    x = (x ^ (x >> np.uint32(15))) * np.uint32(0xC2B2AE35)
    return x ^ (x >> np.uint32(16))


def is_other(stored: Any, pattern: DynamicPattern, message: str) -> Any:
    """Whether the fingerprint of a pattern is another one than `stored`: a traced bool array, or False.

    Raises PatternError with `message` if both are known and differ.
    """
    found = fingerprint(pattern)
    if isinstance(stored, jax.core.Tracer) or isinstance(found, jax.core.Tracer):
        return found != stored
    if not np.array_equal(found, stored):
        raise PatternError(message)
    return False
