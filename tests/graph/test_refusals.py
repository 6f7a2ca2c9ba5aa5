"""Graphs that functions of `jsparse.graph` refuse; `refusals.txt` has the messages of the rows."""

from types import SimpleNamespace

import jax
import numpy as np
from graph.made import adjacency
from refusals import test_refusals as test_refusals

import jsparse
from jsparse import graph
from jsparse.errors import DTypeError, FormatError, PatternError, ShapeError

KEY = jax.random.key(0)


def batching():
    graphs = [np.eye(size, dtype=np.float32) for size in (6, 9, 0, 1, 7)]
    tensors = [jsparse.asarray(a) for a in graphs]
    yield ShapeError, lambda: graph.batch(tensors, nodes=22)
    yield ShapeError, lambda: graph.batch(tensors, size=4)
    yield PatternError, lambda: graph.batch(tensors, nse=10)
    yield ShapeError, lambda: graph.batch(tensors, nse=-1)
    yield ShapeError, lambda: graph.batch(tensors, nodes=22.5)
    yield ShapeError, lambda: graph.batch([])
    yield ShapeError, lambda: graph.batch(tensors[0])
    yield ShapeError, lambda: graph.batch(3)
    yield ShapeError, lambda: graph.batch([tensors[0][:3]])
    yield DTypeError, lambda: graph.batch(graphs)
    batch = graph.batch([tensors[0].dynamic(9), tensors[1]], nodes=20, nse=60)
    yield PatternError, lambda: jax.jit(lambda batch: graph.unbatch(batch)[0].values)(batch)


def heterogeneous_batches():
    writes, cites = ("author", "writes", "paper"), ("paper", "cites", "paper")
    eye = jsparse.eye(3)
    yield ShapeError, lambda: graph.hetero_batch([])
    yield ShapeError, lambda: graph.hetero_batch({writes: eye})
    yield ShapeError, lambda: graph.hetero_batch([eye])
    yield ShapeError, lambda: graph.hetero_batch([{writes: eye}, {cites: eye}])
    yield ShapeError, lambda: graph.hetero_batch([{"writes": eye}])
    yield ShapeError, lambda: graph.hetero_batch([{writes: jsparse.eye(3, 2), cites: jsparse.eye(4)}])
    yield ShapeError, lambda: graph.hetero_batch([{cites: jsparse.eye(4)}], nodes={"paper": 3})
    yield ShapeError, lambda: graph.hetero_batch([{cites: jsparse.eye(4)}], size=0)


def coalescing():
    A = graph.from_edges([0, 1, 1, 0], [2, 2, 0, 2], shape=(3, 3), duplicates="keep")
    yield ShapeError, lambda: graph.coalesce(A, reduce="median")
    yield ShapeError, lambda: graph.coalesce(A, np.ones(3))
    yield DTypeError, lambda: graph.coalesce(A, np.array(["a"]))
    yield DTypeError, lambda: graph.coalesce(np.eye(3))


def edges():
    source, target = np.array([0, 3, 3, 1, 0, 2]), np.array([1, 2, 0, 1, 1, 3])
    yield ShapeError, lambda: graph.from_edges(source, target)
    yield ShapeError, lambda: graph.from_edges(source, target, nodes=4, shape=(4, 4))
    yield ShapeError, lambda: graph.from_edges(source, target, shape=(4,))
    yield ShapeError, lambda: graph.from_edges(source, target, shape=4)
    yield ShapeError, lambda: graph.from_edges(source, target[1:], nodes=4)
    yield ShapeError, lambda: graph.from_edges(source[None], target, nodes=4)
    yield PatternError, lambda: graph.from_edges(source / 2, target, nodes=4)
    yield PatternError, lambda: graph.from_edges(source, target, nodes=3)
    yield PatternError, lambda: graph.from_edges(source, target - 1, nodes=4)
    yield ShapeError, lambda: graph.from_edges(source, target, np.ones(5), nodes=4)
    yield ShapeError, lambda: graph.from_edges(source, target, np.ones((6, 2)), nodes=4)
    yield FormatError, lambda: graph.from_edges(source, target, nodes=4, format="rsc")
    yield DTypeError, lambda: graph.from_edges(["a"], ["b"], nodes=4)
    yield ShapeError, lambda: graph.from_edges(source, target, nodes=4, nse=-1)
    yield ShapeError, lambda: graph.from_edge_index(np.zeros((6, 2), int), nodes=4)
    yield DTypeError, lambda: graph.to_edges(np.eye(3))
    yield ShapeError, lambda: graph.to_edges(jsparse.zeros((3, 3, 3)))
    yield PatternError, lambda: graph.from_edges(source, target, nodes=4, nse=3)
    yield ShapeError, lambda: graph.from_edges(source, target, nodes=4, duplicates="first")


def links():
    A, edges = jsparse.eye(6), np.zeros((2, 3), int)
    yield DTypeError, lambda: graph.random_link_split(KEY, np.eye(3))
    yield ShapeError, lambda: graph.random_link_split(KEY, A, num_val=7)
    yield ShapeError, lambda: graph.random_link_split(KEY, A, num_val=1.5)
    yield ShapeError, lambda: graph.random_link_split(KEY, A, num_val=3, num_test=3)
    yield ShapeError, lambda: graph.random_link_split(KEY, A, 0, 1, neg_sampling_ratio=9.0)
    yield PatternError, lambda: graph.random_link_split(KEY, graph.from_edges([0], [1], nodes=2), is_undirected=True)
    yield ShapeError, lambda: graph.sample_links(KEY, A, edges[:1], [2])
    yield PatternError, lambda: graph.sample_links(KEY, A, edges / 2, [2])
    yield ShapeError, lambda: graph.sample_links(KEY, A, edges, 2)
    yield ShapeError, lambda: graph.sample_links(KEY, A, edges, [])
    yield ShapeError, lambda: graph.sample_links(KEY, A, edges, [2], num_neg_samples=-1)
    yield ShapeError, lambda: graph.sample_links(KEY, A, edges, [2], edge_label=[1, 2])
    yield ShapeError, lambda: graph.link_batches(KEY, A, edges, [2], 0)
    yield PatternError, lambda: graph.link_batches(KEY, A, edges + 6, [2], 2)
    yield PatternError, lambda: jax.jit(lambda e: next(graph.link_batches(KEY, A, e, [2], 2)))(edges)


def nearest():
    points = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    yield ShapeError, lambda: graph.knn_graph(points, 40)
    yield ShapeError, lambda: graph.knn_graph(points, 41, include_self=True)
    yield ShapeError, lambda: graph.knn_graph(points, 0)
    yield ShapeError, lambda: graph.knn_graph(points, 1.5)
    yield ShapeError, lambda: graph.knn_graph(points[0], 1)
    yield ShapeError, lambda: graph.knn_graph(points, 1, metric="l1")
    yield DTypeError, lambda: graph.knn_graph(points * 1j, 1)
    yield ShapeError, lambda: graph.knn_graph(points, 1, np.zeros(39, int))
    yield DTypeError, lambda: graph.knn_graph(points, 1, np.zeros(40))
    yield ShapeError, lambda: graph.radius_graph(points, -1.0)
    yield ShapeError, lambda: graph.radius_graph(points, np.nan)
    yield ShapeError, lambda: graph.radius_graph(points, [1.0, 2.0])
    yield ShapeError, lambda: graph.radius_graph(points, 1.0, max_num_neighbors=0)
    yield ShapeError, lambda: graph.radius_graph(points[0], 1.0)
    yield PatternError, lambda: jax.jit(lambda x: graph.radius_graph(x, 1.0, max_num_neighbors=None))(points)
    yield DTypeError, lambda: graph.knn_graph(np.array(["a"]), 1)
    points[7, 1] = np.nan
    yield PatternError, lambda: graph.knn_graph(points, 3)


def negatives(monkeypatch):
    yield DTypeError, lambda: graph.negative_sampling(KEY, np.eye(4))
    yield ShapeError, lambda: graph.negative_sampling(KEY, jsparse.eye(4), -1)
    yield ShapeError, lambda: graph.negative_sampling(KEY, jsparse.eye(4), "all")
    yield ShapeError, lambda: graph.negative_sampling(KEY, jsparse.eye(4), True)
    yield ShapeError, lambda: graph.negative_sampling(KEY, jsparse.eye(4, 5), force_undirected=True)
    yield ShapeError, lambda: graph.negative_sampling(KEY, jsparse.eye(4, 5), bipartite=False)
    yield DTypeError, lambda: graph.batched_negative_sampling(KEY, jsparse.eye(4))
    yield ShapeError, lambda: graph.structured_negative_sampling(KEY, jsparse.eye(4, 5), contains_neg_self_loops=False)
    with monkeypatch.context() as patch:
        patch.setattr(graph.graphs, "MOST_CONSTANT", 5)
        A = jsparse.asarray(adjacency())
        yield PatternError, lambda: jax.jit(lambda key: graph.negative_sampling(key, A))(KEY)
        yield PatternError, lambda: jax.jit(graph.sample_neighbors, static_argnums=3)(KEY, A, np.array([1]), 2)


def samples():
    A = jsparse.eye(4)
    yield ShapeError, lambda: graph.sample_neighbors(KEY, A, [[1]], 2)
    yield PatternError, lambda: graph.sample_neighbors(KEY, A, [1.5], 2)
    yield DTypeError, lambda: graph.sample_neighbors(KEY, A, ["a"], 2)
    yield ShapeError, lambda fanout: graph.sample_neighbors(KEY, A, [1], fanout), [0, 1.5]
    yield ShapeError, lambda: graph.sample_neighbors(KEY, jsparse.eye(4, 5), [1], 2)


def libraries():
    senders, receivers = np.array([0, 1, 4, 3]), np.array([1, 2, 3, 3])

    def tuple_of(n_node):
        return SimpleNamespace(senders=senders, receivers=receivers, n_node=n_node, nodes=None, edges=None)

    yield PatternError, lambda: jax.jit(lambda n: graph.from_jraph(tuple_of(n)).values)(np.array([3, 2]))
    yield DTypeError, lambda: graph.from_jraph(SimpleNamespace(senders=senders))
    yield ShapeError, lambda: graph.from_jraph(tuple_of(np.array([3.5])))
    yield PatternError, lambda: graph.from_jraph(tuple_of(np.array([3])))


def ordering():
    A, order = jsparse.asarray(adjacency()), np.array([3, 8, 0, 1, 7, 2, 6, 5, 4])
    yield ShapeError, lambda: graph.reorder(A, "amd")
    yield ShapeError, lambda: graph.reorder(A[:4])
    yield DTypeError, lambda: graph.reorder(np.eye(3))
    yield PatternError, lambda: jax.jit(graph.reorder)(A.dynamic())
    yield ShapeError, lambda: graph.permute(A, order[1:])
    yield ShapeError, lambda: graph.permute(A, order / 2)
    yield ShapeError, lambda: graph.permute(A, order + 1)
    yield ShapeError, lambda: graph.permute(A, [0] * 9)
    yield ShapeError, lambda: graph.permute(A[:4], order)


def preparation():
    A = jsparse.asarray(adjacency())
    yield ShapeError, lambda: graph.add_self_loops(A[:4])
    yield ShapeError, lambda: graph.remove_self_loops(A[:4])
    yield ShapeError, lambda: graph.symmetrize(A[:4])
    yield ShapeError, lambda: graph.normalize(A[:4])
    yield ShapeError, lambda: graph.normalize(A[0], "row")
    yield DTypeError, lambda: graph.degree(np.eye(3))
    yield ShapeError, lambda: graph.degree(A, 2)
    yield ShapeError, lambda: graph.add_self_loops(A, np.ones(3))
    yield DTypeError, lambda: graph.add_self_loops(A, "one")
    yield ShapeError, lambda: graph.symmetrize(A, "min")
    yield ShapeError, lambda: graph.normalize(A, "both")
    yield ShapeError, lambda: graph.normalize(A, 1)


def subgraphs():
    A = jsparse.asarray(adjacency())
    yield ShapeError, lambda: graph.subgraph([0, 0], A)
    yield ShapeError, lambda: graph.subgraph([0, 9], A)
    yield ShapeError, lambda: graph.subgraph([[0]], A)
    yield PatternError, lambda: graph.subgraph([0.5], A)
    yield PatternError, lambda: graph.subgraph([True], A)
    yield ShapeError, lambda: graph.k_hop_subgraph(-1, 1, A)
    yield ShapeError, lambda: graph.k_hop_subgraph(0, -1, A)
    yield ShapeError, lambda: graph.k_hop_subgraph(0, 1, A, flow="up")
    yield ShapeError, lambda: graph.k_hop_subgraph(0, 1, jsparse.eye(3, 4))
    yield DTypeError, lambda: graph.k_hop_subgraph(0, 1, np.eye(3))
