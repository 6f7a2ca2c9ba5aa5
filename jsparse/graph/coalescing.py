"""Merges each group of repeated edges into one edge."""

from __future__ import annotations

from math import prod

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jsparse.base.arrays import Array, jax_array
from jsparse.convert.coordinate_creation import from_coords
from jsparse.errors import ShapeError, shorten
from jsparse.formats import Format, Pattern
from jsparse.graph.graphs import Graph, as_graph, one_of
from jsparse.ops.indexing.at_coords import at_coords, coords, locate
from jsparse.ops.reductions import reductions
from jsparse.settings import config
from jsparse.tensor.sparse_tensor import SparseTensor

REDUCE = ("sum", "mean", "min", "max", "mul")


def coalesce(
    A: Graph, edge_features: ArrayLike | None = None, reduce: str = "sum"
) -> SparseTensor | tuple[SparseTensor, jax.Array]:
    """Merge all edges with equal ends into one edge, and reduce their weights and features.

        >>> source, target = jnp.array([0, 0, 1]), jnp.array([1, 1, 2])
        >>> A = jsparse.graph.from_edges(source, target, [2.0, 3.0, 4.0], nodes=3, duplicates="keep")
        >>> features = jnp.array([[1.0, 10.0], [5.0, 20.0], [2.0, 30.0]])[A.coords[2]]
        >>> matrix, reduced = jsparse.graph.coalesce(A, features, "max")
        >>> matrix.values, reduced
        (Array([3., 4.], dtype=float32), Array([[ 5., 20.],
               [ 2., 30.]], dtype=float32))

    Args:
        A: the graph (targets, sources, edges), as `duplicates="keep"` makes it. A matrix has no repeated edges.
        edge_features: numbers (nse, ...) in the order of the stored entries of A.
        reduce: "sum", "mean", "min", "max" or "mul": the reduction of the weights, and of each feature, over edges with
            equal ends.

    Returns the graph (targets, sources) in csr, differentiable in the weights, and if there are features, an array of
    the reduced features in the order of the graph's stored entries, differentiable too. Dtypes stay the same, except
    that means of integers have JAX's float. For a dynamic graph, the results are dynamic with the same capacity, and
    features in padding are 0.

    Raises ShapeError for another `reduce` and for shapes that do not fit, DTypeError for a dense graph.
    """
    graph = as_graph(A, "coalesce", square=False, kept=True)
    one_of(reduce, REDUCE, "reduce= of jsparse.graph.coalesce")
    if edge_features is None:
        return merge_edges(graph, reduce)[0]
    expected = f"edge_features of jsparse.graph.coalesce to be numbers of shape ({graph.nse}, ...)"
    features = jax_array(edge_features, expected)
    if features.shape[:1] != (graph.nse,):
        raise ShapeError(f"Expected {expected}, one row for each stored entry, but got {shorten(features.shape)}.")
    matrix, (reduced,) = merge_edges(graph, reduce, features)
    return matrix, reduced


def merge_edges(
    graph: SparseTensor, reduce: str, *features: jax.Array, format: Format | str = "csr", nse: int | None = None
) -> tuple[SparseTensor, list[jax.Array]]:
    """Merge the repeated edges of a graph. Returns the matrix (targets, sources), and the list of reduced features.

    `nse` is the capacity of a dynamic matrix.
    """
    if graph.ndim == 2:
        return graph, list(features)
    ends, shape = coords(graph)[:2], graph.shape[:2]
    capacity = graph.pattern.capacity if nse is None or not graph.is_dynamic else nse
    with config(overflow="cut"):  # the weights say what is wrong with the pattern
        pattern = from_coords(ends, np.ones((), np.int8), shape, format, nse=capacity).pattern
    pattern = pattern.propagate_overflow(graph.pattern)
    slots: Array
    if isinstance(pattern, Pattern):
        slots = locate(pattern, list(ends))
    else:
        numbers = SparseTensor._wrap(jnp.arange(1, pattern.nse + 1, dtype=np.int32), pattern)
        slots = at_coords(numbers, ends) - 1  # -1 in padding
    weights, *reduced = (_reduce_by_slot(one, slots, pattern.nse, reduce) for one in (graph.values, *features))
    if pattern.padding is not None:
        used = pattern.in_use(jnp.ones(pattern.nse, np.int8)) > 0
        reduced = [jnp.where(used.reshape(-1, *(1,) * (one.ndim - 1)), one, 0) for one in reduced]
    return SparseTensor._poison_on_overflow(pattern.in_use(weights), pattern), [pattern.poison(one) for one in reduced]


def _reduce_by_slot(values: jax.Array, slots: Array, count: int, reduce: str) -> jax.Array:
    """Reduce numbers (edges, ...) to an array (count, ...). Row n is the reduction over the edges with slot n."""
    edges, block = values.shape[0], values.shape[1:]
    numbers = np.arange(edges) if isinstance(slots, np.ndarray) else jnp.arange(edges, dtype=slots.dtype)
    ends = (np if isinstance(slots, np.ndarray) else jnp).stack([slots, numbers])
    rows = values.reshape(edges, prod(block))
    if not rows.size or not count:
        return jnp.zeros((count, *block), values.dtype)
    format, traced = Format.of("csr", 2).with_dense(1), not isinstance(slots, np.ndarray)
    lists = from_coords(ends, rows, (count, *rows.shape), format, nse=rows.size if traced else None)
    if reduce == "sum":
        reduced = reductions.sum(lists, 1, out_format="dense")
    else:
        names = {"mean": reductions.mean, "min": reductions.min, "max": reductions.max, "mul": reductions.prod}
        reduced = names[reduce](lists, 1, stored=True)
    dtype = reduced.dtype if reduce == "mean" else values.dtype
    return jnp.asarray(reduced).astype(dtype).reshape(count, *block)
