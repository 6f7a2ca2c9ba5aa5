"""Graphs for graph networks: made from edges and points, prepared, batched and sampled.

    >>> A = jsparse.graph.from_edges([0, 1, 2], [1, 2, 0], nodes=3)
    >>> A_hat = jsparse.graph.normalize(jsparse.graph.add_self_loops(A))

A graph is a matrix, a SparseTensor or a pattern: `A[i, j]` is the weight of the edge that carries the message from node
j to node i. Rows are targets and columns are sources, so `A @ X` sums the messages of all nodes. In a pattern, all
weights are one. Given a pattern, a function that does not change weights returns a pattern. You can also pass arrays
from scipy.sparse and `jax.experimental.sparse`: `jsparse.asarray` converts them.
"""

from jsparse.graph.batching import GraphBatch, batch, unbatch
from jsparse.graph.coalescing import coalesce
from jsparse.graph.degrees import degree, normalize
from jsparse.graph.edges import Edges, from_edge_index, from_edges, to_edges
from jsparse.graph.hetero import HeteroBatch, hetero_batch
from jsparse.graph.libraries import from_jraph, from_networkx
from jsparse.graph.link_split import LinkSplit, random_link_split
from jsparse.graph.links import LinkSample, link_batches, sample_links
from jsparse.graph.loops import add_self_loops, remove_self_loops, symmetrize
from jsparse.graph.nearest import knn_graph, radius_graph
from jsparse.graph.negatives import batched_negative_sampling, negative_sampling, structured_negative_sampling
from jsparse.graph.ordering import permute, reorder
from jsparse.graph.sampling import NeighborSample, sample_neighbors
from jsparse.graph.subgraphs import Subgraph, k_hop_subgraph, subgraph

__all__ = [
    "Edges",
    "GraphBatch",
    "HeteroBatch",
    "LinkSample",
    "LinkSplit",
    "NeighborSample",
    "Subgraph",
    "add_self_loops",
    "batch",
    "batched_negative_sampling",
    "coalesce",
    "degree",
    "from_edge_index",
    "from_edges",
    "from_jraph",
    "from_networkx",
    "hetero_batch",
    "k_hop_subgraph",
    "knn_graph",
    "link_batches",
    "negative_sampling",
    "normalize",
    "permute",
    "radius_graph",
    "random_link_split",
    "remove_self_loops",
    "reorder",
    "sample_links",
    "sample_neighbors",
    "structured_negative_sampling",
    "subgraph",
    "symmetrize",
    "to_edges",
    "unbatch",
]
