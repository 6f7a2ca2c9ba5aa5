"""Batches beside scipy's block diagonal matrices, at fixed capacities."""

import jax
import numpy as np
import pytest
import scipy.linalg
from graph.made import adjacency, dense

import jsparse
from jsparse import graph

SIZES = (6, 9, 0, 1, 7)


def graphs(sizes=SIZES):
    return [adjacency(seed, size) if size > 5 else np.ones((size, size), np.float32) for seed, size in enumerate(sizes)]


def tensors(sizes=SIZES):
    return [jsparse.asarray(a) for a in graphs(sizes)]


def padded(nodes, sizes=SIZES):
    whole = np.zeros((nodes, nodes), np.float32)
    block = scipy.linalg.block_diag(*graphs(sizes))
    whole[: len(block), : len(block)] = block
    return whole


@pytest.mark.parametrize("nodes, nse, size", [(None, None, None), (40, 100, 8)])
def test_batch(nodes, nse, size):
    found = graph.batch(tensors(), nodes=nodes, nse=nse, size=size)
    count = nodes or sum(SIZES)
    entries = sum(np.count_nonzero(a) for a in graphs())
    assert (found.graph.shape, found.graph.nse) == ((count, count), nse or entries)
    assert (found.graph.is_dynamic, found.graph.format.name, found.size) == (True, "csr", size or len(SIZES))
    assert int(found.graph.nnz) == entries
    np.testing.assert_array_equal(dense(found.graph), padded(count))
    want = [*np.repeat(range(5), SIZES), *[found.size] * (count - sum(SIZES))]
    np.testing.assert_array_equal(found.graph_of, want)
    np.testing.assert_array_equal(found.starts, [0, 6, 15, 15, 16, 23, *[23] * (found.size - 5)])
    assert found.graph_of.dtype == found.starts.dtype == np.int32


def test_one_program_serves_all_batches():
    traced = 0

    @jax.jit
    def pooled(batch, x):
        nonlocal traced
        traced += 1
        return jax.ops.segment_sum(batch.graph @ x, batch.graph_of, num_segments=batch.size)

    for sizes in ((6, 9), (7, 1, 8), (12,)):
        x = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
        batch = graph.batch(tensors(sizes), nodes=20, nse=70, size=4)
        found, start = np.asarray(pooled(batch, x)), 0
        for n, a in enumerate(graphs(sizes)):
            np.testing.assert_allclose(found[n], (a @ x[start : start + len(a)]).sum(0), rtol=1e-4, atol=1e-5)
            start += len(a)
        assert not found[len(sizes) :].any()
    assert traced == 1


def test_unbatch():
    for size in (None, 7):
        found = graph.unbatch(graph.batch(tensors(), nodes=30, nse=90, size=size))
        assert len(found) == (size or 5)
        for A, a in zip(found, [*graphs(), *[np.zeros((0, 0))] * 2], strict=False):
            assert not A.is_dynamic
            assert (A.shape, A.nse) == (a.shape, np.count_nonzero(a))
            np.testing.assert_array_equal(A.todense(), a)


def test_unbatch_drops_edges_between_graphs():
    a = np.arange(1.0, 37, dtype=np.float32).reshape(6, 6)
    whole = graph.GraphBatch(jsparse.asarray(a, "csc"), None, np.array([0, 2, 2, 5], np.int32))
    for found in (graph.unbatch(whole), graph.unbatch(whole._replace(graph=whole.graph.dynamic(nse=40)))):
        for A, (start, end) in zip(found, [(0, 2), (2, 2), (2, 5)], strict=True):
            assert A.format.name == "csr"
            np.testing.assert_array_equal(A.todense(), a[start:end, start:end])


def test_gradients_of_unbatch():
    batch = graph.batch(tensors((6, 9)), nodes=20, nse=70)

    def loss(values):
        first, second = graph.unbatch(batch._replace(graph=batch.graph.with_values(values)))
        return 2 * first.values.sum() + 3 * second.values.sum()

    first, second = tensors((6, 9))
    want = [*first.nse * [2], *second.nse * [3]]
    np.testing.assert_array_equal(jax.grad(loss)(batch.graph.values)[: len(want)], want)


def test_patterns():
    found = graph.batch([A.pattern for A in tensors()], nodes=30)
    np.testing.assert_array_equal(dense(found.graph.to_static()), padded(30) != 0)
    for P, A in zip(graph.unbatch(found), tensors(), strict=True):
        assert A.pattern == P
    mixed = graph.batch([tensors()[0].pattern, tensors()[1]])
    want = scipy.linalg.block_diag(graphs()[0] != 0, graphs()[1])
    np.testing.assert_array_equal(dense(mixed.graph), want)


def test_dynamic_graphs_in_programs():
    @jax.jit
    def made(first, second):
        return graph.batch([first, second], nodes=20, nse=60)

    A, B = tensors((6, 9))
    found = made(A.dynamic(A.nse + 3), B)
    np.testing.assert_array_equal(dense(found.graph), padded(20, (6, 9)))
    small = jax.jit(lambda A: graph.batch([A], nse=4).graph)(A.dynamic())
    assert bool(small.overflowed)
    assert np.isnan(small.values).all()


WRITES, CITES = ("author", "writes", "paper"), ("paper", "cites", "paper")


def heterogeneous(seed, papers, authors):
    """Dense matrices of two relations."""
    rng = np.random.default_rng(seed)
    return {
        name: np.where(rng.random(shape) < 0.5, rng.uniform(0.5, 2, shape), 0).astype(np.float32)
        for name, shape in ((WRITES, (papers, authors)), (CITES, (papers, papers)))
    }


@pytest.mark.parametrize("kind", ["static", "pattern", "jit"])
def test_heterogeneous_graphs(kind):
    arrays = [heterogeneous(0, 6, 3), heterogeneous(1, 4, 7), heterogeneous(2, 1, 0)]
    tensors = [{name: jsparse.asarray(a, format="csr") for name, a in one.items()} for one in arrays]
    given = [{name: A.pattern for name, A in one.items()} for one in tensors] if kind == "pattern" else tensors

    def made(graphs):
        return graph.hetero_batch(graphs, nodes={"paper": 15}, nse={WRITES: 60}, size=4)

    found = jax.jit(made)(given) if kind == "jit" else made(given)
    assert found.size == 4
    assert (found.graph[WRITES].shape, found.graph[CITES].shape) == ((15, 10), (15, 15))
    assert found.graph[WRITES].nse == 60
    np.testing.assert_array_equal(found.graph_of["paper"], [0] * 6 + [1] * 4 + [2] + [4] * 4)
    np.testing.assert_array_equal(found.graph_of["author"], [0] * 3 + [1] * 7)
    np.testing.assert_array_equal(found.starts["author"], [0, 3, 10, 10, 10])
    for name, columns in ((WRITES, (0, 3, 10, 10)), (CITES, (0, 6, 10, 11))):
        want = np.zeros(found.graph[name].shape, np.float32)
        for n, one in enumerate(arrays):
            start = (0, 6, 10)[n]
            want[start : start + len(one[name]), columns[n] : columns[n + 1]] = one[name]
        np.testing.assert_array_equal(dense(found.graph[name]), want != 0 if kind == "pattern" else want)
