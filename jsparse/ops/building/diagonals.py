"""Functions of diagonals and triangles: diag, diagonal, trace, tril, triu."""

from __future__ import annotations

from types import ModuleType
from typing import ClassVar

import jax
import jax.numpy as jnp

from jsparse.base.arrays import jax_array
from jsparse.base.dataclass import dataclass
from jsparse.base.limits import check_bytes
from jsparse.convert.creation import as_sparse_operand
from jsparse.errors import ShapeError, describe_type, shorten
from jsparse.formats import Format
from jsparse.ops.einsum import einsum
from jsparse.ops.reductions.stored import as_run
from jsparse.ops.relocation.coordinate_map import CoordinateMap, Rows
from jsparse.ops.relocation.formats import default_in, format_of_result, remaining_format
from jsparse.ops.relocation.operands import as_axes, as_integer, as_tensor
from jsparse.ops.relocation.relocate import Relocation, relocate
from jsparse.tensor.sparse_tensor import SparseLike, SparseTensor, TensorLike, dense_levels

SPARE_SLOTS = 4  # a diagonal that is summed has at most this many slots per entry of the tensor


def diag(v: TensorLike, k: int = 0, *, format: Format | str | None = None) -> SparseTensor | jax.Array:
    """Make a matrix with a vector on its k-th diagonal, or take that diagonal of a matrix, as jnp.diag does.

        >>> jsparse.diag(jnp.ones(1000)) @ A       # an array of any values: all of them are stored
        >>> jsparse.diag(A)                        # the diagonal of a matrix is an array

    Args:
        v: a vector, dense or sparse, or a sparse matrix.
        k: 0 for the main diagonal, positive for diagonals above it, negative for diagonals below it.
        format: the format of the matrix, by default csr (dcsr if there are many more rows than entries).

    Returns a SparseTensor for a vector, an array for a matrix. Raises ShapeError for other ranks, FormatError for an
    unsuitable format, DTypeError if `v` does not hold numbers.
    """
    operand = as_sparse_operand(v, "jsparse.diag")
    if not isinstance(operand, SparseTensor):
        array = jax_array(operand, "a vector of numbers, or a SparseTensor, for jsparse.diag", shared=False)
        operand = dense_levels(array, Format.dense(array.ndim)) if array.ndim == 1 else array
    if operand.ndim == 1:
        vector, by = as_tensor(operand, "diag"), as_integer(k, "the k of jsparse.diag")
        shape = (vector.shape[0] + abs(by),) * 2
        target = format_of_result([vector], format, shape, vector.nse)
        return relocate([vector], Relocation((_OnDiagonal(max(-by, 0), max(by, 0)),), shape, target))
    if operand.ndim != 2 or not isinstance(operand, SparseTensor):
        raise ShapeError(
            f"Expected a vector, or a sparse matrix, for jsparse.diag, but got {describe_type(operand)} of shape "
            f"{shorten(operand.shape)}. Use jnp.diag for dense matrices."
        )
    return diagonal(operand, k)


def diagonal(a: SparseLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> SparseTensor | jax.Array:
    """Take a diagonal of two dimensions, as jnp.diagonal does. The diagonal becomes the result's last dimension.

    The diagonal of a matrix is an array. The diagonal of a tensor with more dimensions is a SparseTensor.

        >>> jsparse.diagonal(A, 1)

    Args:
        offset: 0 for the main diagonal, positive for diagonals above it, negative for diagonals below it.
        axis1, axis2: the dimensions of rows and of columns.

    The dtype stays. Raises ShapeError if an axis is out of range, the axes are equal, or there are fewer than two
    dimensions.
    """
    tensor = as_tensor(a, "diagonal")
    result = _diagonal(tensor, offset, axis1, axis2, "diagonal")
    if result.ndim > 1:
        return result
    return result.todense() if result.is_dynamic else result.values


def trace(a: SparseLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> SparseTensor | jax.Array:
    """Sum a diagonal of two dimensions, as jnp.trace does.

    The trace of a matrix is an array of shape (). The trace of any other tensor is sparse or dense as in
    `jsparse.einsum`.

        >>> jsparse.trace(A)

    The dtype is as in jnp.sum. Raises ShapeError if an axis is out of range, the axes are equal, or there are fewer
    than two dimensions.
    """
    tensor = as_tensor(a, "trace")
    # A dense level is as long as the diagonal, so one program serves all patterns of a shape.
    is_short = min(tensor.shape, default=0) <= SPARE_SLOTS * tensor.nse
    entries = _diagonal(tensor, offset, axis1, axis2, "trace", dense=is_short)
    entries = as_run(entries) if entries.ndim == 1 else entries
    dtype = jax.eval_shape(jnp.sum, jax.ShapeDtypeStruct((1,), tensor.dtype)).dtype
    dims = list(range(entries.ndim))
    return einsum(entries, dims, dims[:-1], preferred_element_type=dtype)


def _diagonal(tensor: SparseTensor, offset: int, axis1: int, axis2: int, what: str, dense: bool = True) -> SparseTensor:
    """Return a diagonal as a SparseTensor. If `dense`, the diagonal of a static matrix is stored in a dense level."""
    by = as_integer(offset, f"the offset of jsparse.{what}")
    rows, columns = as_axes((axis1, axis2), tensor.ndim, what)
    by = max(min(by, tensor.shape[columns]), -tensor.shape[rows])
    length = max(min(tensor.shape[rows] - max(-by, 0), tensor.shape[columns] - max(by, 0)), 0)
    others = tuple(dim for dim in range(tensor.ndim) if dim not in (rows, columns))
    shape = (*(tensor.shape[dim] for dim in others), length)
    carried = tuple((dim, n) for n, dim in enumerate(others))
    if dense and not others:
        check_bytes(shape, tensor.dtype, "the diagonal as an array", "Use jsparse.tril(jsparse.triu(A)).")
    if others:
        target = _of_diagonal(tensor.format, rows, columns)
    else:
        target = Format.dense(1) if dense and not tensor.is_dynamic else default_in(shape, tensor.nse)
    one = _Diagonal(rows, columns, by, others, length)
    return relocate([tensor], Relocation((one,), shape, target, carried))


def _of_diagonal(format: Format, rows: int, columns: int) -> Format:
    """Return the format after two dimensions are merged into one, which comes last.

    The merged dimension keeps the level of one of the two, if possible a level that is not full.
    """
    full = format.full_dims
    one, other = (columns, rows) if rows in full and columns not in full else (rows, columns)
    kept = [dim for dim in range(format.ndim) if dim != other]
    remaining = remaining_format(format, [dim != other for dim in range(format.ndim)], listed=(one,))
    return remaining.transposed([*(n for n, dim in enumerate(kept) if dim != one), kept.index(one)])


def tril(a: SparseLike, k: int = 0) -> SparseTensor:
    """Keep the entries on and below the k-th diagonal of the last two dimensions, as jnp.tril does.

    The result has the tensor's format and only the entries that are kept; a dynamic result has the tensor's nse.

        >>> jsparse.tril(A, -1)  # strictly below the main diagonal

    The dtype stays the same. Raises ShapeError for tensors of fewer than two dimensions.
    """
    return _triangle(a, as_integer(k, "the k of jsparse.tril"), True, "tril")


def triu(a: SparseLike, k: int = 0) -> SparseTensor:
    """Keep the entries on and above the k-th diagonal of the last two dimensions, as jnp.triu does. See `tril`.

    >>> jsparse.triu(A, 1)  # strictly above the main diagonal
    """
    return _triangle(a, as_integer(k, "the k of jsparse.triu"), False, "triu")


def _triangle(a: SparseLike, k: int, below: bool, what: str) -> SparseTensor:
    tensor = as_tensor(a, what)
    if tensor.ndim < 2:
        raise ShapeError(
            f"Expected a tensor of two dimensions or more for jsparse.{what}, but got shape {tensor.shape}."
        )
    carried = tuple((dim, dim) for dim in range(tensor.ndim - 2))
    k = max(min(k, tensor.shape[-1]), -tensor.shape[-2])
    return relocate([tensor], Relocation((_Triangle(k, below),), tensor.shape, tensor.format, carried, tensor.nse))


@dataclass(frozen=True)
class _OnDiagonal(CoordinateMap):
    """A map of coordinates: entry i of a vector moves to (i + below, i + above)."""

    below: int
    above: int

    def __call__(self, rows: Rows, xnp: ModuleType) -> Rows:
        return [rows[0] + self.below, rows[0] + self.above]


@dataclass(frozen=True)
class _Diagonal(CoordinateMap):
    """A map that keeps the entries with column - row = offset. The smaller of both becomes the last coordinate."""

    drops: ClassVar[bool] = True
    row: int
    column: int
    offset: int
    others: tuple[int, ...]
    length: int

    def __call__(self, rows: Rows, xnp: ModuleType) -> Rows:
        at = rows[self.row] - max(-self.offset, 0)
        on = (at >= 0) & (at < self.length) & (rows[self.column] - max(self.offset, 0) == at)
        return [*(rows[dim] for dim in self.others), xnp.where(on, at, -1)]


@dataclass(frozen=True)
class _Triangle(CoordinateMap):
    """A map that keeps the entries on diagonal number k, and the entries below it if `below`, else above it."""

    drops: ClassVar[bool] = True
    k: int
    below: bool

    def __call__(self, rows: Rows, xnp: ModuleType) -> Rows:
        *others, row, column = rows
        number = column - row
        kept = number <= self.k if self.below else number >= self.k
        return [*others, xnp.where(kept, row, -1), column]
