"""Graphs of networkx and jraph beside networkx's own adjacency matrices."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from graph.made import dense

from jsparse import graph
from jsparse.errors import DTypeError

SENDERS, RECEIVERS = np.array([0, 1, 4, 3]), np.array([1, 2, 3, 3])


@pytest.mark.parametrize("kind", ["Graph", "DiGraph", "MultiGraph", "MultiDiGraph"])
@pytest.mark.parametrize("weight", ["weight", "length", None])
def test_networkx(kind, weight):
    networkx = pytest.importorskip("networkx")
    G = getattr(networkx, kind)()
    G.add_nodes_from("dcbae")
    for n, (u, v) in enumerate([("a", "b"), ("b", "a"), ("c", "c"), ("d", "a"), ("a", "b"), ("c", "d")]):
        G.add_edge(u, v, **({"weight": n + 2.5} if n % 2 else {"length": n + 1}))
    A = graph.from_networkx(G, weight)
    want = networkx.to_numpy_array(G, weight=weight).T  # of u -> v networkx has the element [u, v]
    np.testing.assert_array_equal(A.todense(), want)
    assert (A.dtype, A.format.name, A.is_dynamic) == (np.float32, "csr", False)
    assert graph.from_networkx(G, weight, dtype="float16", format="coo").dtype == np.float16


def test_networkx_without_edges():
    networkx = pytest.importorskip("networkx")
    A = graph.from_networkx(networkx.empty_graph(3))
    assert (A.shape, A.nse) == ((3, 3), 0)


def test_networkx_errors():
    networkx = pytest.importorskip("networkx")
    with pytest.raises(DTypeError, match="a NetworkX graph"):
        graph.from_networkx([(0, 1)])
    G = networkx.Graph()
    G.add_edge(0, 1, weight="heavy")
    with pytest.raises(DTypeError, match="weight=None"):
        graph.from_networkx(G)


def tuple_of(**changed):
    given = {"senders": SENDERS, "receivers": RECEIVERS, "n_node": np.array([3, 2]), "nodes": None, "edges": None}
    return SimpleNamespace(**(given | changed))


def want(weights=(1, 1, 1, 1), nodes=5):
    a = np.zeros((nodes, nodes), np.float32)
    np.add.at(a, (RECEIVERS, SENDERS), weights)
    return a


@pytest.mark.parametrize(
    "edges, weights",
    [
        (None, (1, 1, 1, 1)),
        (np.arange(4.0, dtype=np.float32), (0, 1, 2, 3)),
        (np.arange(4.0, dtype=np.float32)[:, None], (0, 1, 2, 3)),
        (np.ones((4, 3)) * 5, (1, 1, 1, 1)),
        ({"length": np.ones(4) * 5}, (1, 1, 1, 1)),
    ],
)
def test_jraph(edges, weights):
    A = graph.from_jraph(tuple_of(edges=edges))
    np.testing.assert_array_equal(A.todense(), want(weights))


def test_jraph_in_programs():
    @jax.jit
    def made(senders, receivers, n_node, x, edges):
        tuples = tuple_of(senders=senders, receivers=receivers, n_node=n_node, nodes={"x": x}, edges=edges)
        return graph.from_jraph(tuples, nse=6)

    A = made(SENDERS, RECEIVERS, np.array([3, 2, 2]), np.ones((7, 2)), np.arange(4, dtype=np.float32))
    assert A.nse == 6
    np.testing.assert_array_equal(dense(A), want((0, 1, 2, 3), 7))


def test_jraph_itself():
    jraph = pytest.importorskip("jraph")
    one = jraph.GraphsTuple(None, jnp.arange(4.0), jnp.array(RECEIVERS), jnp.array(SENDERS), None, jnp.array([5]), 4)
    np.testing.assert_array_equal(dense(graph.from_jraph(one)), want((0, 1, 2, 3)))
