"""Degrees of nodes, and normalisation of graphs by degrees."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jsparse.graph.graphs import Graph, as_graph, is_pattern, one_of
from jsparse.ops.einsum import contract
from jsparse.ops.reductions.reductions import sum_over
from jsparse.ops.relocation.operands import as_axis
from jsparse.planning.dtypes import convert_dtype, wide_float
from jsparse.tensor.sparse_tensor import SparseTensor

KINDS = {"symmetric": "ij,i,j->ij", "row": "ij,i->ij", "column": "ij,j->ij"}


def degree(A: Graph, axis: int = 1) -> jax.Array:
    """Compute the degree of each node: the sum of the weights of its edges, or the number of its edges in a pattern.

        >>> jsparse.graph.degree(jsparse.eye(3).pattern)
        Array([1, 1, 1], dtype=int32)

    Args:
        A: the graph; (targets, sources) if it is bipartite.
        axis: 1 for the sums of rows, over the edges that end at a node; 0 for the sums of columns, over the edges that
            start at it.

    Returns an array of shape (targets,) or (sources,), in the dtype of a sum of the weights (integers for a pattern).
    Raises ShapeError if the axis is invalid or the graph is not a matrix, DTypeError for dense arrays.
    """
    graph = as_graph(A, "degree", square=False)
    return _degrees(A if is_pattern(A) else graph, as_axis(axis, 2, "graph.degree"))


def _degrees(graph: Graph, axis: int) -> jax.Array:
    """Compute the degrees of a graph that has been checked."""
    if isinstance(graph, SparseTensor):
        counts: jax.Array = sum_over(graph, (axis,))
        return counts
    return contract("ij->i" if axis else "ij->j", graph)


def normalize(A: Graph, kind: str = "symmetric") -> SparseTensor:
    """Divide the weights of a graph by degrees. The pattern stays, and the result is differentiable in the weights.

        >>> A_hat = jsparse.graph.normalize(jsparse.graph.add_self_loops(S))  # of a graph convolutional network

    The symmetric kind comes from Kipf and Welling, "Semi-supervised classification with graph convolutional networks"
    (2017).

    Args:
        A: the graph, of shape (nodes, nodes), or (targets, sources) for the kinds "row" and "column".
        kind: the normalisation, where D is the diagonal matrix of the sums of rows.
            "symmetric": D^-1/2 A D^-1/2. Both factors use the sums over edges that end at a node. In a directed graph,
                the messages of a node at which no edge ends are therefore 0. Self-loops avoid this.
            "row": D^-1 A, so that products are means over the neighbours, weighted by A; the rows add up to 1.
            "column": A C^-1, where C is the diagonal matrix of the sums of columns, as in a random walk; the columns
                add up to 1.

    A degree of 0 gets the inverse 0, so nodes without edges do not cause NaN in results or gradients. With the
    symmetric kind, negative degrees give NaN. Degrees of float16 and bfloat16 are sums in float32.

    Returns a tensor with the pattern of the graph and the dtype of the weights, or JAX's float for integers and
    patterns. Raises ShapeError if the kind or the shape of the graph is invalid, DTypeError for dense arrays.
    """
    one_of(kind, tuple(KINDS), "the kind of jsparse.graph.normalize")
    graph = as_graph(A, "normalize", square=kind == "symmetric")
    dtype = graph.dtype if jnp.issubdtype(graph.dtype, jnp.inexact) else jnp.result_type(float)
    weights = convert_dtype(graph, wide_float(dtype))
    operand = A if is_pattern(A) else weights
    sums = convert_dtype(_degrees(operand, 0 if kind == "column" else 1), weights.dtype)
    scale = inverse(sums, root=kind == "symmetric")
    factors = (scale, scale) if kind == "symmetric" else (scale,)
    scaled: SparseTensor = contract(KINDS[kind], operand, *factors)
    return convert_dtype(scaled, dtype)


def inverse(degrees: jax.Array, *, root: bool = False) -> jax.Array:
    """Return 1 / d, or 1 / √d with `root`. If d is 0, the result and its derivative are 0."""
    empty = degrees == 0
    safe = jnp.where(empty, 1, degrees)
    return jnp.where(empty, 0, jax.lax.rsqrt(safe) if root else 1 / safe)
