"""Elements at points: `A.at_coords`, and the coordinates of slots, `A.coords`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from jsparse.base.arrays import Array
from jsparse.convert.dynamic_creation import index_like
from jsparse.formats import Level, Pattern
from jsparse.ops.evaluate import evaluate
from jsparse.ops.indexing.gathered import gathered
from jsparse.primitives.host import is_on_host, is_rare
from jsparse.primitives.routine import expand
from jsparse.tensor.dynamic_pattern import DynamicPattern
from jsparse.tensor.leaves import check_leaves, check_pattern
from jsparse.tensor.sparse_tensor import SparseTensor


def coords(self: SparseTensor) -> Array:
    """The coordinates of all slots in storage order, integers of shape (ndim, nse).

    The result is a numpy array if the pattern is static. In the padding of a dynamic pattern, the coordinates are the
    sizes of the dimensions, which are out of range.

        >>> rows, columns = A.coords

    Raises LeafError if the index arrays do not fit the pattern.
    """
    check_pattern(self, "A in A.coords")
    if isinstance(self.pattern, Pattern):
        return self.pattern.to_coords()
    if is_on_host(*self.pattern.arrays) and is_rare(self.pattern.type, 3e-5):
        return expand(self.pattern.arrays, self.pattern.type)
    return _expanded(self.pattern)


@jax.jit
def _expanded(pattern: DynamicPattern) -> jax.Array:
    return expand(pattern.arrays, pattern.type)


def at_coords(self: SparseTensor, coords: npt.ArrayLike) -> jax.Array:
    """Read the elements at coordinates, in the order of `coords`. The result is differentiable in the values.

        >>> A.at_coords([[0, 2, 2], [1, 0, 9]])  # A[0, 1], A[2, 0], and 0 if A has no column 9

    Args:
        coords: integers of shape (ndim, n), traced or not.

    Returns an array of shape (n,) and of the dtype of the values. It is 0 where nothing is stored, and where a
    coordinate is out of range: nothing wraps around.

    Raises PatternError if coordinates are not integers or do not have this shape, LeafError if the leaves do not fit
    the pattern.
    """
    check_leaves(self, "A in A.at_coords")
    points = index_like(coords, self.shape)
    return elements_at(self, list(points), points.shape[1])


def elements_at(tensor: SparseTensor, points: Sequence[Any], n: int) -> jax.Array:
    """Return the elements at n points, 0 where nothing is stored or a coordinate is out of range.

    `points` holds an integer array (n,) for each dimension. Known coordinates are numpy arrays.
    """
    is_bare = tensor.values is None  # of a tensor of ones, see `select`
    if not tensor.ndim:
        return jnp.ones(n, bool) if is_bare else jnp.broadcast_to(tensor.values[0], (n,))
    traced = any(isinstance(row, jax.core.Tracer) for row in points)
    if isinstance(tensor.pattern, Pattern) and not traced:
        slots = locate(tensor.pattern, points)
        return jnp.asarray(slots >= 0) if is_bare else gathered(tensor.values, slots)
    return _sampled(tensor, {f"t{dim}": row for dim, row in enumerate(points)})


@jax.jit
def _sampled(tensor: SparseTensor, points: dict[str, Any]) -> Any:
    """Read the elements by an einsum with an index relation per dimension. The kernel looks up each point."""
    indices = ", ".join(f"t{dim}[n]" for dim in range(tensor.ndim))
    return evaluate(f"C[n] = A[{indices}]", A=tensor.pattern if tensor.values is None else tensor, **points)


Range = tuple[np.ndarray, np.ndarray]
"""Two int64 arrays (n,), the begin and the end of the positions of each point in a level; equal without an entry."""


def locate(pattern: Pattern, coords: Sequence[np.ndarray]) -> np.ndarray:
    """Find the slot at each of n points: -1 where nothing is stored or a coordinate is out of range.

    Args:
        coords: an array (n,) of integers for each dimension.
    """
    points = len(coords[0]) if coords else 1
    first, last = np.zeros(points, np.int64), np.ones(points, np.int64)
    stored = iter(pattern.arrays)
    for level in pattern.format.levels:
        own = list(islice(stored, len(level.kind.arrays)))
        coordinate = np.asarray(coords[level.dim]).astype(np.int64, copy=False)
        first, last = _below(level, own, (first, last), coordinate, pattern.shape[level.dim])
    return np.where(last > first, first, -1)


def _below(level: Level, arrays: list[np.ndarray], above: Range, coordinate: np.ndarray, size: int) -> Range:
    """Find the positions of each point in `level`, given the point's positions `above` in the level above."""
    found = (above[1] > above[0]) & (coordinate >= 0) & (coordinate < size)
    parents = np.where(found, above[0], 0)
    if level.kind.is_full:
        positions = np.where(found, parents * size + coordinate, 0)
        return positions, positions + found
    if level.kind.has_pointers:
        pointers = arrays[0] if len(arrays[0]) > 1 else np.zeros(2, np.int64)  # without parents, no point has one
        first, last = (pointers[parents + n].astype(np.int64) for n in (0, 1))
    else:
        first, last = above
    last = np.where(found, last, first)
    if level.kind.has_coordinates:
        return _bisected(arrays[-1], first, last, coordinate)
    starts = arrays[1] if len(arrays[1]) else np.zeros(1, np.int64)
    positions = first + coordinate - starts[parents]  # the coordinates of a run are consecutive
    inside = (positions >= first) & (positions < last)
    return positions, positions + inside


def _bisected(coordinates: np.ndarray, first: np.ndarray, last: np.ndarray, wanted: np.ndarray) -> Range:
    """Find the positions in [first, last) with the coordinate `wanted`. Coordinates in [first, last) are sorted."""
    if not len(coordinates):
        return first, first
    if (
        len(first) and (first == first[0]).all() and (last == last[0]).all()
    ):  # one segment: numpy's bisection is quicker
        segment, keys = coordinates[first[0] : last[0]], wanted.astype(coordinates.dtype)
        return first + np.searchsorted(segment, keys, "left"), first + np.searchsorted(segment, keys, "right")
    return _bound(coordinates, first, last, wanted), _bound(coordinates, first, last, wanted + 1)


def _bound(coordinates: np.ndarray, low: np.ndarray, high: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Find the first position in [low, high) with a coordinate of at least `wanted`; `high` if there is none."""
    while (low < high).any():
        middle = (low + high) // 2
        less = (low < high) & (coordinates[np.minimum(middle, len(coordinates) - 1)] < wanted)
        low, high = np.where(less, middle + 1, low), np.where(less, high, np.minimum(middle, high))
    return low
