"""Elements at points: `A.at_coords`, and the coordinates of slots, `A.coords`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from jsparse.convert.dynamic_creation import index_like
from jsparse.formats import Pattern
from jsparse.ops.evaluate import evaluate
from jsparse.ops.indexing.gathered import gathered
from jsparse.ops.indexing.locate import locate
from jsparse.primitives.host import is_on_host, is_rare
from jsparse.primitives.routine import expand
from jsparse.tensor.leaves import check_leaves, check_pattern
from jsparse.tensor.sparse_tensor import SparseTensor

__all__ = ["at_coords", "coords", "elements_at"]


def coords(self: SparseTensor) -> Any:
    """The coordinates of all slots in storage order, integers of shape (ndim, nse).

    They are a numpy array if the pattern is static. Those of the padding of a dynamic pattern are the sizes of the
    dimensions, which are out of range.

        >>> rows, columns = A.coords

    Raises LeafError if the index arrays are not those of the pattern.
    """
    check_pattern(self, "A in A.coords")
    if isinstance(self.pattern, Pattern):
        return self.pattern.to_coords()
    if is_on_host(*self.pattern.arrays) and is_rare(self.pattern.type, 3e-5):
        return expand(self.pattern.arrays, self.pattern.type)
    return _expanded(self.pattern)


@jax.jit
def _expanded(pattern: Any) -> Any:
    return expand(pattern.arrays, pattern.type)


def at_coords(self: SparseTensor, coords: Any) -> jax.Array:
    """Read the elements at given coordinates, in their order. The result is differentiable in the values.

        >>> A.at_coords([[0, 2, 2], [1, 0, 9]])  # A[0, 1], A[2, 0], and 0 if A has no column 9

    Args:
        coords: integers of shape (ndim, n), traced or not.

    Returns an array of shape (n,) and of the dtype of the values. It is 0 where nothing is stored, and where a
    coordinate is out of range: nothing wraps around.

    Raises PatternError for coordinates that are no integers or have another shape, LeafError if leaves do not fit the
    pattern.
    """
    check_leaves(self, "A in A.at_coords")
    points = index_like(coords, self.shape)
    return elements_at(self, list(points), points.shape[1])


def elements_at(tensor: SparseTensor, points: Sequence[Any], n: int) -> jax.Array:
    """The elements at n points, 0 where nothing is stored or a coordinate is out of range.

    `points` are integers of shape (n,) for each dimension, numpy's if they are known.
    """
    if not tensor.ndim:
        return jnp.broadcast_to(tensor.values[0], (n,))
    traced = any(isinstance(row, jax.core.Tracer) for row in points)
    if isinstance(tensor.pattern, Pattern) and not traced:
        return gathered(tensor.values, locate(tensor.pattern, points))
    return _sampled(tensor, {f"t{dim}": row for dim, row in enumerate(points)})


@jax.jit
def _sampled(tensor: SparseTensor, points: dict[str, Any]) -> Any:
    """The einsum with one index relation for each dimension: it searches the pattern at each point."""
    indices = ", ".join(f"t{dim}[n]" for dim in range(tensor.ndim))
    return evaluate(f"C[n] = A[{indices}]", A=tensor, **points)
