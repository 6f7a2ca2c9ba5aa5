"""Subgraphs beside networkx, and dense matrices with rows and columns left out."""

import jax
import jax.numpy as jnp
import networkx
import numpy as np
import pytest
from graph.made import adjacency, dense, variants

import jsparse
from jsparse import graph


def reached(a, ids, hops):
    """The nodes within some hops against the direction of edges, by networkx."""
    G = networkx.from_numpy_array((a != 0).astype(int), create_using=networkx.DiGraph)  # i -> j where j carries to i
    found = {node for one in ids for node in networkx.single_source_shortest_path_length(G, one, cutoff=hops)}
    return np.array(sorted(found), int)


def followed(a, ids, hops):
    """The edges that hops follow: those that end within one hop less."""
    return np.where(np.isin(np.arange(len(a)), reached(a, ids, hops - 1))[:, None], a, 0) if hops else 0 * a


def check(found, A, a, nodes, want, relabel, known):
    """A subgraph has these nodes, the dense matrix `want`, and the numbers of its edges."""
    count, n = len(nodes), len(a)
    np.testing.assert_array_equal(found.nodes[:count], nodes)
    np.testing.assert_array_equal(found.nodes[count:], n)
    edges = np.asarray(found.edges)
    np.testing.assert_array_equal(edges[np.count_nonzero(want) :], A.nse)
    edges = edges[: np.count_nonzero(want)]
    values = np.asarray(A.values)[edges]
    if relabel:
        want = want[np.ix_(nodes, nodes)]
        room = np.zeros((found.graph.shape[0],) * 2, a.dtype)
        room[:count, :count] = want
        want = room
    assert isinstance(found.graph, jsparse.SparseTensor)
    assert found.graph.is_dynamic != known
    assert found.graph.dtype == A.dtype
    found.graph.validate()
    np.testing.assert_array_equal(dense(found.graph), want)
    np.testing.assert_array_equal(found.graph.values[: len(edges)], values)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("kind", ["static", "csc", "coo", "dynamic", "jit"])
@pytest.mark.parametrize("ids, hops", [([3], 0), (3, 1), ([0, 3, 3], 2), ([5], 2), ([], 3), (np.arange(8) > 6, 9)])
def test_k_hops(ids, hops, kind):
    a = adjacency(seed=2, nodes=20, density=0.08)
    ids = np.append(ids, [False] * 12) if np.size(ids) == 8 else ids
    A = variants(a)["dynamic" if kind == "jit" else kind]
    listed = np.flatnonzero(ids) if np.size(ids) == 20 else np.atleast_1d(ids)
    for flow, b in (("source_to_target", a), ("target_to_source", a.T)):
        nodes, relabel = reached(b, listed, hops), hops != 2
        for directed in (False, True):
            inside = np.isin(np.arange(20), nodes)
            want = followed(b, listed, hops) if directed else np.where(inside[:, None] & inside, b, 0)
            call = lambda A, ids, flow=flow, directed=directed, relabel=relabel: graph.k_hop_subgraph(  # noqa: E731
                ids, hops, A, relabel, flow=flow, directed=directed
            )
            found = (
                jax.jit(call)(A, np.asarray(ids, np.bool_ if np.size(ids) == 20 else int))
                if kind == "jit"
                else call(A, ids)
            )
            check(found, A, a, nodes, want if b is a else want.T, relabel, kind not in ("dynamic", "jit"))
            if np.size(ids) != 20:
                np.testing.assert_array_equal(np.asarray(found.nodes)[found.mapping], listed)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", ["static", "dynamic", "csc", "jit"])
@pytest.mark.parametrize("subset", [[3, 0, 7, 8], [], list(range(9))[::-1]])
def test_subgraph(subset, kind):
    a = adjacency(density=0.5)
    A = variants(a)["dynamic" if kind == "jit" else kind]
    inside = np.isin(np.arange(9), subset)
    want = np.where(inside[:, None] & inside, a, 0)
    for relabel in (False, True):
        run = jax.jit(graph.subgraph, static_argnums=2) if kind == "jit" else graph.subgraph
        found = run(np.array(subset, np.int32), A, relabel)
        check(found, A, a, subset, want, relabel, kind in ("static", "csc"))
        np.testing.assert_array_equal(found.mapping, np.arange(len(subset)))
    marked = graph.subgraph(inside, A.pattern)
    np.testing.assert_array_equal(dense(marked.graph), want != 0)
    assert not isinstance(marked.graph, jsparse.SparseTensor)


def test_repeated_edges_and_their_features():
    rng = np.random.default_rng(0)
    source, target = rng.integers(0, 8, (2, 40))
    A = graph.from_edges(source, target, np.arange(40.0), nodes=8, duplicates="keep")
    nodes = [5, 1, 2, 0]
    for given in (A, A.dynamic(50)):
        found = graph.subgraph(nodes, given, relabel_nodes=True)
        rows, columns, numbers = (np.asarray(row) for row in found.graph.to_coords()[0])
        inside = np.flatnonzero(np.isin(source, nodes) & np.isin(target, nodes))
        np.testing.assert_array_equal(np.sort(numbers), inside)
        np.testing.assert_array_equal(np.array(nodes)[rows], target[numbers])
        np.testing.assert_array_equal(np.array(nodes)[columns], source[numbers])
        edges = np.asarray(found.edges)[: len(inside)]
        np.testing.assert_array_equal(np.asarray(A.coords[2])[edges], numbers)


def test_gradients_and_traced_weights():
    a = adjacency(density=0.5)
    A = jsparse.asarray(a)
    nodes = np.array([4, 0, 3])
    for given in (A, A.dynamic(70)):

        def loss(A):
            return (graph.subgraph(nodes, A, relabel_nodes=True).graph.values ** 2).sum()

        want = np.zeros_like(a)
        want[np.ix_(nodes, nodes)] = 2 * a[np.ix_(nodes, nodes)]
        np.testing.assert_array_equal(dense(jax.jit(jsparse.grad(loss))(given)), want)


def test_a_network_computes_the_same_on_the_subgraph():
    a = adjacency(seed=4, nodes=30, density=0.06)
    A, x = jsparse.asarray(a), np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)
    nodes, part, mapping, _ = graph.k_hop_subgraph([7, 21], 2, A, relabel_nodes=True)
    assert len(nodes) < 25
    whole = jnp.tanh(A @ jnp.tanh(A @ x))
    np.testing.assert_allclose(jnp.tanh(part @ jnp.tanh(part @ x[nodes]))[mapping], whole[np.array([7, 21])], rtol=1e-5)


def test_traced_nodes_out_of_range_are_left_out():
    a = adjacency(density=0.5)
    for ids in ([0, -1, 9], [0, 100, -9]):
        found = jax.jit(lambda ids: graph.k_hop_subgraph(ids, 1, jsparse.asarray(a)))(jnp.array(ids))
        want = graph.k_hop_subgraph([0], 1, jsparse.asarray(a))
        np.testing.assert_array_equal(dense(found.graph), want.graph.todense())
        np.testing.assert_array_equal(found.mapping, [want.mapping[0], 9, 9])
        part = jax.jit(lambda ids: graph.subgraph(ids, jsparse.asarray(a), relabel_nodes=True))(jnp.array(ids))
        np.testing.assert_array_equal(dense(part.graph), np.pad(a[:1, :1], (0, 2)))
