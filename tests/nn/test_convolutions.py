"""Graph convolutions against their formulas on dense arrays, values and all gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from nn import formulas
from nn.graphs import check, normal, weights

import jsparse

N, M, F, G = 9, 7, 5, 3
KINDS = ["static", "dynamic", "pattern"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("out", [3, 8])
@pytest.mark.parametrize("kind", KINDS)
def test_gcn(kind, out):
    parameters = normal(1, N, F), normal(2, F, out), normal(3, out)
    check(jsparse.nn.gcn_conv, formulas.gcn, weights(N, N), kind, *parameters)


def test_gcn_without_loops_and_factors():
    a, x, w = weights(N, N), normal(1, N, F), normal(2, F, G)
    found = jsparse.nn.gcn_conv(jsparse.asarray(a), x, w, self_loops=False, normalize=False)
    np.testing.assert_allclose(found, a @ x @ w, rtol=1e-5, atol=1e-5)
    found = jsparse.nn.gcn_conv(jsparse.asarray(a), x, w, self_loops=False)
    assert (np.asarray(found)[1] == 0).all()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("reduction", ["sum", "mean", "max", "min", "std"])
@pytest.mark.parametrize("kind", KINDS)
def test_aggregate(kind, reduction):
    def formula(dense, x):
        return formulas.messages(dense, weights(N, M) != 0, x, reduction)

    def layer(graph, x):
        return jsparse.nn.aggregate(graph, x, reduction)

    check(layer, formula, weights(N, M), kind, normal(1, M, F))


def test_several_reductions():
    a, x, names = weights(N, M), normal(1, M, F), ("sum", "max", "std")
    found = jsparse.nn.aggregate(jsparse.asarray(a), x, names)
    expected = jnp.stack([formulas.messages(a, a != 0, x, name) for name in names], axis=1)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("out", [3, 8])
@pytest.mark.parametrize("reduction", ["sum", "mean", "max"])
@pytest.mark.parametrize("kind", KINDS)
def test_sage(kind, reduction, out):
    a = weights(N, M)

    def layer(graph, xs, xt, w, r, b):
        return jsparse.nn.sage_conv(graph, (xs, xt), w, r, b, reduction=reduction)

    def formula(dense, xs, xt, w, r, b):
        return formulas.sage(dense, a != 0, xs, xt, w, r, b, reduction)

    parameters = normal(1, M, F), normal(2, N, 4), normal(3, F, out), normal(4, 4, out), normal(5, out)
    check(layer, formula, a, kind, *parameters)


def test_sage_by_pooling():
    a = weights(N, N)

    def layer(graph, x, p, q, w, r):
        return jsparse.nn.sage_conv(graph, x, w, r, reduction="pool", pool=(p, q), normalize=True)

    def formula(dense, x, p, q, w, r):
        found = formulas.sage(dense, a != 0, jax.nn.relu(x @ p + q), x, w, r, 0, "max")
        return found / jnp.linalg.norm(found, axis=1, keepdims=True)

    check(layer, formula, a, "static", normal(1, N, F), normal(2, F, 4), normal(3, 4), normal(4, 4, G), normal(5, F, G))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", KINDS)
def test_gin(kind):
    def mlp(w, v):
        return lambda x: jax.nn.tanh(x @ w) @ v

    def layer(graph, x, w, v, eps):
        return jsparse.nn.gin_conv(graph, x, mlp(w, v), eps)

    def formula(dense, x, w, v, eps):
        return formulas.gin(dense, x, x, mlp(w, v), eps)

    check(layer, formula, weights(N, N), kind, normal(1, N, F), normal(2, F, 4), normal(3, 4, G), jnp.float32(0.3))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_rgcn(kind, normalize):
    def layer(graph, xs, xt, c, w, r, b):
        kernel = jsparse.nn.basis_kernel(c, w)
        return jsparse.nn.rgcn_conv(graph, (xs, xt), kernel, r, b, normalize=normalize)

    def formula(dense, xs, xt, c, w, r, b):
        return formulas.rgcn(dense, xs, xt, jnp.einsum("rb,bcf->rcf", c, w), r, b, normalize)

    parameters = normal(1, M, F), normal(2, N, 4), normal(3, 3, 2), normal(4, 2, F, G), normal(5, 4, G), normal(6, G)
    check(layer, formula, weights(3, N, M), kind, *parameters)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", KINDS)
def test_rgcn_with_blocks(kind):
    def layer(graph, x, w):
        return jsparse.nn.rgcn_conv(graph, x, w)

    def formula(dense, x, w):
        whole = jnp.stack([jax.scipy.linalg.block_diag(*one) for one in w])
        return formulas.rgcn(dense, x, x, whole, jnp.zeros((6, 4)), 0)

    check(layer, formula, weights(3, N, N), kind, normal(1, N, 6), normal(2, 3, 2, 3, 2))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("reduction", ["max", "mean", "sum"])
@pytest.mark.parametrize("kind", ["static", "dynamic"])
def test_edge_conv(kind, reduction):
    a = weights(N, N)

    def layer(graph, x, w):
        return jsparse.nn.edge_conv(graph, x, lambda both: jnp.tanh(both @ w), reduction=reduction)

    def formula(dense, x, w):
        return formulas.edge_conv(a != 0, x, x, lambda both: jnp.tanh(both @ w), reduction)

    check(layer, formula, a, kind, normal(1, N, F), normal(2, 2 * F, G), weighted=False)


@pytest.mark.parametrize("reduction", ["sum", "mean", "max"])
def test_pooling(reduction):
    x, graph_of_node = normal(1, 7, 3), jnp.array([0, 0, 2, 2, 2, 4, 4])  # graph 1 is empty, and 4 is padding
    found = jsparse.nn.pool(x, graph_of_node, 4, reduction)
    take = {"sum": np.sum, "mean": np.mean, "max": np.max}[reduction]
    np.testing.assert_allclose(found[0], take(x[:2], axis=0), rtol=1e-6)
    np.testing.assert_allclose(found[2], take(x[2:5], axis=0), rtol=1e-6)
    assert (np.asarray(found)[[1, 3]] == 0).all()


def test_attention_pooling():
    x, scores, graph_of_node = normal(1, 6, 3), 50 * normal(2, 6), jnp.array([0, 0, 2, 2, 2, 3])
    found = jsparse.nn.attention_pool(x, scores, graph_of_node, 3)
    np.testing.assert_allclose(found[0], jax.nn.softmax(scores[:2]) @ x[:2], rtol=1e-5)
    np.testing.assert_allclose(found[2], jax.nn.softmax(scores[2:5]) @ x[2:5], rtol=1e-5)
    assert (np.asarray(found)[1] == 0).all()
    slopes = jax.jit(jax.grad(lambda s: jsparse.nn.attention_pool(x, s, graph_of_node, 3)[0].sum()))(scores)
    expected = jax.grad(lambda s: (jax.nn.softmax(s) @ x[:2]).sum())(scores[:2])
    np.testing.assert_allclose(slopes[:2], expected, rtol=1e-4, atol=1e-6)
