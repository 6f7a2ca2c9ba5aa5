"""Graphs of points: edges to the nearest points, or to all points within a radius."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jsparse.base.arrays import Array, check_numbers, is_integer, jax_array
from jsparse.convert.coordinate_creation import from_coords
from jsparse.errors import DTypeError, PatternError, ShapeError, short_repr, shorten
from jsparse.graph.graphs import known_or_traced, one_of
from jsparse.graph.neighbours import NeighbourSearch, close_pairs, nearest_known, nearest_traced
from jsparse.ops.relocation.operands import as_integer
from jsparse.tensor.sparse_tensor import SparseTensor


def knn_graph(
    x: ArrayLike,
    k: int,
    batch: ArrayLike | None = None,
    loop: bool = False,
    *,
    metric: str = "euclidean",
    include_self: bool | None = None,
) -> SparseTensor:
    """Connect each point to its nearest neighbours: `A[i, j]` is 1 if j is one of the k nearest neighbours of i.

        >>> A = jsparse.graph.knn_graph(jnp.array([[0.0], [1.0], [3.0]]), 1)
        >>> A.todense()
        Array([[0., 1., 0.],
               [1., 0., 0.],
               [0., 1., 0.]], dtype=float32)

    The result is directed, j → i: `symmetrize` makes it undirected. Among points at equal distances, the first ones are
    taken. Known points of at most 10 dimensions are searched with a SciPy k-d tree, in float64, in about n log n steps.
    For all other points, distances are computed for a block of rows at a time, so the memory grows with n, and the time
    with n². Their neighbours differ from the exact ones only where distances agree up to the rounding of |x|² - 2 xy +
    |y|².

    Args:
        x: the points, real numbers of shape (n, dimensions), known or traced.
        k: the number of neighbours, at least 1.
        batch: the graph of each point, integers (n,) in any order, known or traced, such as `GraphBatch.graph_of`.
            A point's neighbours are in the same graph. If the graph has fewer than k points, all are neighbours.
        loop: whether a point is always one of its own k neighbours; if not, it never is.
        metric: "euclidean", or "cosine" for 1 - cos of the angle, where a point at 0 has the distance 1 to all others.
        include_self: another name for `loop`.

    Returns a tensor of shape (n, n) in csr. It stores n · k ones, fewer if a graph of the batch is too small, in the
    dtype of the points, or in JAX's float for integers. It is static if points and batch are known. Otherwise it is
    dynamic, of capacity n · k, with NaN at neighbours whose distance is not finite.

    Raises ShapeError for an invalid shape of the points or the batch, and for an invalid k or metric; PatternError for
    known points with NaN or infinity; DTypeError unless the points are real numbers and the batch holds integers.
    """
    points = _points(x, "knn_graph")
    one_of(metric, ("euclidean", "cosine"), "the metric of jsparse.graph.knn_graph")
    n, count = points.shape[0], as_integer(k, "the k of jsparse.graph.knn_graph")
    loop = bool(loop if include_self is None else include_self)
    graph_of, most = _graph_of(batch, n, "knn_graph"), n if loop else max(n - 1, 0)
    if count < 1 or (graph_of is None and count > most and n):
        raise ShapeError(
            f"Expected the k of jsparse.graph.knn_graph to be from 1 to {most}, the number of neighbours that each of "
            f"{n} points has, but got {count}."
        )
    return _connect_neighbours(points, graph_of, np.inf, NeighbourSearch(min(count, most), loop, metric))


def radius_graph(
    x: ArrayLike,
    r: ArrayLike,
    batch: ArrayLike | None = None,
    loop: bool = False,
    max_num_neighbors: int | None = 32,
) -> SparseTensor:
    """Connect points that are near each other: `A[i, j]` is 1 if the distance from i to j is at most r.

        >>> A = jsparse.graph.radius_graph(jnp.array([[0.0], [1.0], [3.0]]), 1.5)
        >>> A.todense()
        Array([[0., 1., 0.],
               [1., 0., 0.],
               [0., 0., 0.]], dtype=float32)

    A point with more than `max_num_neighbors` neighbours keeps the nearest ones, and the first ones among points at
    equal distances. The graph is therefore directed, j → i. Neighbours are found as in `knn_graph`.

    Args:
        x: the points, real numbers of shape (n, dimensions), known or traced.
        r: the largest Euclidean distance, a number, known or traced. It is rounded to the dtype of the points.
        batch: the graph of each point, integers (n,) in any order, known or traced. A point's neighbours are in the
            same graph.
        loop: whether a point is always one of its own neighbours; if not, it never is.
        max_num_neighbors: the most neighbours of a point, itself included if `loop`; by default 32, as in PyTorch
            Geometric. With None, all neighbours are kept; all arguments must then be known.

    Returns a tensor of shape (n, n) in csr. It stores ones in the dtype of the points, or in JAX's float for integers.
    It is static if all arguments are known. Otherwise it is dynamic, of capacity n · max_num_neighbors, with NaN at
    neighbours of points that are not finite.

    Raises ShapeError for an invalid shape of the points or the batch, and for an invalid r or max_num_neighbors;
    PatternError for known points with NaN or infinity, and for traced points without max_num_neighbors; DTypeError
    unless the points are real numbers and the batch holds integers.
    """
    points = _points(x, "radius_graph")
    n, graph_of, radius = points.shape[0], _graph_of(batch, points.shape[0], "radius_graph"), _radius(r, points.dtype)
    loop, most = bool(loop), n if loop else max(n - 1, 0)
    if max_num_neighbors is None:
        if not _is_known(points, graph_of, radius):
            raise PatternError(
                "Expected max_num_neighbors= of jsparse.graph.radius_graph, the capacity for each point, because the "
                "points, the batch or the radius are traced. Pass a number."
            )
        return _of_pairs(*close_pairs(points, _as_numpy(graph_of), float(radius), loop=loop), points)
    count = as_integer(max_num_neighbors, "max_num_neighbors of jsparse.graph.radius_graph")
    if count < 1:
        raise ShapeError(
            "Expected max_num_neighbors of jsparse.graph.radius_graph to be 1 or more, or None for all neighbours, "
            f"but got {count}."
        )
    return _connect_neighbours(points, graph_of, radius, NeighbourSearch(min(count, most), loop))


def _connect_neighbours(
    points: jax.Array, graph_of: Array | None, radius: float | jax.Array, search: NeighbourSearch
) -> SparseTensor:
    """Make the graph of the neighbours that a search finds."""
    n = points.shape[0]
    if not search.k:
        return _of_pairs(np.zeros(0, int), np.zeros(0, int), points)
    if _is_known(points, graph_of, radius):
        return _of_pairs(*nearest_known(points, _as_numpy(graph_of), float(radius), search), points)
    sources, exists, distances = nearest_traced(points, graph_of, radius, search)
    targets = jnp.arange(n, dtype=sources.dtype)[:, None]
    coords = jnp.stack([jnp.where(exists, ends, n).reshape(-1) for ends in (targets, sources)])
    weights = jnp.where(jnp.isfinite(distances), 1, jnp.nan).astype(points.dtype).reshape(-1)
    return from_coords(coords, weights, (n, n), "csr", nse=n * search.k)


def _is_known(*arrays: object) -> bool:
    return not any(isinstance(x, jax.core.Tracer) for x in arrays)


def _as_numpy(graph_of: Array | None) -> np.ndarray | None:
    return None if graph_of is None else np.asarray(graph_of)


def _of_pairs(targets: np.ndarray, sources: np.ndarray, points: jax.Array) -> SparseTensor:
    n = points.shape[0]
    return from_coords(np.stack([targets, sources]), np.ones(len(targets), points.dtype), (n, n), "csr")


def _points(x: ArrayLike, what: str) -> jax.Array:
    expected = f"points for jsparse.graph.{what}, real numbers of shape (n, dimensions)"
    points = jax_array(x, expected)
    check_numbers(points.dtype, expected)
    if jnp.issubdtype(points.dtype, jnp.complexfloating):
        raise DTypeError(f"Expected {expected}, but got dtype {points.dtype}. Pass their real and imaginary parts.")
    if points.ndim != 2:
        raise ShapeError(f"Expected {expected}, but got shape {points.shape}.")
    if not isinstance(points, jax.core.Tracer) and not np.isfinite(np.asarray(points, np.float64)).all():
        row = int(np.argmin(np.isfinite(np.asarray(points, np.float64)).all(axis=1)))
        raise PatternError(f"Expected finite {expected}, but row {row} has NaN or infinity. Leave such points out.")
    return points if jnp.issubdtype(points.dtype, jnp.inexact) else points.astype(float)


def _graph_of(batch: ArrayLike | None, n: int, what: str) -> Array | None:
    """Return the index of each point's graph, as a numpy array unless it is traced; None without a `batch`."""
    if batch is None:
        return None
    expected = f"batch= of jsparse.graph.{what} to be the graph of each point, integers of shape ({n},)"
    numbers = known_or_traced(batch, expected)
    if numbers.shape != (n,):
        raise ShapeError(f"Expected {expected}, but got shape {shorten(numbers.shape)}.")
    if n and not is_integer(numbers.dtype):
        raise DTypeError(f"Expected {expected}, but got dtype {numbers.dtype}.")
    return numbers


def _radius(r: ArrayLike, dtype: np.dtype) -> float | jax.Array:
    """Convert the radius to the dtype of the points, so that a radius 0.1 is rounded like a coordinate 0.1."""
    expected = "the r of jsparse.graph.radius_graph to be a number, 0 or more"
    array = jax_array(r, expected)
    if array.shape or jnp.issubdtype(array.dtype, jnp.complexfloating):
        raise ShapeError(f"Expected {expected}, but got {array.dtype} of shape {shorten(array.shape)}.")
    if isinstance(array, jax.core.Tracer):
        return array.astype(dtype)
    radius = float(np.asarray(r).astype(dtype))
    if not radius >= 0:
        raise ShapeError(f"Expected {expected}, but got {short_repr(r)}.")
    return radius
