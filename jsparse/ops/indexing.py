"""Indexing, `A[...]`: by integers, slices, `...` and None, for static patterns."""

from __future__ import annotations

import operator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.errors import NotYetSupportedError, ShapeError, shortened
from jsparse.formats import Format, Level, Pattern
from jsparse.formats.levels import COMPRESSED
from jsparse.tensor.leaves import check_leaves
from jsparse.tensor.sparse_tensor import SparseTensor

__all__ = ["take"]


def take(self: SparseTensor, index: Any) -> Any:
    """Index a tensor as numpy does. The result is differentiable in the values.

        >>> A[2:10, ::2]  # a SparseTensor of the stored entries in the range
        >>> A[3]          # a row, as a SparseTensor of rank 1
        >>> A[3, 4]       # an array of shape ()

    The remaining dimensions keep their kinds of levels. If no level with coordinates remains, the format becomes coo.

    Raises ShapeError (out of range, too many indices), NotYetSupportedError (other forms, dynamic patterns).
    """
    items = index if isinstance(index, tuple) else (index,)
    if len(items) == 1 and items[0] is Ellipsis:
        return self  # Flax reads a variable as `variable[...]`, and its leaves may be anything, so nothing is checked
    check_leaves(self, "A in A[...]")
    if not isinstance(self.pattern, Pattern):
        raise NotYetSupportedError(
            "A[...] of a tensor with a dynamic pattern is not supported yet, because the number of entries in the "
            "range is known at run time only. Index A.static() outside jit, or multiply with a selection by "
            "jsparse.einsum."
        )
    ranges = [_range(item, dim, self.shape) for dim, item in enumerate(_expanded(items, self))]
    result = _selected(self, self.pattern, ranges)
    added = _added_axes(items, ranges)
    if not added:
        return result
    if not isinstance(result, SparseTensor):
        return result.reshape((1,) * len(added)) if result.ndim == 0 else result
    assert isinstance(result.pattern, Pattern)
    pattern = result.pattern.extended([1] * len(added))
    kept = iter(range(result.ndim))
    new = iter(range(result.ndim, result.ndim + len(added)))
    axes = [next(new) if at in added else next(kept) for at in range(pattern.ndim)]
    return SparseTensor._unchecked(result.values, pattern.transposed(axes))


def _expanded(items: tuple[Any, ...], tensor: SparseTensor) -> list[Any]:
    """One item for each dimension: whole slices for `...` and for missing items; None is dropped."""
    given = [item for item in items if item is not None]
    dots = [n for n, item in enumerate(given) if item is Ellipsis]
    missing = tensor.ndim - len(given) + len(dots)
    if missing < 0 or len(dots) > 1:
        raise ShapeError(
            f"Expected at most {tensor.ndim} indices and one '...' for a tensor of shape {shortened(tensor.shape)}, "
            f"but got {len(given) - len(dots)} and {len(dots)}. Leave out the rest."
        )
    at = dots[0] if dots else len(given)
    return [*given[:at], *[slice(None)] * missing, *given[at + len(dots) :]]


def _added_axes(items: tuple[Any, ...], ranges: list[range | int]) -> list[int]:
    """The dimensions of the result that items None add."""
    if not any(item is None for item in items):
        return []
    dots = next((n for n, item in enumerate(items) if item is Ellipsis), len(items))
    whole = len(ranges) - sum(item is not None and item is not Ellipsis for item in items)
    added, at, dim = [], 0, 0
    for n, item in enumerate((*items, Ellipsis) if dots == len(items) else items):
        count = whole if n == dots else 0 if item is None else 1
        if item is None:
            added.append(at)
            at += 1
        at += sum(isinstance(ranges[d], range) for d in range(dim, dim + count))
        dim += count
    return added


def _range(item: Any, dim: int, shape: tuple[int, ...]) -> range | int:
    """The coordinates that an item selects in a dimension: one, or a range with a positive step."""
    size = shape[dim]
    if isinstance(item, slice):
        try:
            start, stop, step = item.indices(size)
        except (TypeError, ValueError) as error:
            raise _unsupported(f"the slice {shortened(item)}") from error
        if step < 0:
            raise _unsupported(f"the slice {shortened(item)}, whose step is negative,")
        return range(start, stop, min(step, max(size, 1)))  # any longer step selects the same: one coordinate at most
    if isinstance(item, bool | np.bool_ | jax.core.Tracer) or np.ndim(item) or isinstance(item, list | tuple):
        raise _unsupported(f"an index of type {type(item).__name__}")
    try:
        at = operator.index(item)
    except TypeError as error:
        raise _unsupported(f"an index of type {type(item).__name__}") from error
    if not -size <= at < size:
        raise ShapeError(
            f"Expected an index from {-size} to {size - 1} for dimension {dim} of a tensor of shape "
            f"{shortened(shape)}, but got {shortened(at)}."
        )
    return at % size


def _unsupported(what: str) -> NotYetSupportedError:
    return NotYetSupportedError(
        f"Indexing a SparseTensor with {what} is not supported yet: use integers, slices with a positive step, '...' "
        "and None. Otherwise index A.todense(), or select entries with A.to_coords() and SparseTensor.from_coords."
    )


def _selected(tensor: SparseTensor, pattern: Pattern, ranges: list[range | int]) -> Any:
    if all(isinstance(r, range) and len(r) == size for r, size in zip(ranges, tensor.shape, strict=True)):
        return tensor
    rows = pattern.rows()
    inside = np.ones(pattern.nse, np.bool_)
    for row, selected in zip(rows, ranges, strict=True):
        if isinstance(selected, int):
            inside &= row == selected
        else:
            inside &= (row >= selected.start) & (row < selected.stop) & ((row - selected.start) % selected.step == 0)
    kept = np.flatnonzero(inside)
    left = [(dim, selected) for dim, selected in enumerate(ranges) if isinstance(selected, range)]
    if not left:
        return tensor.values[int(kept[0])] if len(kept) else jnp.zeros((), tensor.dtype)
    shape = tuple(len(selected) for _, selected in left)
    moved = [(rows[dim][kept] - selected.start) // selected.step for dim, selected in left]
    target, built = Pattern.from_rows(moved, shape, _left_format(pattern.format, [dim for dim, _ in left]))
    gather = np.append(kept, pattern.nse)[built.gather()]  # slots of fill read out of range, where `get` gives 0
    values = tensor.values.at[gather].get(mode="fill", fill_value=0)
    return SparseTensor._unchecked(values, target)


def _left_format(format: Format, dims: list[int]) -> Format:
    """The format of the remaining dimensions `dims`, with their levels in storage order."""
    if len(dims) == format.ndim:
        return format
    kept = [level for level in format.levels if level.dim in dims]
    kinds = [level.kind for level in kept]
    if not format.is_dense and all(kind.is_full for kind in kinds):
        return Format.of("coo", len(dims))
    for n, kind in enumerate(kinds):
        if kind.is_branchless and (n == 0 or kinds[n - 1].has_gaps):
            kinds[n] = COMPRESSED
    followed = [*(kind.is_branchless for kind in kinds[1:]), False]
    levels = (
        Level(kind, dims.index(level.dim), unique=not below)
        for kind, level, below in zip(kinds, kept, followed, strict=True)
    )
    return Format(tuple(levels))
