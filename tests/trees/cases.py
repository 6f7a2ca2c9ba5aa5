"""The tensors of the tests of training and of checkpoints, and the training of a dense matrix."""

import jax
import jax.numpy as jnp
import numpy as np

import jsparse

__all__ = ["DENSE", "KINDS", "OTHERS", "X", "reference"]

DENSE = np.arange(30, dtype=np.float32).reshape(5, 6) % 4
KINDS = {
    "static": lambda: jsparse.asarray(DENSE),
    "dynamic": lambda: jsparse.asarray(DENSE).dynamic(25),
    "transposed": lambda: jsparse.asarray(DENSE).dynamic(25).with_transpose(),
}
X = jnp.linspace(-1, 1, 6)
MIRRORED = DENSE[:, ::-1].copy()  # as many entries, elsewhere
SQUARE = np.arange(16, dtype=np.float32).reshape(4, 4) % 3
OTHERS = {  # pairs of tensors whose leaves have the same shapes, but whose metadata differ
    "static entries": (jsparse.asarray(DENSE), jsparse.asarray(MIRRORED)),
    "static format": (jsparse.asarray(SQUARE), jsparse.asarray(SQUARE).T),
    "dynamic format": (jsparse.asarray(SQUARE).dynamic(), jsparse.asarray(SQUARE).dynamic().T),
    "dynamic shape": (jsparse.asarray(DENSE).dynamic(25), jsparse.asarray(np.pad(DENSE, ((0, 0), (0, 2)))).dynamic(25)),
}


def reference(optimizer, steps):
    """The losses while a dense matrix is trained whose other elements stay 0."""
    params, losses = {"A": DENSE, "b": jnp.ones(5)}, []
    state = optimizer.init(params)
    for _ in range(steps):
        value, gradient = jax.value_and_grad(lambda p: ((p["A"] @ X + p["b"] - 3) ** 2).sum())(params)
        gradient["A"] = jnp.where(DENSE != 0, gradient["A"], 0)
        updates, state = optimizer.update(gradient, state, params)
        params = jax.tree.map(jnp.add, params, updates)
        losses.append(value)
    return losses
