"""scikit-learn's handwritten digits as images with labels."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.datasets import load_digits

__all__ = ["digits"]


def digits(seed: int) -> tuple[jax.Array, ...]:
    """Return images (n, 64) and labels (n,) for training, and then those for the test, a fifth of all."""
    found = load_digits()
    order = np.random.default_rng(seed).permutation(len(found.target))
    x, y = jnp.asarray(found.data[order] / 16, jnp.float32), jnp.asarray(found.target[order])
    size = len(order) * 4 // 5
    return x[:size], y[:size], x[size:], y[size:]
