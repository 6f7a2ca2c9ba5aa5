"""Graphs for graph networks: made from edges and points, prepared, batched and sampled.

    >>> A = jsparse.graph.from_edges([0, 1, 2], [1, 2, 0], nodes=3)
    >>> A_hat = jsparse.graph.normalize(jsparse.graph.add_self_loops(A))

A graph is a matrix, a SparseTensor or a pattern: `A[i, j]` is the weight of the edge that carries the message from node
j to node i. Rows are targets and columns are sources, so `A @ X` sums the messages of all nodes. A pattern has weights
of one, and functions that leave all weights alone give a pattern for a pattern. Arrays of scipy.sparse and of
`jax.experimental.sparse` are graphs, too; `jsparse.asarray` converts them.
"""

from jsparse.graph.batching import GraphBatch as GraphBatch
from jsparse.graph.batching import batch as batch
from jsparse.graph.batching import unbatch as unbatch
from jsparse.graph.coalescing import coalesce as coalesce
from jsparse.graph.degrees import degree as degree
from jsparse.graph.degrees import normalize as normalize
from jsparse.graph.edges import Edges as Edges
from jsparse.graph.edges import from_edge_index as from_edge_index
from jsparse.graph.edges import from_edges as from_edges
from jsparse.graph.edges import to_edges as to_edges
from jsparse.graph.hetero import HeteroBatch as HeteroBatch
from jsparse.graph.hetero import hetero_batch as hetero_batch
from jsparse.graph.libraries import from_jraph as from_jraph
from jsparse.graph.libraries import from_networkx as from_networkx
from jsparse.graph.link_split import LinkSplit as LinkSplit
from jsparse.graph.link_split import random_link_split as random_link_split
from jsparse.graph.links import LinkSample as LinkSample
from jsparse.graph.links import link_batches as link_batches
from jsparse.graph.links import sample_links as sample_links
from jsparse.graph.loops import add_self_loops as add_self_loops
from jsparse.graph.loops import remove_self_loops as remove_self_loops
from jsparse.graph.loops import symmetrize as symmetrize
from jsparse.graph.nearest import knn_graph as knn_graph
from jsparse.graph.nearest import radius_graph as radius_graph
from jsparse.graph.negatives import batched_negative_sampling as batched_negative_sampling
from jsparse.graph.negatives import negative_sampling as negative_sampling
from jsparse.graph.negatives import structured_negative_sampling as structured_negative_sampling
from jsparse.graph.ordering import permute as permute
from jsparse.graph.ordering import reorder as reorder
from jsparse.graph.sampling import NeighborSample as NeighborSample
from jsparse.graph.sampling import sample_neighbors as sample_neighbors
from jsparse.graph.subgraphs import Subgraph as Subgraph
from jsparse.graph.subgraphs import k_hop_subgraph as k_hop_subgraph
from jsparse.graph.subgraphs import subgraph as subgraph
