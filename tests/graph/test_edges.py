"""Edges in, edges out, beside loops over the edges."""

import jax
import numpy as np
import pytest
import scipy.sparse
from graph.made import adjacency, dense, variants

import jsparse
from jsparse import graph

SOURCE, TARGET = np.array([0, 3, 3, 1, 0, 2]), np.array([1, 2, 0, 1, 1, 3])
WEIGHTS = np.array([1, 2, 4, 8, 16, 32], np.float32)


def summed(shape=(4, 4), weights=WEIGHTS):
    a = np.zeros(shape, np.float32)
    for source, target, weight in zip(SOURCE, TARGET, weights, strict=True):
        a[target, source] += weight
    return a


@pytest.mark.parametrize("format", ["csr", "csc", "coo"])
def test_from_edges(format):
    A = graph.from_edges(SOURCE, TARGET, WEIGHTS, nodes=4, format=format)
    assert (A.format.name, A.dtype, A.nse, A.is_dynamic) == (format, np.float32, 5, False)
    np.testing.assert_array_equal(A.todense(), summed())


def test_weights():
    ones = graph.from_edges(SOURCE.tolist(), TARGET.tolist(), nodes=4)
    assert ones.dtype == np.float32
    np.testing.assert_array_equal(ones.todense(), summed(weights=np.ones(6)))
    twos = graph.from_edges(SOURCE, TARGET, 2, nodes=4)
    assert twos.dtype == np.int32
    np.testing.assert_array_equal(twos.todense(), summed(weights=2 * np.ones(6)))


def test_bipartite():
    np.testing.assert_array_equal(graph.from_edges(SOURCE, TARGET, WEIGHTS, shape=(6, 5)).todense(), summed((6, 5)))


def test_capacity():
    A = graph.from_edges(SOURCE, TARGET, WEIGHTS, nodes=4, nse=10)
    assert (A.is_dynamic, A.nse) == (True, 10)
    np.testing.assert_array_equal(dense(A), summed())


@pytest.mark.parametrize("nse", [None, 7])
def test_traced_edges(nse):
    @jax.jit
    def made(source, target, weights):
        return graph.from_edges(source, target, weights, nodes=4, nse=nse)

    A = made(SOURCE, TARGET, WEIGHTS)
    assert (A.is_dynamic, A.nse) == (True, nse or 6)
    np.testing.assert_array_equal(dense(A), summed())
    padded = made(np.append(SOURCE, [4, -1, 0]), np.append(TARGET, [1, 1, 4]), np.append(WEIGHTS, [1, 1, 1]))
    np.testing.assert_array_equal(dense(padded), summed())


def test_from_edge_index():
    for index in (np.stack([SOURCE, TARGET]), [SOURCE.tolist(), TARGET.tolist()]):
        np.testing.assert_array_equal(graph.from_edge_index(index, WEIGHTS, nodes=4).todense(), summed())
    made = jax.jit(lambda index: graph.from_edge_index(index, WEIGHTS, shape=(6, 5)))
    np.testing.assert_array_equal(dense(made(np.stack([SOURCE, TARGET]))), summed((6, 5)))


@pytest.mark.parametrize("kind", ["static", "dynamic", "coo", "csc"])
def test_to_edges(kind):
    a = adjacency()
    A = variants(a)[kind]
    source, target, weights = graph.to_edges(A)
    found = np.zeros((10, 10), np.float32)
    found[np.asarray(target), np.asarray(source)] = weights  # padding is at (9, 9), with weight 0
    np.testing.assert_array_equal(found[:9, :9], a)
    assert found[9].tolist() == [0] * 10
    back = graph.from_edges(source, target, weights, nodes=9, nse=A.nse)
    np.testing.assert_array_equal(dense(back), a)


def test_to_edges_of_others():
    a = adjacency(columns=4)
    source, target, weights = graph.to_edges(jsparse.asarray(a).pattern)
    found = scipy.sparse.coo_array((np.asarray(weights), (target, source)), a.shape).toarray()
    np.testing.assert_array_equal(found, a != 0)
    edges = jax.jit(graph.to_edges)(jsparse.asarray(a).dynamic())
    np.testing.assert_array_equal(np.sort(edges.weights), np.sort(a[a != 0]))
    np.testing.assert_array_equal(graph.to_edges(scipy.sparse.csr_array(a)).weights, a[a != 0])


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64])
@pytest.mark.parametrize("kind", ["static", "traced", "capacity"])
def test_repeated_edges_are_kept_with_their_numbers(kind, dtype):
    source, target = (np.tile(end, 30).astype(dtype) for end in (SOURCE, TARGET))  # numbers that int8 does not hold
    weights = np.arange(len(source), dtype=np.float32)

    def made(*ends, nse=None):
        return graph.from_edges(*ends, weights, nodes=4, nse=nse, duplicates="keep")

    A = (
        jax.jit(made)(source, target)
        if kind == "traced"
        else made(source, target, nse=200 if kind == "capacity" else None)
    )
    assert (A.shape, A.is_dynamic) == ((4, 4, 180), kind != "static")
    coords, values = A.to_coords()
    order = np.lexsort((np.arange(180), source, target))
    np.testing.assert_array_equal(coords, [target[order], source[order], order])
    np.testing.assert_array_equal(values, weights[order])
    np.testing.assert_array_equal(dense(A.sum(2)), 30 * summed(weights=weights.reshape(30, 6).mean(0)))


def test_parallel_edges_of_other_libraries_are_kept():
    networkx = pytest.importorskip("networkx")
    G = networkx.MultiDiGraph([("a", "b", {"weight": 2}), ("a", "b", {"weight": 3}), ("b", "a", {"weight": 5})])
    coords, values = graph.from_networkx(G, duplicates="keep").to_coords()
    np.testing.assert_array_equal(coords, [[0, 1, 1], [1, 0, 0], [2, 0, 1]])
    np.testing.assert_array_equal(values, [5, 2, 3])
