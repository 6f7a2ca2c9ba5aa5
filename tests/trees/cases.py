"""The tensors of the tests of training."""

import jax.numpy as jnp
import numpy as np

import jsparse

__all__ = ["DENSE", "KINDS", "X"]

DENSE = np.arange(30, dtype=np.float32).reshape(5, 6) % 4
KINDS = {
    "static": lambda: jsparse.asarray(DENSE),
    "dynamic": lambda: jsparse.asarray(DENSE).dynamic(25),
    "transposed": lambda: jsparse.asarray(DENSE).dynamic(25).with_transpose(),
}
X = jnp.linspace(-1, 1, 6)
