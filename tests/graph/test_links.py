"""Edges divided into parts, and batches of edges, beside sets of edges."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from graph.made import adjacency, dense

import jsparse
from jsparse import graph

KEY = jax.random.key(0)


def listed(pairs):
    return list(zip(*np.asarray(pairs).tolist(), strict=True))


def edges_of(A):
    target, source, *_ = A.to_coords()[0] if isinstance(A, jsparse.SparseTensor) else A.to_coords()
    return listed([source, target])


def labelled(part):
    """The edges of a part and its pairs without an edge, apart."""
    pairs, labels = listed(part.edge_label_index), np.asarray(part.edge_label)
    count = int(labels.sum())
    np.testing.assert_array_equal(labels, np.arange(len(labels)) < count)
    return pairs[:count], pairs[count:]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("columns", [None, 8])
@pytest.mark.parametrize(
    "options",
    [{}, {"num_val": 5, "num_test": 0}, {"disjoint_train_ratio": 0.3, "neg_sampling_ratio": 0.5}, {"num_val": 0.25}],
)
def test_directed_split(options, columns):
    a = adjacency(nodes=14, density=0.35, columns=columns)
    A, count = jsparse.asarray(a), np.count_nonzero(a)
    parts = graph.random_link_split(KEY, A, **options)
    share = lambda given, whole: int(given * whole) if isinstance(given, float) else given  # noqa: E731
    val, test = share(options.get("num_val", 0.1), count), share(options.get("num_test", 0.2), count)
    disjoint = share(options.get("disjoint_train_ratio", 0.0), count - val - test)
    given, negatives = zip(*map(labelled, parts), strict=True)
    assert list(map(len, given)) == [disjoint or count - val - test, val, test]
    ratio = options.get("neg_sampling_ratio", 1.0)
    assert list(map(len, negatives)) == [int(len(part) * ratio) for part in given]
    train = set(edges_of(parts[0].graph)) | set(given[0])
    assert len(train) + val + test == count
    assert train | set(given[1]) | set(given[2]) == set(edges_of(A))
    assert set(edges_of(parts[0].graph)) == train - (set(given[0]) if disjoint else set())
    assert set(edges_of(parts[1].graph)) == train
    assert set(edges_of(parts[2].graph)) == train | set(given[1])
    whole = [pair for part in negatives for pair in part]
    assert len(set(whole)) == len(whole)
    assert not set(whole) & set(edges_of(A))
    for part in parts:
        found = dense(part.graph)
        np.testing.assert_array_equal(found, np.where(found != 0, a, 0))


def test_undirected_split():
    a = adjacency(nodes=14, density=0.2)
    a = a + a.T
    A = jsparse.asarray(a)
    parts = graph.random_link_split(KEY, A.pattern, is_undirected=True)
    given, negatives = zip(*map(labelled, parts), strict=True)
    upper = {pair for pair in edges_of(A) if pair[0] <= pair[1]}
    assert set(given[0]) | set(given[1]) | set(given[2]) == upper
    assert sum(map(len, given)) == len(upper)
    for part, own in zip(parts, (given[0], given[0], given[0] + given[1]), strict=True):
        assert not isinstance(part.graph, jsparse.SparseTensor)
        assert set(edges_of(part.graph)) == set(own) | {pair[::-1] for pair in own}
    whole = [pair for part in negatives for pair in part]
    assert len(set(whole)) == len(whole) == len(upper)
    assert all(source < target for source, target in whole)
    assert not set(whole) & upper


def test_split_of_repeated_edges():
    rng = np.random.default_rng(0)
    source, target = rng.integers(0, 6, (2, 50))
    A = graph.from_edges(source, target, nodes=30, duplicates="keep")
    parts = graph.random_link_split(KEY, A, add_negative_train_samples=False)  # 50 edges: 35, 5 and 10
    numbers = [set(np.asarray(part.graph.coords[2]).tolist()) for part in parts]
    assert (len(numbers[0]), len(numbers[2])) == (35, 40)
    assert numbers[0] == numbers[1] < numbers[2]
    for part, (own, without) in zip(parts, map(labelled, parts), strict=True):
        assert len(without) == (0 if part is parts[0] else len(own))
        assert set(own) <= set(listed([source, target]))


def test_samples():
    a = adjacency(nodes=20, density=0.3)
    A = jsparse.asarray(a).dynamic()
    edges = np.array([[3, 1, 3, 20, 7], [0, 1, 2, 4, -1]])
    labels = np.array([2, 3, 4, 5, 6], np.int32)
    call = lambda A, edges: graph.sample_links(KEY, A, edges, [4, 25], num_neg_samples=7, edge_label=labels)  # noqa: E731
    found = jax.jit(call)(A, edges)
    np.testing.assert_array_equal(found.edge_mask, [True] * 3 + [False] * 2 + [True] * 7)
    np.testing.assert_array_equal(found.edge_label, [2, 3, 4] + [0] * 9)
    seeds = np.asarray(found.layers[0].nodes)[: found.layers[0].graph.shape[0]]
    used = seeds[seeds < 20]
    assert len(set(used)) == len(used)
    pairs = seeds[np.asarray(found.edge_label_index)]
    np.testing.assert_array_equal(pairs[:, :3], edges[:, :3])
    source, target = pairs[:, 5:]
    assert not a[target, source].any()
    assert found.layers[1].graph.shape == (len(found.layers[0].nodes), len(found.nodes))
    np.testing.assert_array_equal(found.nodes[: len(found.layers[0].nodes)], found.layers[0].nodes)
    inner = dense(found.layers[1].graph)[: len(used)]  # room for all neighbours
    rows = np.zeros((len(used), 20), np.float32)
    np.add.at(rows, (slice(None), np.asarray(found.nodes)[inner.any(0)]), inner[:, inner.any(0)])
    np.testing.assert_array_equal(rows, a[used])


def test_batches_have_one_shape_and_all_edges():
    a = adjacency(nodes=20, density=0.3)
    A = jsparse.asarray(a)
    edges = np.array(edges_of(A)).T
    traces = []

    @jax.jit
    def step(sample):
        traces.append(1)
        h = jnp.ones((20, 3)).at[sample.nodes].get(mode="fill", fill_value=0)
        for layer in reversed(sample.layers):
            h = graph.normalize(layer.graph, "row") @ h + h[: layer.graph.shape[0]]
        source, target = sample.edge_label_index
        return jnp.where(sample.edge_mask, (h[source] * h[target]).sum(1), 0).sum()

    for given in (A, A.dynamic()):
        seen, negatives, total = [], [], 0
        for sample in graph.link_batches(KEY, given, edges, [3, 2], 16, neg_sampling_ratio=0.5):
            seeds = np.asarray(sample.layers[0].nodes)[: sample.layers[0].graph.shape[0]]
            pairs = seeds[np.asarray(sample.edge_label_index)]
            mask, label = np.asarray(sample.edge_mask), np.asarray(sample.edge_label)
            assert label.shape == (24,)
            seen += listed(pairs[:, mask & (label == 1)])
            negatives += listed(pairs[:, mask & (label == 0)])
            assert np.isfinite(step(sample))
            total += 1
        assert sorted(seen) == sorted(listed(edges))
        assert total == -(-len(seen) // 16)
        assert len(negatives) == 8 * total
        assert not set(negatives) & set(seen)
    assert len(traces) == 1


def test_batches_of_labels_and_orders():
    A = jsparse.asarray(adjacency(nodes=20, density=0.3))
    edges = np.array(edges_of(A)).T[:, :10]
    found = list(graph.link_batches(KEY, A.pattern, edges, [2], 4, edge_label=np.arange(10), shuffle=False))
    np.testing.assert_array_equal(np.concatenate([one.edge_label for one in found]), [*range(10), 0, 0])
    np.testing.assert_array_equal(found[2].edge_mask, [True, True, False, False])
    assert len(list(graph.link_batches(KEY, A, edges, [2], 4, drop_last=True))) == 2
    assert not list(graph.link_batches(KEY, A, edges[:, :0], [2], 4))
    one, other = (next(graph.link_batches(key, A, edges, [2], 4)) for key in jax.random.split(KEY))
    assert not np.array_equal(one.edge_label_index, other.edge_label_index)
