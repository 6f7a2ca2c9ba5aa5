"""The items of an index, `A[item, item, ...]`, in few kinds: None, `...`, slices, ints and arrays."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.base.arrays import Array, is_integer
from jsparse.base.limits import check_constant
from jsparse.errors import NotYetSupportedError, ShapeError, shortened
from jsparse.tensor.sparse_tensor import SparseTensor

__all__ = ["Shape", "expanded", "read_item", "unsupported", "width"]

Shape: TypeAlias = tuple[int, ...]


def read_item(item: Any) -> Any:
    """An item as None, `...`, a slice, an int, or an array of integers or bools. Arrays are numpy's unless traced."""
    if item is None or item is Ellipsis or isinstance(item, slice):
        return item
    if isinstance(item, bool | np.bool_ | SparseTensor):
        raise unsupported(f"an index of type {type(item).__name__}")
    if isinstance(item, list | tuple) or (hasattr(item, "ndim") and item.ndim):
        return _array(item)
    if isinstance(item, jax.core.Tracer) and is_integer(item.dtype):
        return item
    try:
        return operator.index(item)
    except TypeError as error:
        raise unsupported(f"an index of type {type(item).__name__}") from error


def _array(item: Any) -> Array:
    """An array or a list of integers or bools."""
    traced = any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(item))
    try:
        array = jnp.asarray(item) if traced else np.asarray(item)
    except (TypeError, ValueError) as error:
        raise unsupported(f"an index of type {type(item).__name__}") from error
    check_constant(array.shape, "an array of indices")
    if array.dtype == np.bool_ and traced:
        raise ShapeError(
            "Expected a mask that is known, since the number of its True elements decides the result's shape, but it "
            "is traced. Multiply by it, A * mask, or index outside jit."
        )
    if not array.size and isinstance(item, list | tuple):
        return array.astype(np.int64)  # numpy, too, reads an empty list as integers
    if array.dtype != np.bool_ and not is_integer(array.dtype):
        raise unsupported(f"an array of dtype {array.dtype}")
    return array


def width(part: Any) -> int:
    """The number of dimensions that a part indexes."""
    if part is None or part is Ellipsis:
        return 0
    return part.ndim if isinstance(part, np.ndarray) and part.dtype == np.bool_ else 1


def expanded(parts: Sequence[Any], shape: Shape) -> list[Any]:
    """The parts of an index, with a whole slice for each missing dimension after `...`, or at the end."""
    dots = [n for n, part in enumerate(parts) if part is Ellipsis]
    given = sum(map(width, parts))
    if given > len(shape) or len(dots) > 1:
        raise ShapeError(
            f"Expected at most {len(shape)} indices and one '...' for a tensor of shape {shortened(shape)}, but got "
            f"{given} and {len(dots)}. Leave out the rest."
        )
    at = dots[0] if dots else len(parts)
    return [*parts[: at + 1], *[slice(None)] * (len(shape) - given), *parts[at + 1 :]]


def unsupported(what: str) -> NotYetSupportedError:
    """The error for an index that is none of the supported kinds."""
    return NotYetSupportedError(
        f"Indexing a SparseTensor with {what} is not supported yet: use integers, slices, '...', None, and arrays of "
        "integers or bools. Otherwise index A.todense()."
    )
