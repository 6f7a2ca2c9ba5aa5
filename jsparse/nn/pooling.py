"""Reductions of nodes to one vector for each graph of a batch."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jsparse._compat import allow_infinities
from jsparse.errors import ShapeError, short_repr, shorten
from jsparse.graph.graphs import one_of
from jsparse.nn.operands import dense_array, id_array, wide
from jsparse.primitives.rows import row_sums
from jsparse.tensor.sparse_tensor import TensorLike


def pool(x: TensorLike, graph_of: ArrayLike, size: int, reduction: str = "sum") -> jax.Array:
    """Reduce the features of the nodes of each graph of a batch.

        >>> found = jsparse.graph.batch([jsparse.eye(2), jsparse.eye(3)], nodes=8)
        >>> jsparse.nn.pool(jnp.ones((8, 4)), found.graph_of, found.size, "mean").shape
        (2, 4)

    Args:
        x: features (nodes, ...).
        graph_of: the graph of each node, integers (nodes,), as in `jsparse.graph.GraphBatch`. Nodes whose graph is
            out of range are padding.
        size: the number of graphs.
        reduction: "sum", "mean" or "max".

    Returns an array (size, ...), 0 for graphs without nodes.

    Raises ShapeError for another reduction and for shapes that do not fit.
    """
    x, graph_of = _check_features(x, graph_of, size, "pool")
    one_of(reduction, ("sum", "mean", "max"), "the reduction of jsparse.nn.pool")
    counts = jax.ops.segment_sum(jnp.ones(len(graph_of), jnp.int32), graph_of, size)
    counts = counts.reshape(size, *(1,) * (x.ndim - 1))
    if reduction == "max":
        with allow_infinities():  # of graphs without nodes
            greatest = jax.ops.segment_max(x, graph_of, size)
        return jnp.where(counts > 0, greatest, 0)
    sums = row_sums(wide(x), [graph_of], (size,))
    result = sums if reduction == "sum" else sums / jnp.maximum(counts, 1).astype(sums.dtype)
    return result.astype(x.dtype)


def attention_pool(x: ArrayLike, scores: ArrayLike, graph_of: ArrayLike, size: int) -> jax.Array:
    """Sum the features of the nodes in each graph. The weights are a softmax of scores over the nodes of the graph.

        >>> found = jsparse.graph.batch([jsparse.eye(2), jsparse.eye(3)], nodes=8)
        >>> jsparse.nn.attention_pool(jnp.ones((8, 4)), jnp.zeros(8), found.graph_of, found.size)[0]
        Array([1., 1., 1., 1.], dtype=float32)

    Li et al., "Gated graph sequence neural networks", 2016.

    Args:
        x: features (nodes, features).
        scores: (nodes,), usually a linear function of the features.
        graph_of, size: as in `pool`.

    Returns an array (size, features), 0 for graphs without nodes.

    Raises ShapeError for shapes that do not fit.
    """
    rows, owner = _check_features(x, graph_of, size, "attention_pool")
    logits: jax.Array = dense_array(scores, "attention_pool", "scores (nodes,)")
    dtype = jnp.result_type(rows, logits)
    rows, logits = wide(rows), wide(logits)
    if logits.shape != owner.shape or rows.ndim != 2:
        raise ShapeError(
            "Expected features (nodes, features) and a score for each node in attention_pool, but got "
            f"{shorten(rows.shape)} and {shorten(logits.shape)}."
        )
    if not size:  # JAX gathers nothing from an empty array
        return jnp.zeros((0, rows.shape[1]), dtype)
    with allow_infinities():  # of graphs without nodes
        most = jax.lax.stop_gradient(jax.ops.segment_max(logits, owner, size))
    most = jnp.where(jnp.isfinite(most), most, 0)  # of a graph without nodes, or whose scores are all -inf
    is_node = (owner >= 0) & (owner < size)
    shifted = jnp.where(is_node, logits - most.at[owner].get(mode="fill", fill_value=0), 0)
    weights = jnp.where(is_node, jnp.exp(shifted), 0)
    sums = row_sums(weights, [owner], (size,))
    total = row_sums(weights[:, None] * rows, [owner], (size,))
    return (total / jnp.where(sums == 0, 1, sums)[:, None]).astype(dtype)


def _check_features(x: TensorLike, graph_of: ArrayLike, size: int, what: str) -> tuple[jax.Array, jax.Array]:
    if not isinstance(size, int) or size < 0:
        raise ShapeError(f"Expected the number of graphs as size in {what}, but got {short_repr(size)}.")
    x = dense_array(x, what, "features (nodes, ...)")
    graph_of = id_array(graph_of, what, "the graph of each node, integers (nodes,),", size)
    if graph_of.ndim != 1 or x.shape[:1] != graph_of.shape or not jnp.issubdtype(graph_of.dtype, jnp.integer):
        raise ShapeError(
            f"Expected features (nodes, ...) and the graph of each node, integers (nodes,), in {what}, but got "
            f"{shorten(x.shape)}, and {graph_of.dtype} of shape {shorten(graph_of.shape)}."
        )
    return x, graph_of
