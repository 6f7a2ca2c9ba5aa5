"""Convolutions by Chebyshev polynomials beside the eigenvectors of the Laplacian."""

import jax.numpy as jnp
import numpy as np
import pytest
from nn.graphs import graph_of, normal, weights

from jsparse import nn

N, F, K = 11, 4, 5


def symmetric(seed=0):
    found = np.abs(weights(N, N, seed=seed, density=0.3))
    found = found + found.T
    np.fill_diagonal(found, 0)
    found[3] = found[:, 3] = 0  # a node without neighbours
    return found


def by_eigenvectors(A, x, kernel, normalize, bound):
    """Σ T_k(L̂) x W[k], where T_k(cos t) = cos k t of each eigenvalue."""
    degrees = A.sum(1)
    if normalize:
        root = np.divide(1, np.sqrt(degrees), out=np.zeros(N), where=degrees > 0)
        laplacian = np.eye(N) - root[:, None] * A * root
    else:
        laplacian = np.diag(degrees) - A
    values, vectors = np.linalg.eigh(laplacian)
    angles = np.arccos(np.clip(2 * values / bound - 1, -1, 1))
    return sum((vectors * np.cos(k * angles)) @ vectors.T @ x @ own for k, own in enumerate(kernel))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", ["static", "dynamic"])
@pytest.mark.parametrize(("normalize", "bound"), [(True, None), (True, 2.5), (False, 9.0)])
@pytest.mark.parametrize("out", [3, 6])  # narrower and wider than x
@pytest.mark.parametrize("order", [1, 2, 3, K])
def test_formula(order, out, normalize, bound, kind):
    A, x, kernel, bias = symmetric(), normal(1, N, F), normal(2, order, F, out), normal(3, out)
    bound = bound if normalize else 2 * A.sum(1).max()
    found = nn.cheb_conv(graph_of(A, kind), x, kernel, bias, normalize=normalize, lambda_max=bound)
    np.testing.assert_allclose(found, by_eigenvectors(A, x, kernel, normalize, bound or 2.0) + bias, atol=2e-5)


def test_narrow_floats_are_rounded_once():
    """64 equal neighbours: sums in bfloat16 would stop at 256 times the smallest term."""
    n = 65
    A = jnp.ones((n, n), jnp.bfloat16) - jnp.eye(n, dtype=jnp.bfloat16)
    x, kernel = jnp.full((n, 1), 1.0078125, jnp.bfloat16), jnp.ones((3, 1, 1), jnp.bfloat16)
    found = nn.cheb_conv(graph_of(A, "static"), x, kernel)
    wide = nn.cheb_conv(graph_of(A.astype(jnp.float32), "static"), x.astype(jnp.float32), kernel.astype(jnp.float32))
    assert found.dtype == jnp.bfloat16
    np.testing.assert_array_equal(found, wide.astype(jnp.bfloat16))
