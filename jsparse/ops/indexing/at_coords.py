"""Elements at points: `A.at_coords`, and the coordinates of slots, `A.coords`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from jsparse.base import _native
from jsparse.base.arrays import Array
from jsparse.convert.dynamic_creation import index_like
from jsparse.formats import Format, Pattern
from jsparse.formats.build import level_tuples
from jsparse.ops.evaluate import evaluate
from jsparse.ops.indexing.gathered import gather_values
from jsparse.primitives.host import is_on_host, is_rare
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
        return self.pattern.to_coords()
    return _expand_pattern(self.pattern)


@jax.jit
def _expand_pattern(pattern: DynamicPattern) -> jax.Array:
    return pattern.to_coords()


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
        return jnp.asarray(slots >= 0) if is_bare else gather_values(tensor.values, slots)
    indices = ", ".join(f"t{dim}[n]" for dim in range(tensor.ndim))
    return evaluate_selection(tensor, {f"t{dim}": row for dim, row in enumerate(points)}, text=f"C[n] = A[{indices}]")


@partial(jax.jit, static_argnames=("text", "format", "nse"))
def evaluate_selection(
    tensor: SparseTensor, arrays: dict[str, Any], text: str, format: Format | str = "dense", nse: int | None = None
) -> Any:
    """Evaluate a statement that reads a tensor A at tables of indices. The kernel looks up each point."""
    operand = tensor.pattern if tensor.values is None else tensor
    selected = evaluate(text, A=operand, **arrays, out_format=format, nse=nse)
    if isinstance(selected, SparseTensor) and not selected.is_dynamic:  # it is known to be empty
        return selected.dynamic(nse)
    return selected


def locate(pattern: Pattern, coords: Sequence[np.ndarray]) -> np.ndarray:
    """Find the slot at each of n points: -1 where nothing is stored or a coordinate is out of range.

    Args:
        coords: an array (n,) of integers for each dimension.

    Returns an array (n,) of int32, or of int64 if the pattern has too many slots for int32.
    """
    if not coords:
        return np.zeros(1, np.int32)
    levels = level_tuples(pattern.shape, pattern.format)
    return _native.locate(pattern.arrays, levels, pattern.nse, [_as_index(row) for row in coords])


def _as_index(coordinates: np.ndarray) -> np.ndarray:
    """Convert coordinates to a contiguous vector of int32 or int64. Numbers above every int64 become -1."""
    if coordinates.dtype == np.uint64:
        coordinates = np.where(coordinates < 2**63, coordinates, np.uint64(2**64 - 1))
    wide = coordinates.dtype.itemsize > 4 or coordinates.dtype == np.uint32
    return np.require(coordinates, np.int64 if wide else np.int32, ["C", "A"])
