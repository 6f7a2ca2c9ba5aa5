"""The split of a graph's edges into three parts, to train, validate and test link prediction."""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np

from jsparse.base.arrays import Array
from jsparse.errors import PatternError, ShapeError, short_repr
from jsparse.formats import Pattern
from jsparse.graph.graphs import Graph, as_graph, like
from jsparse.graph.negatives import negative_sampling
from jsparse.ops.indexing.at_coords import locate
from jsparse.ops.surgery.prune import prune
from jsparse.tensor.sparse_tensor import SparseTensor


class LinkSplit(NamedTuple):
    """One part of a split: its edges, pairs of nodes without an edge, and the graph for messages.

        >>> train, val, test = jsparse.graph.random_link_split(key, S)
        >>> train.graph.nse, val.graph.nse, test.graph.nse, test.edge_label.shape
        (350, 350, 400, (200,))

    Attributes:
        graph: the graph whose messages may be used.
        edge_label_index: integers (2, pairs), sources in row 0 and targets in row 1; edges first, then other pairs.
        edge_label: float32 (pairs,), 1 for edges and 0 for pairs of nodes without an edge.
    """

    graph: Graph
    edge_label_index: Array
    edge_label: Array


def random_link_split(
    key: jax.Array,
    A: Graph,
    num_val: float = 0.1,
    num_test: float = 0.2,
    *,
    is_undirected: bool = False,
    neg_sampling_ratio: float = 1.0,
    disjoint_train_ratio: float = 0.0,
    add_negative_train_samples: bool = True,
) -> tuple[LinkSplit, LinkSplit, LinkSplit]:
    """Divide the edges of a graph at random, to train, validate and test the prediction of links.

        >>> train, val, test = jsparse.graph.random_link_split(key, S, num_val=50, num_test=0.2)
        >>> val.edge_label_index.shape, int(val.edge_label.sum())
        ((2, 100), 50)

    In training and validation, messages use the training edges; in tests, they use the validation edges as well. Pairs
    without an edge are drawn by `negative_sampling`, and no pair is in two parts.

    Args:
        key: a `jax.random` key.
        A: the graph, static: (nodes, nodes), (targets, sources) if it is bipartite, or with a third index if repeated
            edges are kept. `A[i, j]` is the edge j → i.
        num_val, num_test: the numbers of validation edges and of test edges; a float is a fraction of all edges.
        is_undirected: whether A has both directions of all edges. If so, both directions stay in one part, and only the
            direction with the smaller source is in `edge_label_index`, for edges and for pairs without an edge.
        neg_sampling_ratio: the number of pairs without an edge for each edge.
        disjoint_train_ratio: how many training edges are in `edge_label_index` instead of the graph: a number, or a
            float for a fraction. With 0, all training edges are in both.
        add_negative_train_samples: whether the training part has pairs without an edge. If not, draw new pairs at each
            step.

    Returns three `LinkSplit`s, for training, validation and test. Their graphs have the weights of A, or are patterns
    if A is a pattern.

    Raises ShapeError for invalid numbers, if no edges are left to train with, if there are too few pairs without an
    edge, and for a graph of another shape; PatternError for a graph that is traced, or not undirected; DTypeError
    for dense arrays.
    """
    graph = as_graph(A, "random_link_split", square=is_undirected, kept=not is_undirected).static()
    assert isinstance(graph.pattern, Pattern)
    target, source, *_ = graph.pattern.to_coords()
    reverse = locate(graph.pattern, [source, target]) if is_undirected else None  # the slot of each reverse edge
    if reverse is not None and (reverse < 0).any():
        at = int(np.argmin(reverse))
        raise PatternError(
            "Expected an undirected graph for jsparse.graph.random_link_split with is_undirected=True, but the edge "
            f"{source[at]} → {target[at]} is missing in the other direction. Make an undirected graph with "
            "jsparse.graph.symmetrize."
        )
    key_of_edges, negatives = jax.random.split(key)
    edges = np.flatnonzero(source <= target) if is_undirected else np.arange(graph.nse)
    edges = edges[np.asarray(jax.random.permutation(key_of_edges, len(edges)))]
    val, test = (_share(n, len(edges), name) for n, name in ((num_val, "num_val"), (num_test, "num_test")))
    train = len(edges) - val - test
    disjoint = _share(disjoint_train_ratio, max(train, 0), "disjoint_train_ratio")
    if train - disjoint <= 0:
        raise ShapeError(
            f"Expected jsparse.graph.random_link_split to leave edges to train with, but of {len(edges):,} edges "
            f"num_val={num_val}, num_test={num_test} and disjoint_train_ratio={disjoint_train_ratio} leave none."
        )
    counts = [int(n * neg_sampling_ratio) for n in ((disjoint or train) * add_negative_train_samples, val, test)]
    pairs = np.split(_negatives(negatives, graph, sum(counts), is_undirected), np.cumsum(counts)[:-1], axis=1)
    parts = edges[: disjoint or train], edges[train : train + val], edges[train + val :]
    messages = edges[disjoint:train], edges[:train], edges[: train + val]
    ends = np.stack([source, target])
    splits = []
    for of_messages, part, without in zip(messages, parts, pairs, strict=True):
        mask = np.zeros(graph.nse, bool)
        mask[of_messages] = True
        if reverse is not None:
            mask[reverse[of_messages]] = True
        labels = np.repeat(np.array([1, 0], np.float32), [len(part), without.shape[1]])
        index = np.concatenate([ends[:, part], without], axis=1)
        splits.append(LinkSplit(like(A, prune(graph, mask=mask)), index, labels))
    return splits[0], splits[1], splits[2]


def _share(number: float, whole: int, name: str) -> int:
    """Convert a number or a fraction of all edges to a number of edges. Raises ShapeError if it is invalid."""
    is_number = isinstance(number, int | float | np.integer) and not isinstance(number, bool)
    if not is_number or not 0 <= number <= (1 if isinstance(number, float) else whole):
        raise ShapeError(
            f"Expected {name} of jsparse.graph.random_link_split to be a number of edges, at most {whole:,}, or a "
            f"float from 0.0 to 1.0, but got {short_repr(number)}."
        )
    return int(number * whole) if isinstance(number, float) else int(number)


def _negatives(key: jax.Array, graph: SparseTensor, count: int, is_undirected: bool) -> np.ndarray:
    """Draw pairs (2, count) without an edge; for undirected graphs only the direction with the smaller source."""
    matrix = graph if graph.ndim == 2 else graph.sum(2)
    drawn = negative_sampling(key, matrix, count * (1 + is_undirected), force_undirected=is_undirected)
    pairs = np.asarray(drawn)[:, : drawn.shape[1] // (1 + is_undirected)]
    if pairs.shape[1] < count:
        raise ShapeError(
            f"Expected a graph with {count:,} pairs of nodes that have no edge for jsparse.graph.random_link_split, "
            f"but there are {pairs.shape[1]:,}. Pass a smaller neg_sampling_ratio."
        )
    return pairs
