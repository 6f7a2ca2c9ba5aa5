"""Repeated edges: what each family of layers makes of them, beside sums over the list of edges."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from nn.graphs import normal

import jsparse
from jsparse import graph, nn
from jsparse.nn import EdgeAttention, Projection

N, F, H, D, E = 6, 4, 2, 3, 5
SOURCE, TARGET = np.array([[0, 0, 1, 0, 2, 2, 3, 4, 4, 4, 2], [1, 1, 2, 1, 2, 2, 2, 0, 0, 1, 3]])  # node 5 is alone
X, FEATURES = normal(1, N, F), normal(2, len(SOURCE), E)
SUMMED = graph.from_edge_index(np.stack([SOURCE, TARGET]), nodes=N)
KEPT = graph.from_edge_index(np.stack([SOURCE, TARGET]), nodes=N, duplicates="keep")
GRAPHS = {"sum": SUMMED, "keep": KEPT, "keep, pattern": KEPT.pattern, "keep, dynamic": KEPT.dynamic(KEPT.nse + 3)}


def sums(messages, target=TARGET):
    return jax.ops.segment_sum(messages, target, N)


def mean(messages, target=TARGET):
    count = np.bincount(target, minlength=N).reshape(-1, *[1] * (messages.ndim - 1))
    return sums(messages, target) / np.maximum(count, 1)


def most(messages):
    return jnp.where(np.bincount(TARGET, minlength=N)[:, None] > 0, jax.ops.segment_max(messages, TARGET, N), 0)


def with_loops(features):
    """The edges without self-loops, then one for each node, whose features are a mean."""
    others = SOURCE != TARGET
    ends = (np.append(end[others], np.arange(N)) for end in (SOURCE, TARGET))
    return *ends, jnp.concatenate([features[others], mean(features[others], TARGET[others])])


def attended(scores, values, target):
    """Sums of values (edges, heads, dim), weighted by a softmax of scores (edges, heads) over the edges of a target."""
    powers = jnp.exp(scores)
    weights = powers / sums(powers, target)[target]
    return sums(weights[:, :, None] * values, target).reshape(N, -1)


def std(x):
    return jnp.sqrt(mean((x[SOURCE] - mean(x[SOURCE])[TARGET]) ** 2))


def gcn(x, w):
    degree = np.bincount(TARGET, minlength=N) + 1.0
    scale = 1 / jnp.sqrt(degree)[:, None]
    return scale * (sums((scale * x)[SOURCE]) + scale * x) @ w


W, V, VECTORS = normal(3, F, 3), normal(4, F, H, D), (normal(5, H, D), normal(6, H, D))
ROOT, KINDS = normal(7, F, 3), np.arange(len(SOURCE)) % 2
PARTS = [(np.flatnonzero(KINDS == 0), W), (np.flatnonzero(KINDS == 1), ROOT)]
RELATIONS = jsparse.SparseTensor.from_coords(np.stack([KINDS, TARGET, SOURCE]), 1.0, (2, N, N), "csf")
LINEAR = {
    "sum": (lambda g: nn.aggregate(g, X), lambda: sums(X[SOURCE])),
    "mean": (lambda g: nn.aggregate(g, X, "mean"), lambda: mean(X[SOURCE])),
    "std": (lambda g: nn.aggregate(g, X, "std"), lambda: std(X)),
    "sage": (lambda g: nn.sage_conv(g, X, W, ROOT), lambda: mean(X[SOURCE]) @ W + X @ ROOT),
    "gin": (lambda g: nn.gin_conv(g, X, jnp.tanh, 0.5), lambda: jnp.tanh(1.5 * X + sums(X[SOURCE]))),
    "gcn": (lambda g: nn.gcn_conv(g, X, W), lambda: gcn(X, W)),
    "normalize": (lambda g: graph.normalize(total(g), "row") @ X, lambda: mean(X[SOURCE])),
    "rgcn": (
        lambda g: nn.rgcn_conv(RELATIONS, X, jnp.stack([W, ROOT])),
        lambda: sum(mean(X[SOURCE[of]], TARGET[of]) @ w for of, w in PARTS),
    ),
}


def total(g):
    g = g if isinstance(g, jsparse.SparseTensor) else jsparse.SparseTensor(jnp.ones(g.nse), g)
    return g.sum(2) if g.ndim == 3 else g


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", GRAPHS)
def test_a_sum_counts_each_edge_and_a_mean_divides_by_their_number(kind):
    for name, (layer, formula) in LINEAR.items():
        np.testing.assert_allclose(layer(GRAPHS[kind]), formula(), rtol=1e-4, atol=1e-5, err_msg=name)


def test_weights_are_those_of_a_mean():
    a = np.array([[0, 1, 3], [0, 0, 0], [2, -2, 0]], np.float32)
    x = np.array([[1.0], [2.0], [10.0]], np.float32)
    for found in (nn.aggregate(jsparse.asarray(a), x, "mean"), graph.normalize(jsparse.asarray(a), "row") @ x):
        np.testing.assert_allclose(found, [[8], [0], [0]])
    assert np.isnan(nn.aggregate(jsparse.asarray([[3.0, -1.0]]), x[:2], "std"))
    ids, of_bags = jnp.array([[1, 2, -1], [0, 1, 7]]), jnp.array([[1.0, 3, 5], [2, -2, 1]])
    bags = nn.embedding_bag(x, ids, of_bags, reduction="mean")
    np.testing.assert_allclose(bags, [[8], [0]])


@pytest.mark.parametrize("kind", ["keep", "keep, dynamic"])
def test_kept_edges_reach_a_node_one_by_one(kind):
    both = jnp.tanh(jnp.concatenate([X[TARGET], X[SOURCE] - X[TARGET]], 1))
    for reduction, formula in (("sum", sums), ("mean", mean), ("max", most)):
        found = nn.edge_conv(GRAPHS[kind], X, jnp.tanh, reduction=reduction)
        np.testing.assert_allclose(found, formula(both), rtol=1e-5, atol=1e-6)
        if reduction != "mean":
            np.testing.assert_allclose(nn.aggregate(GRAPHS[kind], X, reduction), formula(X[SOURCE]), rtol=1e-5)


def gat(features, k):
    source, target, features = with_loops(features)
    sent = jnp.einsum("nf,fhd->nhd", X, V)
    scores = (sent * VECTORS[0]).sum(2)[source] + (sent * VECTORS[1]).sum(2)[target]
    scores = scores + jnp.einsum("pe,ehd,hd->ph", features, k, VECTORS[0])
    return attended(jax.nn.leaky_relu(scores, 0.2), sent[source], target)


def gatv2(features, k):
    source, target, features = with_loops(features)
    sent = jnp.einsum("nf,fhd->nhd", X, V)
    both = jax.nn.leaky_relu(sent[source] + 2 * sent[target] + jnp.einsum("pe,ehd->phd", features, k), 0.2)
    return attended((both * VECTORS[0]).sum(2), sent[source], target)


def transformer(features, k):
    q = jnp.einsum("nf,fhd->nhd", X, V)
    sent = q[SOURCE] + jnp.einsum("pe,ehd->phd", features, k)
    return attended((q[TARGET] * sent).sum(2) / np.sqrt(D), sent, TARGET)


ATTENTION = {
    "gat": (
        lambda g, f, k: nn.gat_conv(g, X, V, *VECTORS, edges=EdgeAttention(f, k, VECTORS[0])),
        gat,
    ),
    "gatv2": (
        lambda g, f, k: nn.gatv2_conv(g, X, V, 2 * V, VECTORS[0], edge_features=f, edge_kernel=k),
        gatv2,
    ),
    "transformer": (
        lambda g, f, k: nn.transformer_conv(g, X, *[Projection(V)] * 3, edge_features=f, edge_kernel=k),
        transformer,
    ),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["keep, pattern", "keep, dynamic"])
@pytest.mark.parametrize("name", ATTENTION)
def test_attention_scores_each_kept_edge_by_its_features(name, kind):
    layer, formula = ATTENTION[name]
    g, k, towards = GRAPHS[kind], normal(8, E, H, D), normal(9, N, H * D)

    def ours(features, k):
        order = jsparse.SparseTensor(jnp.ones(g.nse), g).coords[2] if kind == "keep, pattern" else g.coords[2]
        return (layer(g, features.at[order].get(mode="fill", fill_value=jnp.nan), k) * towards).sum()

    found, slopes = jax.jit(jax.value_and_grad(ours, (0, 1)))(FEATURES, k)
    expected, exact = jax.value_and_grad(lambda f, k: (formula(f, k) * towards).sum(), (0, 1))(FEATURES, k)
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    for mine, other in zip(slopes, exact, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-3, atol=1e-4)


def test_summed_edges_are_attended_to_once():
    once = graph.from_edges(*np.unique(np.stack([SOURCE, TARGET]), axis=1), nodes=N)
    for layer in (lambda g: nn.gat_conv(g, X, V, *VECTORS), lambda g: nn.edge_conv(g, X, jnp.tanh, reduction="mean")):
        np.testing.assert_allclose(layer(SUMMED), layer(once), rtol=1e-6)
