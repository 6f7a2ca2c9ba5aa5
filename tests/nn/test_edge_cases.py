"""Integers as features, padding, graphs without edges, and dtypes: what layers compute at the ends of their range."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from nn import formulas
from nn.graphs import normal, weights

import jsparse
import jsparse.linen
import jsparse.nnx
from jsparse import nn
from jsparse.nn import Projection

N, F, H, D = 9, 3, 2, 3
ARRAY = weights(N, N)
GRAPH = jsparse.asarray(ARRAY)
LOOPLESS = jsparse.asarray(np.where(np.eye(N), 0, ARRAY).astype(np.float32))
INTEGERS = np.arange(N * F).reshape(N, F) % 4
KERNELS = normal(1, F, H, D), normal(2, H, D), normal(3, H, D)
CALLS = {
    "gcn": lambda g, x: nn.gcn_conv(g, x, normal(1, F, 4)),
    "a narrow gcn": lambda g, x: nn.gcn_conv(g, x, normal(1, F, 2)),
    "sage": lambda g, x: nn.sage_conv(g, x, normal(1, F, 4), normal(2, F, 4)),
    "gin": lambda g, x: nn.gin_conv(g, x, lambda x: x, 0.5),
    "edge": lambda g, x: nn.edge_conv(g, x, lambda x: x),
    "rgcn": lambda g, x: nn.rgcn_conv(jsparse.stack([g, g]), x, normal(1, 2, F, 4)),
    "gat": lambda g, x: nn.gat_conv(g, x, *KERNELS),
    **{of: lambda g, x, of=of: nn.aggregate(g, x, of) for of in ("sum", "mean", "max", "min", "std")},
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", [int, bool])
@pytest.mark.parametrize("name", CALLS)
def test_integers_as_features_are_numbers(name, dtype):
    x = INTEGERS.astype(dtype)
    np.testing.assert_allclose(CALLS[name](GRAPH, x), CALLS[name](GRAPH, x.astype(np.float32)), rtol=1e-6)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("format", ["csr", "csc", "coo"])
@pytest.mark.parametrize("reduction", ["max", "mean", "sum"])
def test_edge_convolutions_of_all_formats(reduction, format, dynamic):
    graph = jsparse.asarray(ARRAY, format=format)
    x = normal(4, N, F)
    found = nn.edge_conv(graph.dynamic(graph.nse + 2) if dynamic else graph, x, jnp.tanh, reduction=reduction)
    assert isinstance(found, jax.Array)
    np.testing.assert_allclose(found, formulas.edge_conv(ARRAY != 0, x, x, jnp.tanh, reduction), rtol=1e-5, atol=1e-6)


def distances(both, kernel):
    """Logarithms of distances, infinite at an edge from a node to itself."""
    return jnp.log(jnp.linalg.norm(both[:, F:] @ kernel, axis=1, keepdims=True))


def reducing(reduction):
    return lambda g, x, w: nn.edge_conv(g, x, lambda both: distances(both, w[:F, :F]), reduction=reduction)


def biased(g, x, w):
    table = w * np.float32([1, 1, 0, 1, 1])  # its logarithm is infinite in the column of an edge from a node to itself
    return jsparse.sparse_attention(x, x, x, g.pattern, bias=jnp.log(nn.relative_bias(table, g)[0]))


FEATURES = normal(6, LOOPLESS.nse, 2)
OF_EDGES = {
    **{f"edge_conv, {reduction}": reducing(reduction) for reduction in ("max", "mean", "sum")},
    "relative_bias": biased,
    "attention": lambda g, x, w: jsparse.sparse_attention(x, x, x, g.pattern, bias=of_edges(g)[:, 0] + w[0, 0]),
    "gatv2": lambda g, x, w: nn.gatv2_conv(
        g, x, *KERNELS[:1] * 2, w[:H, :D], edge_features=of_edges(g), edge_kernel=KERNELS[0][:2]
    ),
}


def of_edges(graph):
    """Features of edges, NaN in padding."""
    return jnp.pad(FEATURES, ((0, graph.nse - len(FEATURES)), (0, 0)), constant_values=jnp.nan)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", OF_EDGES)
def test_padding_is_no_edge(name):
    def found(graph):
        function = lambda x, w: OF_EDGES[name](graph, x, w)  # noqa: E731
        out, pull = jax.vjp(function, normal(4, N, F), 1 + abs(normal(5, N, 5)))
        return out, *pull(jnp.ones_like(out))

    want = jax.jit(found)(LOOPLESS)
    padded = jax.jit(found)
    for graph in (LOOPLESS.dynamic(LOOPLESS.nse + 3), LOOPLESS.asformat("coo").dynamic(LOOPLESS.nse + 3)):
        for got, exact in zip(padded(graph), want, strict=True):
            assert np.isfinite(exact).all()
            np.testing.assert_allclose(got, exact, rtol=1e-4, atol=1e-5)


def test_edge_convolutions_of_padding_alone():
    for size in (0, 3):
        graph = jsparse.asarray(np.zeros((N, N), np.float32)).dynamic(size)
        function = lambda x, w: nn.edge_conv(graph, x, lambda both: distances(both, w)).sum()  # noqa: B023, E731
        slopes = jax.jit(jax.grad(function, (0, 1)))(normal(4, N, F), normal(5, F, F))
        assert all(np.array_equal(slope, np.zeros_like(slope)) for slope in slopes)


def test_padding_of_attention_pooling_has_no_slope():
    x, scores = normal(1, 6, 2), jnp.array([1.0, 2.0, -jnp.inf, 100.0, 0.0, -jnp.inf])
    graph_of, size = jnp.array([0, 0, 1, 3, 3, 1]), 3  # graph 1 has no finite score, graph 2 no node; 3 is padding
    slopes = jax.grad(lambda *a: (nn.attention_pool(*a, graph_of, size) ** 2).sum(), (0, 1))(x, scores)
    assert all(np.isfinite(slope).all() for slope in slopes)
    assert not np.any(slopes[0][3:5])
    assert np.any(slopes[0][:2])
    np.testing.assert_array_equal(nn.attention_pool(x, scores, graph_of, size)[1:], 0)


EMPTY = jsparse.graph.from_edges([], [], nodes=5)
EDGES = {"edge_features": jnp.ones((0, 2)), "edge_kernel": jnp.ones((2, H, D))}
WITHOUT_EDGES = {
    "gat": lambda x: nn.gat_conv(EMPTY, x, *KERNELS, self_loops=False),
    "gatv2": lambda x: nn.gatv2_conv(EMPTY, x, KERNELS[0], KERNELS[0], KERNELS[1], self_loops=False, **EDGES),
    "transformer": lambda x: nn.transformer_conv(EMPTY, x, *(Projection(KERNELS[0]),) * 3, **EDGES),
    "edge": lambda x: nn.edge_conv(EMPTY, x, jnp.tanh),
    "std": lambda x: nn.aggregate(EMPTY, x, "std"),
}


@pytest.mark.parametrize("name", WITHOUT_EDGES)
def test_graphs_without_edges(name):
    np.testing.assert_array_equal(WITHOUT_EDGES[name](normal(1, 5, F)), 0)


def test_graphs_without_nodes():
    none = jsparse.zeros((0, 0))
    for name in ("GATConv", "GATv2Conv", "TransformerConv", "GCNConv"):
        layer = getattr(jsparse.nnx, name)(4, 3, rngs=nnx.Rngs(0))
        assert layer(none, jnp.ones((0, 4))).shape == (0, 3)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("wide", [False, True])
def test_ids_of_every_width(dtype, wide):
    """Numbers far out of range do not wrap into it, and more rows than an int8 counts can be named."""
    most = int(np.iinfo(dtype).max)
    numbers = [0, min(2**32 + 1, most), 2, most]
    ids, inside = np.array(numbers, dtype), np.array([number < 200 for number in numbers])
    rows = np.where(inside, [min(number, 199) for number in numbers], 0)
    x, want = np.arange(1.0, 5)[:, None], np.zeros((200, 1))
    np.add.at(want, rows[inside], x[inside])
    with jax.enable_x64(wide):
        np.testing.assert_allclose(nn.pool(x, ids, 200), want)
        ones = nn.attention_pool(np.ones((4, 1)), np.zeros(4), ids, 200)
        np.testing.assert_allclose(ones, want > 0)
        np.testing.assert_allclose(nn.embedding_bag(np.arange(200.0)[:, None], ids[:, None])[:, 0], rows)
        routing = nn.Routing(ids[:, None], np.ones((4, 1)))
        found = nn.mixture_of_experts(x, routing, np.ones((200, 1, 1)), np.ones((200, 1, 1)), lambda h: h)
        np.testing.assert_allclose(found, np.where(inside[:, None], x, 0))


def test_standard_deviations_far_from_zero_and_near_it():
    ones = jsparse.asarray(np.ones((4, 50), np.float32))
    x = np.random.default_rng(0).normal(size=(50, 2)).astype(np.float32)
    for given in (1e4 + x, 3e-3 * x):
        found = nn.aggregate(ones, given, "std")
        np.testing.assert_allclose(found, np.broadcast_to(given.std(0), (4, 2)), rtol=2e-3)
    constant = nn.aggregate(ones.astype(jnp.bfloat16), jnp.full((50, 2), 3, jnp.bfloat16), "std")
    assert constant.dtype == jnp.bfloat16
    np.testing.assert_array_equal(constant, 0)
    slopes = jax.grad(lambda x: nn.aggregate(ones, x, "std").sum())(jnp.ones((50, 2)))
    np.testing.assert_array_equal(slopes, 0)


def test_double_precision_of_patterns():
    with jax.enable_x64(True):
        x = jnp.asarray(np.random.default_rng(1).normal(size=(N, F)))
        ones = jsparse.asarray((ARRAY != 0).astype(np.float64))
        for call in (CALLS["gcn"], lambda g, x: nn.rgcn_conv(stacked(g), x, jnp.ones((2, F, 4)))):
            np.testing.assert_allclose(call(ones.pattern, x), call(ones, x), rtol=1e-13, atol=1e-14)


def stacked(graph):
    """Two relations with the same edges."""
    if isinstance(graph, jsparse.SparseTensor):
        return jsparse.stack([graph, graph])
    return stacked(jsparse.SparseTensor(jnp.ones(graph.nse), graph)).pattern


@pytest.mark.parametrize("name", ["GCNConv", "SAGEConv", "GATConv"])
def test_a_layer_computes_in_its_dtype_whatever_the_weights(name):
    layer = getattr(jsparse.nnx, name)(F, 4, dtype=jnp.bfloat16, rngs=nnx.Rngs(0))
    other = getattr(jsparse.linen, name)(4, dtype=jnp.bfloat16)
    x = normal(1, N, F)
    assert layer(GRAPH, x).dtype == jnp.bfloat16
    assert other.apply(other.init(jax.random.key(0), GRAPH, x), GRAPH, x).dtype == jnp.bfloat16


def test_grouped_queries_with_a_pattern_for_each_head():
    masks = np.random.default_rng(2).random((4, 6, 6)) < 0.5
    q, k, v = normal(1, 4, 6, 3), normal(2, 2, 6, 3), normal(3, 2, 6, 3)

    def dense(q, k, v):
        k, v = jnp.repeat(k, 2, axis=0), jnp.repeat(v, 2, axis=0)
        scores = jnp.einsum("hid,hjd->hij", q, k) / np.sqrt(3)
        powers = jnp.where(masks, jnp.exp(scores), 0)
        sums = powers.sum(-1, keepdims=True)
        return (powers / jnp.where(sums == 0, 1, sums)) @ v

    pattern = jsparse.asarray(masks.astype(np.float32)).pattern
    ours = lambda *x: jsparse.sparse_attention(*x, pattern)  # noqa: E731
    np.testing.assert_allclose(ours(q, k, v), dense(q, k, v), rtol=1e-5, atol=1e-6)
    for mine, exact in zip(
        *(jax.grad(lambda *x, f=f: (f(*x) ** 2).sum(), (0, 1, 2))(q, k, v) for f in (ours, dense)), strict=True
    ):
        np.testing.assert_allclose(mine, exact, rtol=1e-4, atol=1e-5)
