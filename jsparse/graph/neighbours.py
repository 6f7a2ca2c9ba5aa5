"""The search for the nearest neighbours of points: with a tree if they are known, else with blocks of distances."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.base.arrays import Array
from jsparse.base.dataclass import dataclass
from jsparse.planning.dtypes import wide_float

if TYPE_CHECKING:
    from scipy.spatial import cKDTree

BLOCK = 2**22  # the elements of the largest array
SPARE = 8  # the candidates from blocks in addition to k, whose distances are computed without cancellation
MOST_SPARE = 256  # where more points than these are equally far, distances to all points are compared
MOST_DIMENSIONS = 10  # beyond, trees visit most points, and blocks are quicker: 0.2 of the time at 16 dimensions


@dataclass(frozen=True, slots=True)
class NeighbourSearch:
    """The parameters of a search for at most k neighbours of each point.

    With `loop`, each point is always one of its neighbours; otherwise it never is. `metric` is "euclidean" or "cosine".
    """

    k: int
    loop: bool
    metric: str = "euclidean"


def nearest_known(
    x: jax.Array, graph_of: np.ndarray | None, radius: float, search: NeighbourSearch
) -> tuple[np.ndarray, np.ndarray]:
    """Find the edges (targets, sources) between known points on the host. Among equally distant points, take the first.

    A k-d tree (Bentley, "Multidimensional binary search trees used for associative searching", 1975) finds a few more
    candidates than k. If the last candidate is as far as the k-th one, points at the same distance may be
    missing, and the search asks for more candidates than before.
    """
    placed = _tree_points(np.asarray(x, np.float64), graph_of, search.metric)
    if placed is None or x.shape[1] > MOST_DIMENSIONS:
        return _from_blocks(x, graph_of, radius, search, np.arange(len(x)))
    points, radius = placed[0], radius / placed[1]
    tree, n, others = _tree(points), len(points), search.k - search.loop
    targets, sources, rows, spare = [], [], np.arange(n), 1
    if search.loop:
        targets, sources = [rows], [rows]
    while others and len(rows) and spare <= MOST_SPARE:
        open_rows = []
        size = max(1, BLOCK // (others + 1 + spare))
        for some in (rows[start : start + size] for start in range(0, len(rows), size)):
            near, distances, settled = _among_candidates(tree, points, some, radius, others, spare)
            exists = np.isfinite(distances) & settled[:, None]
            exists &= True if graph_of is None else graph_of[near % n] == graph_of[some][:, None]
            targets.append(np.broadcast_to(some[:, None], near.shape)[exists])
            sources.append(near[exists])
            open_rows.append(some[~settled])
        rows, spare = np.concatenate(open_rows), 4 * spare
    if others and len(rows):
        by_blocks = _from_blocks(x, graph_of, radius * placed[1], NeighbourSearch(others, False, search.metric), rows)
        targets, sources = [*targets, by_blocks[0]], [*sources, by_blocks[1]]
    return np.concatenate([np.zeros(0, int), *targets]), np.concatenate([np.zeros(0, int), *sources])


def _tree_points(x: np.ndarray, graph_of: np.ndarray | None, metric: str) -> tuple[np.ndarray, float] | None:
    """Return the points for a tree, and the number by which their coordinates were divided.

    An additional coordinate moves graphs so far apart that points of other graphs are farther than all points of the
    same graph. Division by a power of two keeps coordinates exact, and their squares in range. The result is None for
    cosines if a point is 0: it has no direction, so no position in a tree.
    """
    x = x if x.shape[1] else np.zeros((len(x), 1))  # a tree has a dimension, and points without any are equal
    if metric == "cosine":
        length = np.linalg.norm(x, axis=1, keepdims=True)
        if not (np.isfinite(length) & (length > 0)).all():
            return None
        x = x / length
    scale = float(2.0 ** np.frexp(np.abs(x).max(initial=0))[1].clip(-1000, 1000))
    x = x / scale
    if graph_of is None:
        return x, scale
    number = np.unique(graph_of, return_inverse=True)[1].reshape(-1)
    apart = 1 + 2 * np.sqrt(x.shape[1])  # coordinates are between -1 and 1
    return np.column_stack([x, 2 * apart * number]), scale


def _tree(points: np.ndarray) -> cKDTree:
    from scipy.spatial import cKDTree  # noqa: PLC0415  # slow to import

    return cKDTree(points)


def _among_candidates(
    tree: cKDTree, points: np.ndarray, rows: np.ndarray, radius: float, others: int, spare: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Find the points nearest to each of `rows`, their distances (inf for none), and whether they are final.

    They are not final if the tree may have left out other points at the same distance.
    """
    n = len(points)
    count = min(others + 1 + spare, n)
    distances, near = tree.query(points[rows], count, distance_upper_bound=_above(radius))
    distances, near = distances.reshape(-1, count), near.reshape(-1, count)
    other = near != rows[:, None]
    other[other.all(axis=1), -1] = False  # among many equal points the tree may have found others only
    distances, near = (array[other].reshape(-1, count - 1) for array in (distances, near))
    distances[distances > radius] = np.inf
    last = distances[:, min(others, count - 1) - 1]
    settled = (last < distances[:, -1]) | np.isinf(last) if count < n else np.ones(len(rows), bool)
    ties = settled & ((distances[:, 1:] == distances[:, :-1]) & np.isfinite(distances[:, 1:])).any(axis=1)
    order = np.lexsort((near[ties], distances[ties]), axis=1)
    near[ties] = np.take_along_axis(near[ties], order, axis=1)
    return near[:, :others], distances[:, :others], settled


def _above(radius: float) -> float:
    """Return a bound slightly above `radius`, because the tree excludes the bound. Coordinates are at most 1.

    The bound is large enough that its square, with which the tree compares, is not 0.
    """
    return max(radius * (1 + 1e-12), 1e-150)


def _from_blocks(
    x: jax.Array, graph_of: np.ndarray | None, radius: float, search: NeighbourSearch, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Find the edges that end at `rows` by distances to all points.

    Rows are repeated until their number is a power of two, so that few sizes are compiled.
    """
    room = np.resize(rows, 1 << (len(rows) - 1).bit_length()) if len(rows) < len(x) else rows
    near, exists = nearest_traced(x, graph_of, radius, search, room)[:2]
    exists = np.asarray(exists)[: len(rows)]
    targets = np.broadcast_to(rows[:, None], exists.shape)[exists]
    return targets, np.asarray(near)[: len(rows)][exists]


def close_pairs(
    x: jax.Array, graph_of: np.ndarray | None, radius: float, *, loop: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Find all edges (targets, sources) between points that are at most `radius` apart."""
    placed = _tree_points(np.asarray(x, np.float64), graph_of, "euclidean")
    assert placed is not None
    points, scale = placed
    pairs = _tree(points).query_pairs(_above(radius / scale), output_type="ndarray")
    near = np.sqrt(((points[pairs[:, 0]] - points[pairs[:, 1]]) ** 2).sum(axis=1)) <= radius / scale
    pairs = pairs[near if graph_of is None else near & (graph_of[pairs[:, 0]] == graph_of[pairs[:, 1]])]
    loops = np.arange(len(points) if loop else 0)
    return np.concatenate([pairs[:, 0], pairs[:, 1], loops]), np.concatenate([pairs[:, 1], pairs[:, 0], loops])


@partial(jax.jit, static_argnames="search")
def nearest_traced(
    x: jax.Array, graph_of: Array | None, radius: float | jax.Array, search: NeighbourSearch, rows: Array | None = None
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Find the neighbours of each point, or of `rows`. Returns arrays (n, k): points, whether they exist, measures.

    A measure is the square of a distance, and -1 from a point to itself. For cosines, the points are normalized first.

    The squared distances |x|² - 2 xy + |y|² of centred points select a few more than k candidates. These are then
    compared by the differences of coordinates.
    """
    x, k = jax.lax.stop_gradient(x).astype(wide_float(x.dtype)), search.k
    n = x.shape[0]
    is_finite = jnp.isfinite(x).all(axis=1)
    if search.metric == "cosine":
        # Of unit vectors |u - v|² = 2 (1 - cos). At 0, which has no direction, 1 is added, which makes it 2.
        length = jnp.linalg.norm(x, axis=1, keepdims=True)
        x = x / jnp.where(length == 0, 1, length)
        more = (length[:, 0] == 0).astype(x.dtype)
    else:
        centre = jnp.where(jnp.isfinite(x), x, 0).mean(axis=0)
        x, more = x - centre, jnp.zeros(n, x.dtype)
    squares = (x * x).sum(axis=1) + more
    candidates = min(k + SPARE + 1, n)
    to_itself = -1 if search.loop else jnp.inf

    def apart(some: jax.Array, near: jax.Array | np.ndarray) -> jax.Array:
        """Return whether each point in `near` is in another graph than the point of `some` in its row."""
        return jnp.zeros((), bool) if graph_of is None else jnp.asarray(graph_of)[near] != graph_of[some][:, None]

    def among(some: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        block = x[some]
        product = jnp.matmul(block, x.T, precision="highest")
        score = squares - 2 * product  # the square of the distance, without the part that a row has in common
        score = jnp.where(jnp.isnan(score) | apart(some, np.arange(n)), jnp.inf, score)
        score = jnp.where(jnp.arange(n, dtype=some.dtype) == some[:, None], to_itself * jnp.inf, score)
        near = jnp.sort(jax.lax.top_k(-score, candidates)[1], axis=1)
        exact = ((block[:, None] - x[near]) ** 2).sum(axis=2) + more[near]
        exact = jnp.where(jnp.isnan(exact), jnp.inf, exact)
        exact = jnp.where(near == some[:, None], to_itself, jnp.where(apart(some, near), jnp.inf, exact))
        negative, at = jax.lax.top_k(-exact, k)
        near, exact = jnp.take_along_axis(near, at, axis=1), -negative
        is_near = (exact <= jnp.square(jnp.asarray(radius, exact.dtype))) | ~is_finite[some][:, None]
        exists = is_near & ~apart(some, near) & (search.loop | (near != some[:, None]))
        return near, exists, exact

    rows = np.arange(n, dtype=np.int32) if rows is None else jnp.asarray(rows, np.int32)  # as `top_k` numbers columns
    count = len(rows)
    size = max(1, min(count, BLOCK // max(n, candidates * x.shape[1], 1)))
    blocks = -(-count // size)
    padded = jnp.asarray(rows)[jnp.minimum(jnp.arange(blocks * size), count - 1)]
    results = jax.lax.map(among, padded.reshape(blocks, size))
    near, exists, distances = (array.reshape(-1, k)[:count] for array in results)
    return near, exists, distances
