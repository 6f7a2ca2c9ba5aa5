"""Edges from nodes to themselves, and edges in both directions."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jsparse.base.arrays import allocate_aligned, jax_array
from jsparse.errors import ShapeError
from jsparse.formats import Format, Pattern
from jsparse.formats.build import index_dtype
from jsparse.graph.graphs import Graph, as_graph, like, one_of
from jsparse.ops.elementwise.bounded import add
from jsparse.ops.evaluate import evaluate
from jsparse.ops.indexing.at_coords import coords
from jsparse.ops.surgery.prune import prune
from jsparse.primitives.host import is_on_host, on_device
from jsparse.tensor.sparse_tensor import SparseTensor

_GREATER_OF_EXISTING = "C[i,j] = where(P[i,j] * Q[i,j], max(A[i,j], B[i,j]), A[i,j] + B[i,j])"


def add_self_loops(A: Graph, weight: ArrayLike = 1) -> SparseTensor:
    """Add an edge from each node to itself: A + weight · I. An existing self-loop adds its weight.

        >>> jsparse.graph.add_self_loops(S).diagonal()

    Args:
        A: the graph, of shape (nodes, nodes).
        weight: a number, or an array (nodes,) of one number for each node. The result is differentiable in the weight.

    Returns a tensor. If the graph is dynamic, so is the tensor, with room for all self-loops. The dtype promotes as in
    a sum. Raises ShapeError if the graph is not square or the weight has another shape, DTypeError if the graph is a
    dense array.
    """
    graph = as_graph(A, "add_self_loops")
    by = jax_array(weight, "a number as the weight of jsparse.graph.add_self_loops")
    nodes = graph.shape[0]
    if by.shape not in ((), (nodes,)):
        raise ShapeError(
            f"Expected the weight of jsparse.graph.add_self_loops to be a number, or of shape ({nodes},), but got "
            f"shape {by.shape}."
        )
    dtype = np.dtype(jnp.result_type(graph.values, by))
    numbers = np.arange(nodes + 1, dtype=index_dtype([nodes], []))
    pattern = Pattern._of_valid((nodes, nodes), Format.of("csr", 2), (numbers, numbers[:-1].copy()))
    if isinstance(by, jax.core.Tracer) or not is_on_host(graph.values):
        weights = jnp.broadcast_to(by, (nodes,)).astype(dtype)
    else:  # known loops are made on the host, because graphs often have new numbers of nodes
        on_host = allocate_aligned((nodes,), dtype)
        on_host[...] = by
        weights = on_device([on_host], [graph.values])[0]
    return add(graph, SparseTensor._wrap(weights, pattern))


def remove_self_loops(A: Graph) -> Graph:
    """Remove the edges from nodes to themselves.

        >>> jsparse.graph.remove_self_loops(jsparse.eye(3)).nse
        0

    Args:
        A: the graph, of shape (nodes, nodes).

    Returns a graph of the same dtype and format, a pattern for a pattern. A dynamic graph keeps its capacity.
    Raises ShapeError if the graph is not square, DTypeError for dense arrays.
    """
    graph = as_graph(A, "remove_self_loops")
    rows, columns = coords(graph)
    return like(A, prune(graph, mask=rows != columns))


def symmetrize(A: Graph, kind: str = "maximum") -> Graph:
    """Make a graph undirected: where `A` has an edge in one direction, the result has edges in both directions.

        >>> P = jsparse.graph.symmetrize(jsparse.graph.knn_graph(jnp.eye(4), 2))

    Args:
        A: the graph, of shape (nodes, nodes).
        kind: the weight of an edge. "maximum": the greater weight of both directions, so that weights of one stay ones,
            and the weight that exists if there is one direction only, so that -1 stays -1. "mean": half of the sum of
            both weights. "sum": their sum. In a mean or a sum, a missing edge has the weight 0.

    Returns a graph, a pattern for a pattern. A dynamic result has twice the capacity of A. The result is
    differentiable in the weights. Raises ShapeError if the graph is not square or the kind is invalid, DTypeError for
    dense arrays.
    """
    graph = as_graph(A, "symmetrize")
    one_of(kind, ("maximum", "mean", "sum"), "the kind of jsparse.graph.symmetrize")
    if kind == "maximum":
        other = graph.T
        operands: dict[str, Any] = {"A": graph, "B": other, "P": graph.pattern, "Q": other.pattern}
        greater = evaluate(_GREATER_OF_EXISTING, **operands)
        assert isinstance(greater, SparseTensor)
        return like(A, greater)
    if kind == "mean":
        graph = graph * 0.5  # before the sum, which may be too large for the dtype of the weights
    return like(A, add(graph, graph.T))
