"""Sums, means and maxima of rows of a table."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jsparse.compiler.dtypes import arithmetic_dtype
from jsparse.errors import ShapeError, shorten
from jsparse.graph.degrees import inverse
from jsparse.graph.graphs import one_of
from jsparse.nn.operands import dense_array, id_array, wide
from jsparse.ops.evaluate import evaluate
from jsparse.tensor.sparse_tensor import SparseTensor


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
