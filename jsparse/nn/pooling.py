"""Reductions of nodes to one vector for each graph of a batch.

Sums, means and maxima of rows of a table.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jsparse._compat import allow_infinities
from jsparse.compiler.dtypes import arithmetic_dtype
from jsparse.errors import ShapeError, short_repr, shorten
from jsparse.graph.degrees import inverse
from jsparse.graph.graphs import one_of
from jsparse.nn.operands import dense_array, id_array, wide
from jsparse.ops.evaluate import evaluate
from jsparse.primitives.rows import row_sums
from jsparse.tensor.sparse_tensor import SparseTensor, TensorLike


def embedding_bag(
    table: ArrayLike, ids: ArrayLike, weights: ArrayLike | None = None, *, reduction: str = "sum"
) -> jax.Array:
    """Compute the sum, the mean or the maximum of the rows that each bag of ids selects in a table.

        out[b] = Σ over k of weights[b, k] · table[ids[b, k]]

        >>> table = jnp.arange(12.0).reshape(6, 2)
        >>> jsparse.nn.embedding_bag(table, jnp.array([[1, 1, -1], [5, 0, 6]]))
        Array([[ 4.,  6.],
               [10., 12.]], dtype=float32)

    No array (bags, size, features) is made, neither here nor in the gradient. If the bags are a SparseTensor (bags,
    rows), use the product `bags @ table`.

    Args:
        table: (rows, features).
        ids: integers (bags, size). Ids out of range, such as -1, are padding.
        weights: (bags, size), or None for ones.
        reduction: "sum"; "mean" for the sum divided by the total weight of the ids that are not padding; or "max" for
            the greatest weights[b, k] · table[ids[b, k]], whose derivative is divided among all greatest products.

    Returns an array (bags, features), 0 for empty bags, and for a mean whose weights add up to 0.

    Raises ShapeError for another reduction, and for shapes and dtypes of ids that do not fit.
    """
    table = dense_array(table, "embedding_bag", "a table (rows, features)")
    ids = id_array(ids, "embedding_bag", "ids (bags, size)", len(table) if table.ndim else 0)
    one_of(reduction, ("sum", "mean", "max"), "the reduction of jsparse.nn.embedding_bag")
    if table.ndim != 2 or ids.ndim != 2 or not jnp.issubdtype(ids.dtype, jnp.integer):
        raise ShapeError(
            f"Expected a table (rows, features) and integers (bags, size) in embedding_bag, but got "
            f"{shorten(table.shape)}, and {ids.dtype} of shape {shorten(ids.shape)}."
        )
    factors = jnp.ones(ids.shape, table.dtype) if weights is None else jnp.asarray(weights)
    if factors.shape != ids.shape:
        raise ShapeError(f"Expected weights {ids.shape} in embedding_bag, but got {shorten(factors.shape)}.")
    dtype = jnp.result_type(factors, table)
    factors = wide(factors) if reduction == "mean" else factors  # it divides as well
    rows = evaluate(
        f"out[b,f] {'max' if reduction == 'max' else '+'}= w[b,k] * table[ids[b,k],f]",
        w=factors,
        table=table,
        ids=ids,
        preferred_element_type=arithmetic_dtype(dtype.name),
    )
    assert not isinstance(rows, SparseTensor)
    is_id = (ids >= 0) & (ids < table.shape[0])
    if reduction == "mean":
        rows = rows * inverse(jnp.where(is_id, factors, 0).sum(1, dtype=rows.dtype))[:, None]
    elif reduction == "max":
        rows = jnp.where(is_id.any(1)[:, None], rows, 0)
    return rows.astype(dtype)


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
            f"Expected features (nodes, features) and a score for each node in attention_pool, but got "
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
