"""The graph of nearest neighbours of points."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jsparse.base.arrays import check_numbers, jax_array
from jsparse.convert.coordinate_creation import from_coords
from jsparse.errors import DTypeError, PatternError, ShapeError
from jsparse.graph.graphs import one_of
from jsparse.ops.relocation.operands import as_integer
from jsparse.planning.dtypes import wide_float
from jsparse.tensor.sparse_tensor import SparseTensor

__all__ = ["knn_graph"]

BLOCK = 2**22  # the elements of the largest array
SPARE = 8  # the candidates beside k, whose distances are computed without cancellation


def knn_graph(x: ArrayLike, k: int, *, include_self: bool = False, metric: str = "euclidean") -> SparseTensor:
    """Connect each point to its k nearest ones: `A[i, j]` is 1 if j is among the k nearest neighbours of i.

        >>> A = jsparse.graph.knn_graph(jnp.array([[0.0], [1.0], [3.0]]), 1)
        >>> A.todense()
        Array([[0., 1., 0.],
               [1., 0., 0.],
               [0., 1., 0.]], dtype=float32)

    The result is directed: `symmetrize` makes it undirected. Distances are computed for a block of rows at a time, so
    the memory grows with n, and the time with n². Of equal distances the first points are taken. The squares
    |x|² - 2 xy + |y|² of centred points choose a few more than k, whose differences are then compared: neighbours
    differ from exact ones only where distances agree up to the rounding of these squares.

    Args:
        x: the points, real numbers of shape (n, dimensions), known or traced.
        k: the number of neighbours, at least 1.
        include_self: whether a point is one of its own k neighbours, always, or never.
        metric: "euclidean", or "cosine" for 1 - cos of the angle, where a point at 0 has the distance 1 to all others.

    Returns a tensor of shape (n, n) in csr with n · k ones of the dtype of the points, or JAX's float for integers. It
    is static if the points are known. If they are traced it is dynamic, with NaN at neighbours whose distance is not
    finite.

    Raises ShapeError (shape of the points, k, metric), PatternError for known points with NaN or infinity, DTypeError
    unless they are real numbers.
    """
    points = _points(x)
    one_of(metric, ("euclidean", "cosine"), "the metric of jsparse.graph.knn_graph")
    n, count = points.shape[0], as_integer(k, "the k of jsparse.graph.knn_graph")
    most = n if include_self else n - 1
    if not 1 <= count <= most:
        raise ShapeError(
            f"Expected the k of jsparse.graph.knn_graph to be from 1 to {most}, the number of neighbours that each of "
            f"{n} points has, but got {count}."
        )
    columns, distances = _nearest(points, k=count, include_self=bool(include_self), metric=metric)
    dtype = points.dtype
    shape, size = (n, n), n * count
    if not isinstance(columns, jax.core.Tracer):
        coords = np.stack([np.repeat(np.arange(n), count), np.asarray(columns).reshape(-1)])
        return from_coords(coords, np.ones(size, dtype), shape, "csr")
    weights = jnp.where(jnp.isfinite(distances), 1, jnp.nan).astype(dtype).reshape(-1)
    rows = jnp.repeat(jnp.arange(n, dtype=columns.dtype), count, total_repeat_length=size)
    return from_coords(jnp.stack([rows, columns.reshape(-1)]), weights, shape, "csr", nse=size)


def _points(x: ArrayLike) -> jax.Array:
    expected = "points for jsparse.graph.knn_graph, real numbers of shape (n, dimensions)"
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


@partial(jax.jit, static_argnames=("k", "include_self", "metric"))
def _nearest(x: jax.Array, *, k: int, include_self: bool, metric: str) -> tuple[jax.Array, jax.Array]:
    """The neighbours of each point, (n, k), and measures of their distances, which grow with them."""
    x = jax.lax.stop_gradient(x).astype(wide_float(x.dtype))
    n = x.shape[0]
    if metric == "cosine":
        # Of unit vectors |u - v|² = 2 (1 - cos). At 0, which has no direction, 1 is added, which makes it 2.
        length = jnp.linalg.norm(x, axis=1, keepdims=True)
        x = x / jnp.where(length == 0, 1, length)
        more = (length[:, 0] == 0).astype(x.dtype)
    else:
        centre = jnp.where(jnp.isfinite(x), x, 0).mean(axis=0)
        x, more = x - centre, jnp.zeros(n, x.dtype)
    squares = (x * x).sum(axis=1) + more
    candidates = min(k + SPARE + 1, n)
    own = -1 if include_self else jnp.inf

    def among(rows: jax.Array) -> tuple[jax.Array, jax.Array]:
        block = x[rows]
        product = jnp.matmul(block, x.T, precision="highest")
        score = squares - 2 * product  # the square of the distance, without the part that a row has in common
        score = jnp.where(jnp.isnan(score), jnp.inf, score)
        score = jnp.where(jnp.arange(n, dtype=rows.dtype) == rows[:, None], own * jnp.inf, score)
        found = jnp.sort(jax.lax.top_k(-score, candidates)[1], axis=1)
        exact = ((block[:, None] - x[found]) ** 2).sum(axis=2) + more[found]
        exact = jnp.where(jnp.isnan(exact), jnp.inf, exact)
        exact = jnp.where(found == rows[:, None], own, exact)
        negative, at = jax.lax.top_k(-exact, k)
        return jnp.take_along_axis(found, at, axis=1), -negative

    size = max(1, min(n, BLOCK // max(n, candidates * x.shape[1], 1)))
    blocks = -(-n // size)
    rows = jnp.minimum(jnp.arange(blocks * size, dtype=np.int32), n - 1)  # as `top_k` numbers columns
    rows = rows.reshape(blocks, size)
    columns, distances = jax.lax.map(among, rows)
    return columns.reshape(-1, k)[:n], distances.reshape(-1, k)[:n]
