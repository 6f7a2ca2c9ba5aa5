"""Functions that join tensors along a dimension."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from math import prod
from typing import Any

import jax
import numpy as np
from jax.typing import ArrayLike

from jsparse.base.dataclass import dataclass
from jsparse.errors import PatternError, ShapeError, short_repr, shorten
from jsparse.formats import Format, Level
from jsparse.formats.levels import DENSE
from jsparse.formats.set_operations import without_ranges
from jsparse.ops.relocation.coordinate_map import CoordinateMap, Offset, Rows
from jsparse.ops.relocation.formats import default_in, format_of_result
from jsparse.ops.relocation.operands import as_axis, as_integer, as_tensor, as_tensors
from jsparse.ops.relocation.relocate import Relocation, relocate
from jsparse.ops.shaping.axes import expand_dims
from jsparse.ops.shaping.reshaping import ravel
from jsparse.tensor.sparse_tensor import SparseLike, SparseTensor


def concatenate(
    tensors: Iterable[SparseLike], axis: int | None = 0, *, format: Format | str | None = None
) -> SparseTensor:
    """Join tensors along an existing dimension, as jnp.concatenate does.

    The result is dynamic if any tensor is. Its capacity is then the sum of all capacities, or more if its format ends
    with dense levels.

        >>> jsparse.concatenate([A, B], axis=1)

    Args:
        tensors: tensors of the same rank, with the same sizes in all dimensions except `axis`.
        axis: the dimension; None joins the `ravel` of each tensor.
        format: the format of the result, by default the format of the tensors if they share one, else the default.

    Raises ShapeError if there are no tensors or their shapes do not fit, DTypeError for dense arrays, FormatError for
    an unsuitable format.
    """
    operands = as_tensors(tensors, "concatenate")
    if axis is None:
        operands, axis = [ravel(tensor) for tensor in operands], 0
    return _concatenate_tensors(operands, axis, format)


def _concatenate_tensors(operands: Sequence[SparseTensor], axis: int, format: Format | str | None) -> SparseTensor:
    first = operands[0]
    at = as_axis(axis, first.ndim, "concatenate")
    for tensor in operands[1:]:
        if tensor.ndim != first.ndim or any(
            m != n for dim, (m, n) in enumerate(zip(tensor.shape, first.shape, strict=True)) if dim != at
        ):
            raise ShapeError(
                f"Expected tensors to concatenate to have equal shapes except along axis {at}, but got "
                f"{shorten(first.shape)} and {shorten(tensor.shape)}."
            )
    sizes = [tensor.shape[at] for tensor in operands]
    shape = (*first.shape[:at], sum(sizes), *first.shape[at + 1 :])
    target = format_of_result(operands, format, shape, sum(tensor.nse for tensor in operands))
    if len(operands) == 1:
        return first if target == first.format or format is None else first.asformat(target)
    return _along_axis(operands, at, list(accumulate([0, *sizes[:-1]])), shape, target)


concat = concatenate


def _along_axis(
    tensors: Sequence[SparseTensor], axis: int, starts: Sequence[int], shape: tuple[int, ...], format: Format
) -> SparseTensor:
    """Place the entries of each tensor from its start on along an axis. Starts ascend, and tensors do not overlap."""
    maps = tuple(Offset.along(axis, len(shape), start) for start in starts)
    carried = tuple((dim, dim) for dim in range(len(shape)) if dim != axis)
    return relocate(tensors, Relocation(maps, shape, format, carried, capacity_of_join(tensors, shape, format)))


def capacity_of_join(tensors: Sequence[SparseTensor], shape: tuple[int, ...], format: Format) -> int | None:
    """Return a joined tensor's capacity: it has as many blocks of trailing dense levels as all tensors have together.

    Returns None if a tensor does not have the format.
    """
    if any(tensor.format != format for tensor in tensors):
        return None
    inner = format.trailing_dims
    blocks = sum(tensor.nse // max(prod(tensor.shape[dim] for dim in inner), 1) for tensor in tensors)
    return blocks * prod(shape[dim] for dim in inner)


def stack(tensors: Iterable[SparseLike], axis: int = 0, *, format: Format | str | None = None) -> SparseTensor:
    """Join tensors of the same shape along a new dimension, as jnp.stack does.

    The result is dynamic if any tensor is. Its capacity is then the sum of all capacities, or more if its format ends
    with dense levels. If all tensors have the same levels, the new dimension is a dense level above these levels (but a
    stack of coo tensors is coo).

        >>> jsparse.stack([A, B]).shape
        (2, 1000, 800)

    Args:
        tensors: tensors of the same shape.
        axis: the position of the new dimension in the result.
        format: the format of the result.

    Raises ShapeError if there are no tensors or their shapes differ, DTypeError for dense arrays, FormatError for an
    unsuitable format.
    """
    operands = as_tensors(tensors, "stack")
    first = operands[0]
    at = as_axis(axis, first.ndim + 1, "stack")
    for tensor in operands[1:]:
        if tensor.shape != first.shape:
            raise ShapeError(
                f"Expected tensors to stack to have the same shape, but got {shorten(first.shape)} and "
                f"{shorten(tensor.shape)}."
            )
    if not first.ndim:
        return concatenate([expand_dims(tensor, 0) for tensor in operands], format=format)
    shape = (*first.shape[:at], len(operands), *first.shape[at:])
    target = _format_of_stack(operands, at, shape) if format is None else Format.plain(format, len(shape))
    maps = tuple(_Inserted(at, n) for n in range(len(operands)))
    carried = tuple((dim, dim + (dim >= at)) for dim in range(first.ndim))
    # The capacities add up if every tensor ends with the result's trailing dense levels.
    inner = target.trailing_dims
    ends = [tensor.format.trailing_dims[::-1][: len(inner)] for tensor in operands]
    fits = at not in inner and all(end == tuple(dim - (dim > at) for dim in inner[::-1]) for end in ends)
    capacity = sum(tensor.nse for tensor in operands) if fits else None
    return relocate(operands, Relocation(maps, shape, target, carried, capacity))


def _format_of_stack(tensors: Sequence[SparseTensor], at: int, shape: tuple[int, ...]) -> Format:
    """Return the default format of a stack: a dense level above the levels that all tensors share.

    A stack of coo tensors is coo. If formats differ, the result is the default format of the shape.
    """
    first = tensors[0].format
    if any(tensor.format != first for tensor in tensors):
        return default_in(shape, sum(tensor.nse for tensor in tensors))
    if first.name == "coo" and first.ndim > 1:
        return Format.of("coo", len(shape))
    below = (Level(level.kind, level.dim + (level.dim >= at), level.unique) for level in first.levels)
    return Format((Level(DENSE, at), *below))


def vstack(tensors: Iterable[SparseLike], *, format: Format | str | None = None) -> SparseTensor:
    """Join tensors along the first dimension, as jnp.vstack does. A vector becomes one row. See `concatenate`.

    >>> jsparse.vstack([A, v])
    """
    operands = as_tensors(tensors, "vstack")
    return _concatenate_tensors([as_row(tensor) if tensor.ndim < 2 else tensor for tensor in operands], 0, format)


def hstack(tensors: Iterable[SparseLike], *, format: Format | str | None = None) -> SparseTensor:
    """Join tensors along the second dimension, or vectors end to end, as jnp.hstack does. See `concatenate`.

    >>> jsparse.hstack([A, B])
    """
    operands = as_tensors(tensors, "hstack")
    return _concatenate_tensors(operands, 0 if operands[0].ndim == 1 else 1, format)


def pad(
    array: SparseLike,
    pad_width: int | Sequence[int | Sequence[int]],
    mode: str = "constant",
    *,
    constant_values: ArrayLike = 0,
) -> SparseTensor:
    """Add zeros at both ends of dimensions, as jnp.pad does with its default mode.

        >>> jsparse.pad(A, ((0, 24), (1, 1))).shape
        (1024, 802)

    Args:
        array: a tensor. The result has the format of `array`. Dense levels store the zeros, other levels do not.
        pad_width: how many zeros to add before and after each dimension: one pair for each dimension, one pair for all
            dimensions, or one number for both ends of all dimensions.
        mode, constant_values: only "constant" and 0, because other elements would have to be stored.

    The dtype stays the same. Raises ShapeError for widths of any other form, PatternError for another mode or constant.
    """
    tensor = as_tensor(array, "pad")
    if mode != "constant" or isinstance(constant_values, jax.core.Tracer) or np.any(constant_values):
        raise PatternError(
            f"Expected jsparse.pad to add zeros, which need not be stored, but got mode={short_repr(mode)} and "
            f"constant_values={short_repr(constant_values)}. To join the tensor with others, call jsparse.concatenate; "
            "or pad A.todense()."
        )
    for axis, (before, after) in enumerate(_widths(pad_width, tensor.ndim)):
        shape = (*tensor.shape[:axis], before + tensor.shape[axis] + after, *tensor.shape[axis + 1 :])
        if before or after:
            tensor = _along_axis([tensor], axis, [before], shape, without_ranges(tensor.format))
    return tensor


def _widths(pad_width: int | Sequence[int | Sequence[int]], ndim: int) -> list[tuple[int, int]]:
    """Return for each dimension how many zeros to add before and after it."""
    widths = np.array(pad_width, object)
    fits = widths.shape in ((), (1,), (2,), (1, 2), (ndim, 2), (1, 1), (ndim, 1))
    widths = np.broadcast_to(widths, (ndim, 2)) if fits else widths
    if not fits or any(as_integer(width, "each width of jsparse.pad") < 0 for width in widths.ravel()):
        raise ShapeError(
            f"Expected pad_width of jsparse.pad to be a number >= 0, a pair of such numbers, or {ndim} pairs, but got "
            f"{short_repr(pad_width)}. To shorten dimensions, use slices, A[1:]."
        )
    return [(int(before), int(after)) for before, after in widths]


def as_row(vector: SparseTensor) -> SparseTensor:
    """Convert a vector to a matrix of one row, and a tensor without dimensions to a matrix of one element."""
    return as_tensor(expand_dims(vector, 0), "vstack").asformat("csr") if vector.ndim else expand_dims(vector, (0, 1))


@dataclass(frozen=True)
class _Inserted(CoordinateMap):
    """A coordinate map that inserts a dimension, in which all entries have the same coordinate."""

    axis: int
    coordinate: int

    def __call__(self, rows: Rows, xnp: Any) -> Rows:
        known = next(row for row in rows if row is not None)
        return [*rows[: self.axis], known * 0 + self.coordinate, *rows[self.axis :]]
