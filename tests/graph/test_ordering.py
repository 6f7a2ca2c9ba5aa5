"""Orders of nodes, and graphs in them, beside numpy's and scipy's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from graph.made import adjacency, dense, variants
from scipy.sparse.csgraph import reverse_cuthill_mckee

import jsparse
from jsparse import graph

ORDER = np.array([3, 8, 0, 1, 7, 2, 6, 5, 4])


def bandwidth(a):
    rows, columns = np.nonzero(a)
    return abs(rows - columns).max()


@pytest.mark.parametrize("kind", ["static", "dynamic", "coo", "csc"])
def test_permute(kind):
    a = adjacency()
    A = variants(a)[kind]
    for found in (graph.permute(A, ORDER), jax.jit(lambda A: graph.permute(A, ORDER))(A)):
        assert (found.format, found.nse, found.is_dynamic) == (A.format, A.nse, A.is_dynamic)
        np.testing.assert_array_equal(dense(found), a[ORDER][:, ORDER])
    traced = jax.jit(graph.permute)(A, ORDER)
    assert (traced.is_dynamic, traced.nse) == (True, A.nse)
    np.testing.assert_array_equal(dense(traced), a[ORDER][:, ORDER])
    back = graph.permute(graph.permute(A, ORDER), np.argsort(ORDER))
    np.testing.assert_array_equal(dense(back), a)


def test_permute_patterns():
    a = adjacency()
    for A in (jsparse.asarray(a), jsparse.asarray(a).dynamic(40)):
        found = graph.permute(A.pattern, ORDER.tolist())
        assert type(found) is type(A.pattern)
        static = found.to_static() if A.is_dynamic else found
        np.testing.assert_array_equal(dense(static), (a != 0)[ORDER][:, ORDER])


@pytest.mark.parametrize("kind", ["static", "dynamic", "coo", "csc"])
def test_rcm(kind):
    a = adjacency(nodes=60, density=0.02)
    A = variants(a)[kind]
    found = graph.reorder(A)
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, reverse_cuthill_mckee(scipy.sparse.csr_array(a), symmetric_mode=False))
    assert bandwidth(dense(graph.permute(A, found))) < bandwidth(a) / 2
    np.testing.assert_array_equal(graph.reorder(A.pattern), found)


def test_rcm_counts_entries_not_weights():
    """In the sum of this graph and its transpose all weights cancel."""
    a = np.zeros((6, 6), np.float32)
    path = [3, 0, 5, 1, 4, 2]
    a[path[1:], path[:-1]], a[path[:-1], path[1:]] = 1, -1
    found = graph.reorder(jsparse.asarray(a)).tolist()
    assert found in (path, path[::-1])


@pytest.mark.parametrize("kind", ["static", "dynamic", "coo", "csc"])
def test_degree_order(kind):
    a = adjacency()
    A = variants(a)[kind]
    found = graph.reorder(A, "degree")
    counts = (a != 0).sum(1)
    assert sorted(found) == list(range(9))
    np.testing.assert_array_equal(found, sorted(range(9), key=lambda node: (-counts[node], node)))


def test_known_patterns_inside_programs():
    A = jsparse.asarray(adjacency())

    @jax.jit
    def product(A, x):
        order = graph.reorder(A)
        return (graph.permute(A, order) @ x[order])[np.argsort(order)]

    x = jnp.arange(9.0)
    np.testing.assert_allclose(product(A, x), adjacency() @ np.arange(9), rtol=1e-6)
