"""Functions that repeat elements: repeat, tile, broadcast_to."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jsparse.base.arrays import host_array, is_integer
from jsparse.base.dataclass import dataclass
from jsparse.base.limits import check_bytes, parse_nse
from jsparse.errors import ShapeError, short_repr, shorten
from jsparse.formats import Pattern
from jsparse.formats.set_operations import without_ranges
from jsparse.ops.relocation.coordinate_map import CoordinateMap, Rows
from jsparse.ops.relocation.operands import as_axis, as_integer, as_tensor
from jsparse.ops.relocation.relocate import Relocation, relocate
from jsparse.ops.relocation.values import is_known, on_device
from jsparse.ops.shaping.axes import expand_dims
from jsparse.ops.shaping.reshaping import ravel
from jsparse.tensor.dynamic_pattern import DynamicPattern, dynamic_type
from jsparse.tensor.sparse_tensor import SparseLike, SparseTensor


def repeat(a: SparseLike, repeats: int | ArrayLike, axis: int | None = None, *, nse: int | None = None) -> SparseTensor:
    """Repeat each element along `axis`, as jnp.repeat does. Without an axis, repeat the elements of `ravel(a)`.

    The result stores every repeated entry.

        >>> jsparse.repeat(A, 2, axis=0)  # each row twice
        >>> jsparse.repeat(A[:3], [2, 0, 1], axis=0)  # row 0 twice, row 1 never, and row 2 once

    Args:
        repeats: known integers: one for all elements, or an array (n,) of counts, one for each of the n elements.
        nse: the capacity of a result with a dynamic pattern, by default the capacity of `a` times the largest count.
            For a static result `nse` is an upper bound, which is checked.

    The dtype stays. Raises ShapeError if `repeats` has negative numbers, is not made of known integers or has another
    shape,
    and for an axis out of range; PatternError for more entries than `nse`.
    """
    tensor = as_tensor(a, "repeat")
    if axis is None:
        tensor = ravel(tensor)
    at = as_axis(0 if axis is None else axis, tensor.ndim, "repeat")
    nse = parse_nse(nse, "repeat")
    counts = _counts(repeats, tensor.shape[at])
    if isinstance(counts, int):
        repeated = _repeat_elements(tensor, [counts if dim == at else 1 for dim in range(tensor.ndim)], neighbours=True)
        return repeated if nse is None else repeated.asformat(repeated.format, nse=nse)
    if tensor.is_dynamic and nse is None:
        nse = tensor.nse * int(counts.max(initial=0))
    return tensor.take(np.repeat(np.arange(len(counts)), counts), at, nse=nse)


def _counts(repeats: Any, size: int) -> int | np.ndarray:
    """Return how often the elements of a dimension are repeated: one number for all, or an array (size,)."""
    if np.ndim(repeats) == 0:
        count = as_integer(repeats, "the repeats of jsparse.repeat")
        if count < 0:
            raise ShapeError(f"Expected repeats >= 0 for jsparse.repeat, but got {count}.")
        return count
    if isinstance(repeats, jax.core.Tracer):
        raise ShapeError(
            "Expected the repeats of jsparse.repeat to be known, because the shape of the result follows from them, "
            f"but got {short_repr(repeats)}. Write A.take(rows, axis, nse=) with rows = jnp.repeat(jnp.arange(n), "
            "counts, total_repeat_length=)."
        )
    counts = host_array(repeats, "the repeats of jsparse.repeat to be integers")
    if counts.shape not in ((1,), (size,)) or (counts.size and not is_integer(counts.dtype)):
        raise ShapeError(
            f"Expected the repeats of jsparse.repeat to be an integer, or integers of shape ({size},), one for each "
            f"element, but got {counts.dtype} of shape {counts.shape}."
        )
    if (counts < 0).any():
        raise ShapeError(f"Expected repeats >= 0 for jsparse.repeat, but got {counts.min()} among them.")
    return int(counts[0]) if counts.size == 1 else counts.astype(np.int64)


def tile(a: SparseLike, reps: int | Sequence[int]) -> SparseTensor:
    """Repeat a tensor along each dimension, as jnp.tile does. The result stores every repeated entry.

    Dimensions that `reps` adds become dense levels, so no index array is repeated for them.

        >>> jsparse.tile(A, (2, 3)).shape

    Args:
        reps: known integers. If there are fewer integers than dimensions, they apply to the last dimensions.

    The dtype stays the same. Raises ShapeError for a negative number.
    """
    tensor = as_tensor(a, "tile")
    every = reps if isinstance(reps, Sequence) else (reps,)
    counts = [as_integer(one, "each number of reps of jsparse.tile") for one in every]
    if any(count < 0 for count in counts):
        raise ShapeError(f"Expected reps >= 0 for jsparse.tile, but got {short_repr(reps)}.")
    added = len(counts) - tensor.ndim
    tensor = expand_dims(tensor, tuple(range(added))) if added > 0 else tensor
    return _repeat_elements(tensor, [*[1] * -added, *counts], neighbours=False)


def broadcast_to(a: SparseLike, shape: int | Sequence[int]) -> SparseTensor:
    """Repeat dimensions of size 1, and add leading dimensions, as jnp.broadcast_to does.

    The result stores every repeated entry. Added dimensions become dense levels, so no index array is repeated for
    them.

        >>> jsparse.broadcast_to(A, (16, *A.shape))

    The dtype stays the same. Raises ShapeError if the tensor does not broadcast to the shape.
    """
    tensor = as_tensor(a, "broadcast_to")
    sizes = tuple(as_integer(n, "each size of a shape") for n in (shape if isinstance(shape, Sequence) else (shape,)))
    added = len(sizes) - tensor.ndim
    aligned = zip(tensor.shape, sizes[max(added, 0) :], strict=False)
    if added < 0 or any(m not in (1, n) for m, n in aligned) or any(n < 0 for n in sizes):
        raise ShapeError(
            f"Expected a shape that {shorten(tensor.shape)} broadcasts to, with sizes that are equal from the right, "
            f"or 1, but got {shorten(sizes)}."
        )
    tensor = expand_dims(tensor, tuple(range(added))) if added else tensor
    return _repeat_elements(
        tensor, [n if m == 1 else 1 for m, n in zip(tensor.shape, sizes, strict=True)], neighbours=False
    )


def _repeat_elements(tensor: SparseTensor, counts: Sequence[int], neighbours: bool) -> SparseTensor:
    """Repeat the elements along each dimension d `counts[d]` times.

    If `neighbours`, the copies of one element are adjacent, as in `repeat`. Otherwise the copies of the whole tensor
    are adjacent, as in `tile`.
    """
    trailing = tensor.format.trailing_dims
    if not tensor.format.is_dense:
        for dim in trailing:
            if tensor.shape[dim] == 1 and counts[dim] > 1:
                tensor = _enlarge_trailing_level(tensor, dim, counts[dim])
                counts = [1 if d == dim else count for d, count in enumerate(counts)]
    moved = tuple(dim for dim, count in enumerate(counts) if count != 1)
    if not moved:
        return tensor
    shape = tuple(size * count for size, count in zip(tensor.shape, counts, strict=True))
    copies = _Copies(tensor.shape, tuple(counts), neighbours)
    carried = tuple((dim, dim) for dim in range(tensor.ndim) if dim not in moved)
    format = without_ranges(tensor.format)
    capacity = tensor.nse * prod(counts) if format == tensor.format else None
    return relocate([tensor], Relocation((copies,), shape, format, carried, capacity))


def _enlarge_trailing_level(tensor: SparseTensor, dim: int, size: int) -> SparseTensor:
    """Enlarge a trailing dense level of size 1 to `size`. Values are repeated, and index arrays are shared."""
    shape = tuple(size if d == dim else n for d, n in enumerate(tensor.shape))
    order = tensor.format.order
    below = prod(tensor.shape[d] for d in order[order.index(dim) + 1 :])
    above = tensor.nse // below if below else 0
    check_bytes((above, size, below), tensor.dtype, "the repeated values", "Repeat fewer times.")
    if is_known(tensor.values):
        whole = np.broadcast_to(np.asarray(tensor.values).reshape(above, 1, below), (above, size, below))
        values = on_device(whole.reshape(-1).copy())
    else:
        values = jnp.broadcast_to(tensor.values.reshape(above, 1, below), (above, size, below)).reshape(-1)
    pattern: Any = tensor.pattern
    if isinstance(pattern, Pattern):
        wide: Any = Pattern._of_valid(shape, pattern.format, pattern.arrays, pattern.identity())
    else:
        wide = DynamicPattern(dynamic_type(shape, pattern.format, pattern.nse * size), pattern.arrays)
    return SparseTensor._wrap(values, wide)


@dataclass(frozen=True)
class _Copies(CoordinateMap):
    """A coordinate map that copies each entry, by the rules of `_repeat_elements`."""

    sizes: tuple[int, ...]
    counts: tuple[int, ...]
    neighbours: bool

    def __call__(self, rows: Rows, xnp: ModuleType) -> Rows:
        number, moved = xnp.arange(prod(self.counts)), []
        for dim in reversed(range(len(rows))):
            row, count = rows[dim], self.counts[dim]
            copy = (number % max(count, 1)).astype(row.dtype if row is not None else np.int32)
            number = number // max(count, 1)
            if row is not None:
                row = row[:, None]
                row = row if count == 1 else row * count + copy if self.neighbours else row + copy * self.sizes[dim]
            moved.append(row)
        return moved[::-1]
