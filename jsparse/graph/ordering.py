"""Reordering of the nodes of a graph."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax.typing import ArrayLike

from jsparse.base.arrays import Array, is_integer
from jsparse.errors import ShapeError, shorten
from jsparse.formats import Pattern
from jsparse.graph.graphs import Graph, as_graph, known_or_traced, like, one_of
from jsparse.ops.indexing.getitem import take


def reorder(A: Graph, method: str = "rcm") -> np.ndarray:
    """Find an order of the nodes in which products with the graph read nearby memory.

        >>> permutation = jsparse.graph.reorder(S)
        >>> near = jsparse.graph.permute(S, permutation)  # and X[permutation]

    Args:
        A: the graph, of shape (nodes, nodes). Only its pattern matters, not its weights.
        method: "rcm" for SciPy's reverse Cuthill-McKee order, in which neighbours have close indices (Cuthill and
            McKee, "Reducing the bandwidth of sparse symmetric matrices", 1969). "degree" to sort nodes by the number of
            entries in their rows, in descending order, so that the nodes that are read most often are adjacent. Nodes
            with equal numbers of entries keep their order.

    Returns the permutation, an int32 array (nodes,): the node at position i is `permutation[i]`.

    Raises ShapeError if the method is invalid or the graph is not square, PatternError if index arrays are traced,
    DTypeError for dense arrays.
    """
    graph = as_graph(A, "reorder").static()
    one_of(method, ("rcm", "degree"), "the method of jsparse.graph.reorder")
    assert isinstance(graph.pattern, Pattern)
    rows, columns = graph.pattern.to_coords()
    nodes = graph.shape[0]
    if method == "degree":
        return np.argsort(-np.bincount(rows, minlength=nodes), kind="stable").astype(np.int32)
    if not len(rows):
        return np.arange(nodes, dtype=np.int32)
    from scipy.sparse import csr_array  # noqa: PLC0415  # both are slow to import
    from scipy.sparse.csgraph import reverse_cuthill_mckee  # noqa: PLC0415

    structure = csr_array((np.ones(len(rows), np.int8), (rows, columns)), graph.shape)
    return np.asarray(reverse_cuthill_mckee(structure, symmetric_mode=False), np.int32)


def permute(A: Graph, permutation: ArrayLike) -> Graph:
    """Renumber the nodes: the result is `A[permutation][:, permutation]`, whose node i was node `permutation[i]`.

        >>> jsparse.graph.permute(S, np.arange(100)[::-1])

    Reorder features of nodes as `X[permutation]`, and restore their order as `Y[np.argsort(permutation)]`.

    Args:
        A: the graph, of shape (nodes, nodes).
        permutation: integers of shape (nodes,), in which each number from 0 to nodes - 1 occurs once. A traced
            permutation is not checked, and makes the result dynamic.

    Returns a graph of the same dtype and format, a pattern for a pattern, differentiable in the weights. A dynamic
    graph keeps its capacity. Raises ShapeError if `permutation` is not a permutation or the graph is not square,
    DTypeError for dense arrays.
    """
    graph = as_graph(A, "permute")
    order = _permutation(permutation, graph.shape[0])
    renumbered: Any = take(take(graph, order, axis=0, nse=graph.nse), order, axis=1, nse=graph.nse)
    return like(A, renumbered)


def _permutation(permutation: Any, nodes: int) -> Array:
    """The permutation as an array. Raises ShapeError if it is known not to be a permutation."""
    expected = f"a permutation of {nodes} nodes for jsparse.graph.permute, integers of shape ({nodes},)"
    order = known_or_traced(permutation, expected)
    if order.shape != (nodes,) or not is_integer(order.dtype):
        raise ShapeError(f"Expected {expected}, but got {order.dtype} of shape {shorten(order.shape)}.")
    if isinstance(order, jax.core.Tracer):
        return order
    counts = np.bincount(order[(order >= 0) & (order < nodes)], minlength=nodes)
    if (counts != 1).any():
        wrong = int(np.argmax(counts != 1))
        raise ShapeError(f"Expected {expected}, each node once, but node {wrong} occurs {counts[wrong]} times.")
    return order
