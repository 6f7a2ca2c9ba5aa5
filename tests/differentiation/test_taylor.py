"""Taylor-mode differentiation by `jax.experimental.jet`, compared with jet on dense arrays."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import jet

import jsparse

DENSE = np.array([[1, 0, 2, 0], [0, 3, 0, 0], [0, 3, 0, 4], [1, 0, 0, 0]], np.float32)
PLACES = np.zeros((6, 16), np.float32)
PLACES[np.arange(6), np.flatnonzero(DENSE)] = 1
X = jnp.arange(1.0, 5) / 4
OTHER = DENSE[::-1].copy()
LARGEST = np.eye(4, dtype=np.float32)[DENSE.argmax(1)]


def softmax(D):
    powers = jnp.where(DENSE != 0, jnp.exp(D), 0)
    return powers / powers.sum(1, keepdims=True)


IN_VALUES = {  # a function of a tensor, and of a dense matrix
    "product": (lambda A: jnp.sin(A @ X), lambda D: jnp.sin(D @ X)),
    "three factors": (
        lambda A: jsparse.einsum("ij,kj,j->ik", A, A, X, out_format="dense"),
        lambda D: jnp.einsum("ij,kj,j->ik", D, D, X),
    ),
    "transposed": (lambda A: A.T @ (A @ X), lambda D: D.T @ (D @ X)),
    "map": (lambda A: A.map(jnp.sin) @ X, lambda D: jnp.sin(D) @ X),
    "maximum": (lambda A: A.max(1), lambda D: (D * LARGEST).sum(1)),
    "softmax": (lambda A: jsparse.softmax(A, axis=1) @ X, lambda D: softmax(D) @ X),
    "logsumexp": (
        lambda A: jsparse.logsumexp(A, axis=1),
        lambda D: jnp.log(jnp.where(DENSE != 0, jnp.exp(D), 0).sum(1)),
    ),
    "union": (
        lambda A: (A + jsparse.asarray(OTHER, dynamic=A.is_dynamic)) @ X * (A @ X),
        lambda D: (D + OTHER) @ X * (D @ X),
    ),
    "new pattern": (lambda A: jsparse.einsum("ij,kj->ik", A, A, nse=16).todense(), lambda D: D @ D.T),
    "fused": (lambda A: jsparse.fuse(lambda A: (A * A) @ X)(A), lambda D: (D * D) @ X),
    "jit": (jax.jit(lambda A: jnp.sin(A @ X)), lambda D: jnp.sin(D @ X)),
}


def expanded(function, x, series):
    return jax.jit(lambda x, series: jet.jet(function, (x,), series))(x, series)


def check(found, expected):
    for ours, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", IN_VALUES)
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_in_values(name, dynamic):
    of_tensor, of_dense = IN_VALUES[name]
    A = jsparse.asarray(DENSE, dynamic=dynamic)
    v = A.values
    series = ((v * 0.3, v * 0.1 - 0.2, v**2 * 0.2),)
    found = expanded(lambda v: of_tensor(A.with_values(v)), v, series)
    check(found, expanded(lambda v: of_dense((v @ PLACES).reshape(4, 4)), v, series))


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_in_vectors(dynamic):
    A, series = jsparse.asarray(DENSE, dynamic=dynamic, nse=8), ((X, 0.1 * X, 0.3 * X**2, -X),)
    for f in (lambda A, x: A @ x, lambda A, x: jnp.exp(A @ x) @ x, lambda A, x: (A @ (A @ x)) ** 3):
        check(expanded(lambda x, f=f: f(A, x), X, series), expanded(lambda x, f=f: f(DENSE, x), X, series))
    longest = jet.jet(lambda x: jsparse.einsum("ij,j->i", A, x, semiring="max_plus"), (X,), series)
    check(longest[1], [(np.asarray(term)[(np.where(DENSE != 0, DENSE + X, -9)).argmax(1)]) for term in series[0]])
