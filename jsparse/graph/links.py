"""Batches of edges with samples of the neighbours of their nodes, to train link prediction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jsparse.base.arrays import Array, host_array, is_integer
from jsparse.convert.dynamic_creation import index_numbers
from jsparse.errors import PatternError, ShapeError, short_repr, shorten
from jsparse.graph.graphs import Graph, as_graph, known_or_traced, like
from jsparse.graph.negatives import negative_sampling
from jsparse.graph.sampling import NeighborSample, sample_neighbors
from jsparse.ops.relocation.operands import as_integer


class LinkSample(NamedTuple):
    """Edges, pairs of nodes without an edge, and samples of the neighbours of all these nodes; a pytree.

        >>> found = jsparse.graph.sample_links(key, S, jnp.array([[3, 1], [7, 2]]), [5, 5])
        >>> h = jnp.ones((100, 8)).at[found.nodes].get(mode="fill", fill_value=0)
        >>> for layer in reversed(found.layers):
        ...     h = jsparse.graph.normalize(layer.graph, "row") @ h + h[: layer.graph.shape[0]]
        >>> source, target = found.edge_label_index
        >>> scores = (h[source] * h[target]).sum(1)

    Attributes:
        layers: a `NeighborSample` for each hop. The seeds of the first sample are the nodes of all pairs, each once;
            the seeds of each later sample are the nodes of the sample before.
        edge_label_index: (2, pairs) the positions of each pair's source and target among the first sample's seeds.
        edge_label: (pairs,) the label of each edge, 0 for pairs without an edge.
        edge_mask: (pairs,) bools, False in padding, which a loss leaves out.
    """

    layers: tuple[NeighborSample, ...]
    edge_label_index: jax.Array
    edge_label: jax.Array
    edge_mask: jax.Array

    @property
    def nodes(self) -> jax.Array:
        """The nodes whose features the sample needs. Unused elements are out of range."""
        return self.layers[-1].nodes


def sample_links(
    key: jax.Array,
    A: Graph,
    edge_label_index: ArrayLike,
    num_neighbors: Sequence[int],
    *,
    num_neg_samples: int | None = None,
    edge_label: ArrayLike = 1.0,
) -> LinkSample:
    """Draw one pair without an edge for each given edge, and sample the neighbours of the nodes of edges and pairs.

        >>> A = S.dynamic()
        >>> @jax.jit
        ... def sampled(key, A, edges):
        ...     return jsparse.graph.sample_links(key, A, edges, [10, 5])
        >>> found = sampled(key, A, jnp.array([[3, 1], [7, 2]]))
        >>> found.edge_label, found.layers[0].graph.shape
        (Array([1., 1., 0., 0.], dtype=float32), (8, 88))

    Shapes follow from the shapes of the arguments, so one program serves all batches of edges.

    Args:
        key: a `jax.random` key.
        A: the graph, of shape (nodes, nodes); `A[i, j]` is the edge j → i. Inside jit pass a dynamic graph as an
            argument, as for `sample_neighbors`.
        edge_label_index: integers (2, edges), row 0 the sources, row 1 the targets. Edges with an end out of range are
            padding.
        num_neighbors: for each hop, the maximum number of neighbours of each node, beginning with the first hop.
        num_neg_samples: the number of pairs without an edge in A; by default one for each edge. The pairs follow the
            edges.
        edge_label: a label for each edge, (edges,), or one for all. Pairs without an edge have the label 0.

    Returns a `LinkSample`. Raises ShapeError for invalid shapes and numbers, PatternError for edges that are not
    integers and for a large static graph inside jit, DTypeError for dense arrays.
    """
    graph = as_graph(A, "sample_links")
    hops = _hops(num_neighbors)
    edges = _edges(edge_label_index, graph.shape[0], "sample_links")
    labels = jnp.broadcast_to(_labels(edge_label, edges.shape[1], "sample_links"), edges.shape[1])
    nodes, count = graph.shape[0], edges.shape[1] if num_neg_samples is None else num_neg_samples
    keys = jax.random.split(key, 1 + len(hops))
    without = negative_sampling(keys[0], A if graph.is_dynamic else graph.dynamic(), count)  # of a known shape
    pairs = jnp.concatenate([jnp.asarray(edges, without.dtype), without], axis=1)
    is_pair = ((pairs >= 0) & (pairs < nodes)).all(axis=0)
    ends = jnp.where(is_pair, pairs, nodes).reshape(-1)
    seeds, places = jnp.unique(ends, return_inverse=True, size=len(ends), fill_value=nodes)
    layers = []
    for key_of_hop, fanout in zip(keys[1:], hops, strict=True):
        layers.append(sample_neighbors(key_of_hop, A, seeds, fanout))
        seeds = layers[-1].nodes
    labels = jnp.where(is_pair, jnp.concatenate([labels, jnp.zeros(without.shape[1], labels.dtype)]), 0)
    return LinkSample(tuple(layers), places.reshape(pairs.shape), labels, is_pair)


def link_batches(
    key: jax.Array,
    A: Graph,
    edge_label_index: ArrayLike,
    num_neighbors: Sequence[int],
    batch_size: int,
    *,
    edge_label: ArrayLike | None = None,
    neg_sampling_ratio: float | None = None,
    shuffle: bool = True,
    drop_last: bool = False,
) -> Iterator[LinkSample]:
    """Yield batches of edges, each with pairs without an edge and samples of neighbours. All have the same shapes.

        >>> source, target, _ = jsparse.graph.to_edges(S)
        >>> edges = np.stack([source, target])
        >>> [found.edge_label.shape for found in jsparse.graph.link_batches(key, S, edges, [5, 5], 200)]
        [(400,), (400,), (400,)]

    A step that is compiled for the first batch serves all batches. The last batch is filled up with padding.

    Args:
        key: a `jax.random` key. Pass a different key for each epoch.
        A: the graph (nodes, nodes) on which messages are passed. Its edges are not drawn as pairs without an edge.
        edge_label_index: integers (2, edges), row 0 the sources, row 1 the targets, such as those of a `LinkSplit`.
        num_neighbors: for each hop, the maximum number of neighbours of each node, beginning with the first hop.
        batch_size: the number of edges of a batch.
        edge_label: a label for each edge, (edges,); by default 1.
        neg_sampling_ratio: how many pairs without an edge, which have the label 0, are drawn for each edge; by default
            1, or 0 if there are labels.
        shuffle: whether edges come in a random order.
        drop_last: whether a last batch that is not full is left out.

    Yields a `LinkSample` for each batch. Raises ShapeError for invalid shapes and numbers, PatternError for edges that
    are traced, out of range or not integers, DTypeError for dense arrays.
    """
    graph, size = as_graph(A, "link_batches"), as_integer(batch_size, "the batch_size of jsparse.graph.link_batches")
    edges = _edges(edge_label_index, graph.shape[0], "link_batches")
    if not isinstance(edges, np.ndarray) or isinstance(key, jax.core.Tracer):
        raise PatternError(
            "Expected known edges for jsparse.graph.link_batches, but they are traced. Use sample_links."
        )
    if edges.size and not 0 <= edges.min() <= edges.max() < graph.shape[0]:
        raise PatternError(f"Expected nodes from 0 to {graph.shape[0] - 1} in the edges of jsparse.graph.link_batches.")
    if size < 1:
        raise ShapeError(f"Expected the batch_size of jsparse.graph.link_batches to be 1 or more, but got {size}.")
    ratio = float(edge_label is None) if neg_sampling_ratio is None else neg_sampling_ratio
    count = edges.shape[1]
    labels = np.broadcast_to(_labels(1.0 if edge_label is None else edge_label, count, "link_batches"), count)
    graph_of_messages = like(A, graph if graph.is_dynamic else graph.dynamic())
    hops = _hops(num_neighbors)

    def batches() -> Iterator[LinkSample]:  # arguments are checked before the first batch is asked for
        key_of_batches, drawn = jax.random.split(key)
        order = np.asarray(jax.random.permutation(drawn, count)) if shuffle else np.arange(count)
        for start in range(0, count - size + 1 if drop_last else count, size):
            numbers = order[start : start + size]
            some = np.full((2, size), graph.shape[0], np.int32)
            some[:, : len(numbers)] = edges[:, numbers]
            label = np.zeros(size, labels.dtype)
            label[: len(numbers)] = labels[numbers]
            key_of_batch = jax.random.fold_in(key_of_batches, start)
            yield _sample_links(key_of_batch, graph_of_messages, some, label, hops, int(size * ratio))

    return batches()


@partial(jax.jit, static_argnums=(4, 5))
def _sample_links(
    key: jax.Array, graph: Graph, edges: jax.Array, labels: jax.Array, hops: tuple[int, ...], negatives: int
) -> LinkSample:
    return sample_links(key, graph, edges, hops, num_neg_samples=negatives, edge_label=labels)


def _hops(fanouts: Sequence[int]) -> tuple[int, ...]:
    if not isinstance(fanouts, list | tuple) or not fanouts:
        raise ShapeError(
            "Expected num_neighbors of jsparse.graph to be a list with a number for each hop, but got "
            f"{short_repr(fanouts)}."
        )
    return tuple(as_integer(one, "num_neighbors of jsparse.graph") for one in fanouts)


def _edges(ends: ArrayLike, nodes: int, what: str) -> Array:
    expected = f"edges of jsparse.graph.{what}, integers of shape (2, edges)"
    array = known_or_traced(ends, expected)
    if array.ndim != 2 or array.shape[0] != 2:
        raise ShapeError(
            f"Expected {expected}, with sources in row 0 and targets in row 1, but got {shorten(array.shape)}."
        )
    if not is_integer(array.dtype):
        raise PatternError(f"Expected {expected}, but got dtype {array.dtype}.")
    return index_numbers(array, nodes)


def _labels(labels: ArrayLike, count: int, what: str) -> Array:
    array = labels if isinstance(labels, jax.Array) else host_array(labels, f"labels of jsparse.graph.{what}")
    if array.shape not in ((), (count,)):
        raise ShapeError(
            f"Expected labels of jsparse.graph.{what}, one for each of {count} edges, but got {shorten(array.shape)}."
        )
    return array.astype(np.float32) if array.dtype == np.float64 else array
