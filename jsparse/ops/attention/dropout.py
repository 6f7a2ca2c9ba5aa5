"""Dropout of attention weights."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.errors import ShapeError, short_repr


def check_rate(rate: float, what: str) -> None:
    """Raise ShapeError unless the rate of dropout is a number from 0 to 1."""
    if not isinstance(rate, int | float | np.number) or not 0 <= rate <= 1:
        raise ShapeError(f"Expected dropout_rate to be a number from 0 to 1 in {what}, but got {short_repr(rate)}.")


def dropout_factors(
    shape: tuple[int, ...], rate: float, key: jax.Array | None, what: str, name: str = "key"
) -> jax.Array | None:
    """The factors of dropout, 0 or 1 / (1 - rate); None for a rate of 0.

    Raises ShapeError if the rate is out of range, or no key is passed. Messages call the argument `dropout_{name}`.
    """
    check_rate(rate, what)
    if not rate:
        return None
    if key is None:
        raise ShapeError(f"Expected dropout_{name}= in {what}, a jax.random key, because dropout_rate is not 0.")
    if rate == 1:
        return jnp.zeros(shape, jnp.float32)
    return jax.random.bernoulli(key, 1 - rate, shape) / jnp.float32(1 - rate)
