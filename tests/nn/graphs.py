"""Small graphs for tests of layers, and comparisons of values and all gradients."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

import jsparse


def weights(*shape, density=0.4, seed=0):
    """A dense array of positive weights; the second row is empty."""
    rng = np.random.default_rng(seed)
    a = np.where(rng.random(shape) < density, rng.random(shape) + 0.5, 0).astype(np.float32)
    a[..., 1, :] = 0
    return a


def normal(seed, *shape):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), jnp.float32)


def graph_of(a, kind, format="csr"):
    """The graph of an array: kinds are "static", "dynamic" and "pattern"."""
    A = jsparse.asarray(a, format=format)
    return A.dynamic(A.nse + 5) if kind == "dynamic" else A.pattern if kind == "pattern" else A


def dense_of(values, a, kind):
    """The array (weights, or ones for a pattern) in which `values` are stored."""
    stored = np.nonzero(a)
    given = jnp.ones(len(stored[0])) if kind == "pattern" else values[: len(stored[0])]
    return jnp.zeros(a.shape).at[stored].set(given)


def check(layer, formula, a, kind, *parameters, rtol=2e-4, atol=2e-5, weighted=True):
    """Compare values and all gradients of `layer(graph, *parameters)` with those of `formula(dense, *parameters)`."""
    graph = graph_of(a, kind, "csr" if a.ndim == 2 else "csf")
    with_weights = weighted and kind != "pattern"
    values = graph.values if with_weights else jnp.zeros(0)

    def ours(values, *parameters):
        return layer(graph.with_values(values) if with_weights else graph, *parameters)

    def theirs(values, *parameters):
        return formula(dense_of(values if with_weights else jnp.ones(a.size), a, kind), *parameters)

    @partial(jax.jit, static_argnums=0)
    def computed(of, *x):
        out, pull = jax.vjp(of, *x)
        return out, pull(normal(99, *out.shape))

    (found, slopes), (expected, wanted) = (computed(of, values, *parameters) for of in (ours, theirs))
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol)
    count = (np.asarray(a) != 0).sum()
    for mine, exact in zip(slopes, wanted, strict=True):
        if mine.ndim == 1 and mine.shape == values.shape:
            mine, exact = mine[:count], exact[:count]
        np.testing.assert_allclose(mine, exact, rtol=rtol * 5, atol=atol * 5)
