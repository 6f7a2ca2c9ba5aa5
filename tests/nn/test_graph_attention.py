"""Layers of graph attention against their formulas on dense arrays, values and all gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from nn import formulas
from nn.graphs import check, graph_of, normal, weights

import jsparse
import jsparse.nnx
from jsparse.nn import EdgeAttention, Projection

N, M, F, H, D, E = 8, 6, 5, 2, 3, 4
KINDS = ["static", "dynamic", "pattern"]
PLACES = weights(N, N) != 0
LOOPS = PLACES | np.eye(N, dtype=bool)


def spread(features, a, loops):
    """Features of entries as an array (targets, sources, features), with means at self-loops."""
    whole = jnp.zeros((*a.shape, features.shape[1])).at[np.nonzero(a)].set(features)
    if not loops:
        return whole
    others = jnp.asarray((a != 0) & ~np.eye(len(a), dtype=bool))[:, :, None]
    means = jnp.where(others, whole, 0).sum(1) / jnp.maximum(others.sum(1), 1)
    return jnp.where(jnp.eye(len(a), dtype=bool)[:, :, None], means[:, None], whole)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("concat", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_gat(kind, concat):
    def layer(graph, x, w, s, t, b):
        return jsparse.nn.gat_conv(graph, x, w, s, t, b, concat=concat)

    def formula(_, x, w, s, t, b):
        return formulas.gat(LOOPS, x, x, w, w, s, t, b, concat=concat)

    out = H * D if concat else D
    parameters = normal(1, N, F), normal(2, F, H, D), normal(3, H, D), normal(4, H, D), normal(5, out)
    check(layer, formula, weights(N, N), kind, *parameters, weighted=False)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", KINDS)
def test_gat_between_two_sets(kind):
    a = weights(N, M)

    def layer(graph, xs, xt, w, v, s, t, b):
        return jsparse.nn.gat_conv(graph, (xs, xt), w, s, t, b, kernel_target=v, self_loops=False, negative_slope=0.1)

    def formula(_, xs, xt, w, v, s, t, b):
        return formulas.gat(a != 0, xs, xt, w, v, s, t, b, slope=0.1)

    kernels = normal(3, F, H, D), normal(4, 3, H, D), normal(5, H, D), normal(6, H, D), normal(7, H * D)
    check(layer, formula, a, kind, normal(1, M, F), normal(2, N, 3), *kernels, weighted=False)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["static", "dynamic"])
@pytest.mark.parametrize("name", ["gat", "gatv2"])
def test_targets_of_samples_are_their_first_sources(name, kind):
    a = weights(M, N)  # M targets of N sources
    whole = jnp.asarray((a != 0) | np.eye(M, N, dtype=bool))

    def layer(graph, x, w, s, t):
        both = (x, x[:M])
        if name == "gat":
            return jsparse.nn.gat_conv(graph, both, w, s, t)
        return jsparse.nn.gatv2_conv(graph, both, w, w, s)

    def formula(_, x, w, s, t):
        if name == "gat":
            return formulas.gat(whole, x, x[:M], w, w, s, t, 0)
        return formulas.gatv2(whole, x, x[:M], w, w, s, 0)

    check(
        layer, formula, a, kind, normal(1, N, F), normal(2, F, H, D), normal(3, H, D), normal(4, H, D), weighted=False
    )


def test_sampled_neighbors():
    graph, x = graph_of(weights(N, N), "static"), normal(1, N, F)
    layer = jsparse.nnx.GATv2Conv(F, D, heads=H, share_weights=True, rngs=nnx.Rngs(0))
    seeds = jnp.array([3, 0])
    sample = jsparse.graph.sample_neighbors(jax.random.key(0), graph, seeds, N)  # all of them
    h = x.at[sample.nodes].get(mode="fill", fill_value=0)
    np.testing.assert_allclose(layer(sample.graph, (h, h[:2])), layer(graph, x)[seeds], rtol=1e-4, atol=1e-5)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("loops", [True, False])
@pytest.mark.parametrize("kind", ["static", "dynamic"])
def test_gat_with_features_of_edges(kind, loops):
    a = weights(N, N)
    count = (a != 0).sum()
    room = 5 if kind == "dynamic" else 0

    def layer(graph, x, w, s, t, f, k, e):
        f = jnp.concatenate([f, jnp.full((room, E), jnp.nan)])  # padding plays no part
        edges = EdgeAttention(f, k, e)
        return jsparse.nn.gat_conv(graph, x, w, s, t, edges=edges, self_loops=loops)

    def formula(_, x, w, s, t, f, k, e):
        scores = jnp.einsum("ijq,qhd,hd->ijh", spread(f, a, loops), k, e)
        return formulas.gat(LOOPS if loops else PLACES, x, x, w, w, s, t, 0, scores)

    kernels = normal(2, F, H, D), normal(3, H, D), normal(4, H, D)
    of_edges = normal(5, count, E), normal(6, E, H, D), normal(7, H, D)
    check(layer, formula, a, kind, normal(1, N, F), *kernels, *of_edges, weighted=False)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", KINDS)
def test_gatv2(kind):
    def layer(graph, x, w, v, a, b):
        return jsparse.nn.gatv2_conv(graph, x, w, v, a, b)

    def formula(_, x, w, v, a, b):
        return formulas.gatv2(LOOPS, x, x, w, v, a, b)

    parameters = normal(1, N, F), normal(2, F, H, D), normal(3, F, H, D), normal(4, H, D), normal(5, H * D)
    check(layer, formula, weights(N, N), kind, *parameters, weighted=False)


def test_gatv2_between_two_sets_with_features_of_edges():
    a = weights(N, M)

    def layer(graph, xs, xt, w, v, s, f, k):
        return jsparse.nn.gatv2_conv(
            graph, (xs, xt), w, v, s, edge_features=f, edge_kernel=k, self_loops=False, bias_source=jnp.ones((H, D))
        )

    def formula(_, xs, xt, w, v, s, f, k):
        ones = jnp.ones((M, 1))
        w, xs = jnp.concatenate([w, jnp.ones((1, H, D))]), jnp.concatenate([xs, ones], 1)
        edges = jnp.einsum("ije,ehd->ijhd", spread(f, a, False), k)
        return formulas.gatv2(a != 0, xs, xt, w, v, s, 0, edges)

    kernels = normal(3, F, H, D), normal(4, 3, H, D), normal(5, H, D), normal(6, (a != 0).sum(), E), normal(7, E, H, D)
    check(layer, formula, a, "static", normal(1, M, F), normal(2, N, 3), *kernels, weighted=False)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("gated", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_transformer(kind, gated):
    def layer(graph, x, wq, wk, wv, bq, bk, bv, r, c, g):
        projections = (Projection(wq, bq), Projection(wk, bk), Projection(wv, bv), Projection(r, c))
        return jsparse.nn.transformer_conv(graph, x, *projections, gate=g if gated else None)

    def formula(_, x, *rest):
        *rest, gate = rest
        return formulas.transformer(PLACES, x, x, *rest, gate if gated else None)

    kernels = [normal(n, F, H, D) for n in (2, 3, 4)] + [normal(n, H, D) for n in (5, 6, 7)]
    own = normal(8, F, H * D), normal(9, H * D), normal(10, 3 * H * D)
    check(layer, formula, weights(N, N), kind, normal(1, N, F), *kernels, *own, weighted=False)


def test_transformer_with_features_of_edges():
    a = weights(N, M)

    def layer(graph, xs, xt, wq, wk, wv, r, f, k):
        projections = map(Projection, (wq, wk, wv, r))
        return jsparse.nn.transformer_conv(graph, (xs, xt), *projections, edge_features=f, edge_kernel=k)

    def formula(_, xs, xt, wq, wk, wv, r, f, k):
        edges = jnp.einsum("ije,ehd->ijhd", spread(f, a, False), k)
        return formulas.transformer(a != 0, xs, xt, wq, wk, wv, 0, 0, 0, r, 0, edges=edges)

    kernels = normal(2, 3, H, D), normal(3, F, H, D), normal(4, F, H, D), normal(5, 3, H * D)
    of_edges = normal(6, (a != 0).sum(), E), normal(7, E, H, D)
    check(layer, formula, a, "static", normal(1, M, F), normal(2, N, 3), *kernels, *of_edges, weighted=False)


LAYERS = {
    "gat": lambda P, x, **rest: jsparse.nn.gat_conv(P, x, normal(2, F, H, D), normal(3, H, D), normal(4, H, D), **rest),
    "gatv2": lambda P, x, **rest: jsparse.nn.gatv2_conv(
        P, x, normal(2, F, H, D), normal(3, F, H, D), normal(4, H, D), **rest
    ),
    "transformer": lambda P, x, **rest: jsparse.nn.transformer_conv(
        P, x, *(Projection(normal(n, F, H, D)) for n in (2, 3, 4)), **rest
    ),
}


def operations(jaxpr):
    """The names of primitives, those in jitted functions included."""
    for equation in jaxpr.eqns:
        if equation.primitive.name in ("jit", "pjit"):
            yield from operations(equation.params["jaxpr"].jaxpr)
        else:
            yield equation.primitive.name


@pytest.mark.parametrize("name", LAYERS)
def test_each_layer_is_one_chain(name):
    P = graph_of(weights(N, N), "pattern")
    found = list(operations(jax.make_jaxpr(lambda x: LAYERS[name](P, x))(normal(1, N, F)).jaxpr))
    assert [operation for operation in found if operation.startswith("jsparse")] == ["jsparse_fused"]


@pytest.mark.parametrize("name", LAYERS)
def test_dropout_keeps_means(name):
    P = graph_of(weights(N, N), "pattern")
    x = normal(1, N, F)
    drawn = jax.jit(lambda key: LAYERS[name](P, x, dropout_rate=0.4, dropout_key=key))
    found = jax.vmap(drawn)(jax.random.split(jax.random.key(0), 3000))
    exact = np.asarray(LAYERS[name](P, x))
    assert np.abs(np.asarray(found[0]) - exact).max() > 0.05
    np.testing.assert_allclose(found.mean(0), exact, atol=6 * np.asarray(found).std(0).max() / 3000**0.5)


@pytest.mark.parametrize("name", LAYERS)
def test_narrow_floats(name):
    P = graph_of(weights(N, N), "pattern")
    x = normal(1, N, F)
    found = LAYERS[name](P, x.astype(jnp.bfloat16))
    np.testing.assert_allclose(np.asarray(found, np.float32), LAYERS[name](P, x), rtol=0.05, atol=0.1)
