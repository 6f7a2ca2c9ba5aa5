"""Models written for dense arrays run on sparse tensors, with at most five changed lines."""

import difflib
import inspect
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sparsify import models

import jsparse

RNG = np.random.default_rng(3)
N = 24


def normal(*shape):
    return jnp.asarray(RNG.normal(size=shape), jnp.float32)


def graph():
    dense = (RNG.random((N, N)) < 0.15) * RNG.integers(1, 4, (N, N)) + np.eye(N)
    return jnp.asarray(dense, jnp.float32)


CASES = {
    "gcn": (normal(N, 5), [normal(5, 6), normal(6, 6), normal(6, 3)]),
    "autoencoder": ([(normal(N, 4), normal(4)), (normal(4, N), normal(N))],),
    "attention": (normal(N, 4), normal(N, 4), normal(N, 3)),
    "graph_attention": (normal(N, 5), normal(5, 4), normal(4), normal(4)),
}


def changed_lines(name):
    dense, sparse = (
        textwrap.dedent(inspect.getsource(getattr(models, f"{name}_{kind}"))).replace(f"_{kind}(", "(").splitlines()
        for kind in ("dense", "sparse")
    )
    return sum(line.startswith(("+ ", "- ")) for line in difflib.ndiff(dense, sparse))


@pytest.mark.parametrize("name", CASES)
def test_at_most_five_lines_change(name):
    assert 1 <= changed_lines(name) <= 5


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("name", "format"), [*((name, "csr") for name in CASES), ("gcn", "coo"), ("attention", "coo")])
def test_models_agree_with_dense_ones_in_values_and_gradients(name, format):
    dense, sparse = getattr(models, f"{name}_dense"), getattr(models, f"{name}_sparse")
    first, args = graph(), CASES[name]
    A = jsparse.asarray(np.asarray(first), format=format)
    A = A.dynamic(A.nse + 3) if format == "coo" else A

    def loss(function):
        return lambda A, args: jnp.sum(jnp.asarray(function(A, *args)) ** 2)

    value, (dA, rest) = jax.jit(jsparse.value_and_grad(loss(sparse), argnums=(0, 1)))(A, args)
    expected, (dense_dA, dense_rest) = jax.value_and_grad(loss(dense), argnums=(0, 1))(first, args)
    np.testing.assert_allclose(value, expected, rtol=1e-4)
    np.testing.assert_allclose(dA.todense(), jnp.where(first != 0, dense_dA, 0), rtol=1e-3, atol=1e-4)
    for x, y in zip(jax.tree.leaves(rest), jax.tree.leaves(dense_rest), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", ["gcn", "attention", "graph_attention"])
def test_no_array_of_the_graphs_shape_is_made(name):
    """The program of the loss and its gradient has no buffer of the shape of the graph."""
    A = jsparse.asarray(np.asarray(graph()), format="csr")

    def loss(A, args):
        return jnp.sum(getattr(models, f"{name}_sparse")(A, *args) ** 2)

    text = jax.jit(jax.grad(loss, argnums=(0, 1))).lower(A, CASES[name]).as_text()
    assert f"{N}x{N}x" not in text
