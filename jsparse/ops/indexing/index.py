"""Reads an index, `A[item, item, ...]`, as numpy does.

The items are integers, slices, `...`, None, bools, and arrays of integers or bools.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.base.arrays import Array, is_integer
from jsparse.base.dataclass import dataclass
from jsparse.base.limits import check_constant
from jsparse.errors import NotYetSupportedError, ShapeError, shorten
from jsparse.ops.indexing.selection import Label, Selection, Strided
from jsparse.tensor.sparse_tensor import SparseTensor

Shape: TypeAlias = tuple[int, ...]


@dataclass(frozen=True)
class Index:
    """A parsed index: its selection, and the dimensions of the result in order.

    Attributes:
        empty_axis: a dimension of size 1 that will be cut to size 0, because the index contains False; or None.
    """

    selection: Selection
    labels: tuple[Label, ...]
    empty_axis: int | None = None

    @property
    def shape(self) -> Shape:
        """The shape of the result."""
        sizes = dict(zip(self.selection.labels, self.selection.shape, strict=True))
        return tuple(sizes.get(label, 1) for label in self.labels)


def read_index(items: Sequence[Any], shape: Shape) -> Index:
    """Read the items of `A[items]` for a tensor of this shape.

    Raises ShapeError (out of range, too many indices, shapes that do not agree, traced masks), NotYetSupportedError
    (other forms).
    """
    parts = [_read_item(item) for item in items]
    dots, count = [n for n, part in enumerate(parts) if part is Ellipsis], sum(map(_width, parts))
    if count > len(shape) or len(dots) > 1:
        raise ShapeError(
            f"Expected at most {len(shape)} indices and one '...' for a tensor of shape {shorten(shape)}, but got "
            f"{count} and {len(dots)}. Leave out the rest."
        )
    # Each dimension that no part indexes gets a full slice: right after `...`, or at the end without `...`.
    at = dots[0] if dots else len(parts)
    parts[at + 1 : at + 1] = [slice(None)] * (len(shape) - count)
    reader = _IndexReader(shape)
    for part in parts:
        reader.read(part)
    return reader.index()


class _IndexReader:
    """Reads the parts of an index one after the other.

    Attributes:
        labels: the dimensions of the result so far, except the dimensions of index tables.
        arrays_at: a pair for each integer and each index table: how many labels come before it, and how many slices,
            `...` and None come before it.
        truths: the bools, which are masks of no dimensions: index arrays with one element if true, none if false.
    """

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.strided: dict[int, Strided] = {}
        self.tables: dict[int, Any] = {}
        self.dropped: set[int] = set()
        self.labels: list[Label] = []
        self.arrays_at: list[tuple[int, int]] = []
        self.truths: list[bool] = []
        self.dim = self.separators = 0

    def read(self, part: Any) -> None:
        """Read one part, which may index several dimensions."""
        dim = self.dim
        self.dim += _width(part)
        self.separators += part is None or part is Ellipsis or isinstance(part, slice)
        if part is None:
            self.labels.append(("new", len(self.labels)))
        elif isinstance(part, slice):
            self.strided[dim] = _as_strided(part, self.shape[dim])
            self.labels.append(("slice", dim))
        elif part is not Ellipsis:
            self.arrays_at.append((len(self.labels), self.separators))
            if isinstance(part, int):
                self.strided[dim] = Strided(_wrap_index(part, dim, self.shape), 1, 1, self.shape[dim])
                self.dropped.add(dim)
            elif not part.ndim and part.dtype == np.bool_:
                self.truths.append(bool(part))
            else:
                self.tables.update(enumerate(_tables(part, dim, self.shape), dim))

    def index(self) -> Index:
        """Return the index that consists of all parts read so far."""
        tables, table_shape = _align_tables(self.tables, self.truths)
        selection = Selection(self.shape, self.strided, frozenset(self.dropped), tables, table_shape)
        # As in numpy, the dimensions of index tables come first if a slice, None or `...` separates tables or integers.
        at = self.arrays_at[0][0] if len(set(self.arrays_at)) == 1 else 0
        of_tables: list[Label] = [("table", axis) for axis in range(len(table_shape))]
        if not tables and self.truths:
            of_tables = [("new", len(self.labels))]
        empty_axis = at if not tables and not all(self.truths) else None
        return Index(selection, (*self.labels[:at], *of_tables, *self.labels[at:]), empty_axis)


def _read_item(item: Any) -> Any:
    """Convert an item to None, `...`, a slice, an int, or an array of integers or bools (of numpy unless traced)."""
    if item is None or item is Ellipsis or isinstance(item, slice):
        return item
    if isinstance(item, SparseTensor):
        raise _not_supported_error(f"an index of type {type(item).__name__}")
    is_truth = isinstance(item, bool) or getattr(item, "dtype", None) == np.bool_
    if is_truth or isinstance(item, list | tuple) or (hasattr(item, "ndim") and item.ndim):
        return _array(item)
    if isinstance(item, jax.core.Tracer) and is_integer(item.dtype):
        return item
    try:
        return operator.index(item)
    except TypeError as error:
        raise _not_supported_error(f"an index of type {type(item).__name__}") from error


def _array(item: Any) -> Array:
    """Convert an array or a list of integers or bools to an array."""
    is_plain = type(item) is np.ndarray  # the common case
    traced = not is_plain and any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(item))
    try:
        array = jnp.asarray(item) if traced else np.asarray(item)
    except (TypeError, ValueError) as error:
        raise _not_supported_error(f"an index of type {type(item).__name__}") from error
    check_constant(array.shape, "an array of indices")
    if array.dtype == np.bool_ and traced:
        raise ShapeError(
            "Expected a known mask, because the number of its True elements decides the result's shape, but it is "
            "traced. Multiply by it, A * mask, or index outside jit."
        )
    if not array.size and isinstance(item, list | tuple):
        return array.astype(np.int64)  # numpy, too, reads an empty list as integers
    if array.dtype != np.bool_ and not is_integer(array.dtype):
        raise _not_supported_error(f"an array of dtype {array.dtype}")
    return array


def _width(part: Any) -> int:
    """The number of dimensions that a part indexes."""
    if part is None or part is Ellipsis:
        return 0
    return part.ndim if isinstance(part, np.ndarray) and part.dtype == np.bool_ else 1


def _not_supported_error(what: str) -> NotYetSupportedError:
    """The error for an index that is none of the supported kinds."""
    return NotYetSupportedError(
        f"Indexing a SparseTensor with {what} is not supported yet: use integers, slices, '...', None, and arrays of "
        "integers or bools. Otherwise index A.todense()."
    )


def _as_strided(item: slice, size: int) -> Strided:
    try:
        start, stop, step = item.indices(size)
    except (TypeError, ValueError) as error:
        raise _not_supported_error(f"the slice {shorten(item)}") from error
    most = max(size, 1)  # any longer step selects the same: one coordinate at most
    return Strided(start, min(max(step, -most), most), len(range(start, stop, step)), size)


def _wrap_index(at: int, dim: int, shape: Shape) -> int:
    if not -shape[dim] <= at < shape[dim]:
        raise _outside("an index", dim, shape, at)
    return at % shape[dim]


def _tables(part: Array, dim: int, shape: Shape) -> Sequence[Array]:
    """Return the index table of each dimension that an array indexes. Known negative indices count from the end."""
    if isinstance(part, jax.core.Tracer):
        return [part]
    if part.dtype == np.bool_:
        indexed = shape[dim : dim + part.ndim]
        if any(n not in (size, 0) for n, size in zip(part.shape, indexed, strict=True)):  # NumPy takes empty masks, too
            raise ShapeError(
                f"Expected a mask of shape {indexed}, the size of each dimension that it indexes "
                f"in a tensor of shape {shorten(shape)}, but got {part.shape}."
            )
        return np.nonzero(part)
    table, size = np.asarray(part), shape[dim]
    low, high = (table.min(), table.max()) if table.size else (0, -1)
    if low < -size or high >= size:
        raise _outside("indices", dim, shape, table[(table < -size) | (table >= size)][0])
    if low >= 0 and table.dtype in (np.int32, np.int64):
        return [table]  # not a copy
    signed = table.astype(np.int64)
    return [np.where(signed < 0, signed + size, signed) if low < 0 else signed]


def _outside(what: str, dim: int, shape: Shape, at: object) -> ShapeError:
    size = shape[dim]
    return ShapeError(
        f"Expected {what} from {-size} to {size - 1} for dimension {dim} of a tensor of shape {shorten(shape)}, but "
        f"got {shorten(at)}."
    )


def _align_tables(tables: dict[int, Any], truths: Sequence[bool]) -> tuple[dict[int, Any], Shape]:
    """Give the index tables the rank of the shape to which they and the bools broadcast. Returns tables and shape."""
    if not tables:
        return {}, ()
    shapes = [*(table.shape for table in tables.values()), *([(int(all(truths)),)] if truths else [])]
    try:
        common = np.broadcast_shapes(*shapes)
    except ValueError as error:
        raise ShapeError(f"Expected arrays of indices whose shapes broadcast, but got {shorten(shapes)}.") from error
    if not all(truths):  # a table with one point has only False
        is_traced = {dim: isinstance(table, jax.core.Tracer) for dim, table in tables.items()}
        return {d: (jnp if is_traced[d] else np).broadcast_to(x, common) for d, x in tables.items()}, common
    return {dim: x.reshape((*[1] * (len(common) - x.ndim), *x.shape)) for dim, x in tables.items()}, common
