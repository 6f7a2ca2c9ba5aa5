"""Conversion from and to scipy.sparse arrays and matrices."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from jsparse.base.arrays import check_local, device_array
from jsparse.convert.composed import to_plain
from jsparse.convert.scipy_structure import as_compressed, blocks, entries_of, scipy_sparse
from jsparse.convert.sums import NUMBERS, summands
from jsparse.errors import DTypeError, PatternError, ShapeError, shorten
from jsparse.formats import Format, Pattern
from jsparse.formats.build import check_bounds
from jsparse.formats.composed import ComposedFormat
from jsparse.formats.validate import parse_shape
from jsparse.tensor.composed import ComposedTensor, Composition
from jsparse.tensor.leaves import check_leaves
from jsparse.tensor.sparse_tensor import SparseTensor

if TYPE_CHECKING:
    from scipy.sparse import sparray


def from_scipy(x: Any, format: Format, dtype: np.dtype | None = None) -> tuple[Pattern, np.ndarray, bool]:
    """Convert a scipy.sparse array or matrix to a pattern in `format`, and to the values of its slots.

    Returns (pattern, values, fresh); `fresh` says that the values are a copy. Unsorted and repeated entries are legal,
    and duplicates are summed, without rounding before the caller converts the sums to `dtype`.

    Raises PatternError if the index arrays and the data of `x` do not fit each other, and locates the fault in one of
    them; DTypeError if the values are not numbers.
    """
    shape = parse_shape(x.shape, format)
    try:
        if x.format in ("csr", "csc"):
            parts = as_compressed(x, shape)
            if parts.is_sorted and x.format == format.name:
                return Pattern._of_valid(shape, format, parts.copy_arrays(shape)), parts.values, False
            rows, values = parts.entries(x.format, shape)
        else:
            rows, values = entries_of(x, shape)
    except PatternError as error:
        raise _wrong(x, error) from error
    terms = values if dtype is None else summands(values, dtype)
    try:
        pattern, summed = Pattern.of_entries(rows, terms, shape, format)
    except PatternError:
        try:
            check_bounds(rows, shape)
        except PatternError as error:
            raise _wrong(x, error) from error
        raise
    return pattern, summed, summed is not values


def blocks_from_scipy(
    x: sparray, format: Format | ComposedFormat | str, dtype: np.dtype | None
) -> ComposedTensor | None:
    """Convert a bsr array block by block. None unless it has the blocks of `format`, each of them once.

    Raises PatternError as `from_scipy` does.
    """
    name = Format.of(format, len(x.shape)).name
    if x.format != "bsr" or name != "bsr({}, {})".format(*np.shape(x.data)[1:]):
        return None
    shape = parse_shape(x.shape, Format.plain("csr", 2))
    try:
        parts = blocks(x, shape)
    except PatternError as error:
        raise _wrong(x, error) from error
    b, c = parts.values.shape[1:]
    of_blocks = shape[0] // b, shape[1] // c
    outer, built = Pattern.from_rows(parts.entries("csr", of_blocks)[0], of_blocks, Format.plain("csr", 2))
    if outer.nse < len(parts.values):
        return None
    values = parts.values if built.is_identity else parts.values[built.gather()]
    return ComposedTensor(device_array(values.reshape(-1), NUMBERS, dtype, False), Composition.of_blocks(outer, b, c))


def _wrong(x: Any, error: PatternError) -> PatternError:
    kind = f"{type(x).__name__} of shape {shorten(x.shape)}"
    return PatternError(f"{error} This {kind} does not follow scipy.sparse's definition: make it again.")


def static_or_blocks(tensor: SparseTensor, where: str) -> SparseTensor:
    """Return a tensor that another library can hold: static, plain or in bsr with blocks that fill its shape.

    Raises DTypeError if the values are traced, ShardingError if they are on the devices of several processes.
    """
    check_leaves(tensor, f"A in {where}")
    if isinstance(tensor.values, jax.core.Tracer):
        raise DTypeError(f"Expected known values, but {tensor!r} has traced values. Convert it outside jit.")
    check_local(tensor.values, f"the values of A in {where}")
    tensor = tensor.static()
    if isinstance(tensor, ComposedTensor):
        part, *others = tensor.pattern.parts
        is_bsr = not others and part.format.name.startswith("bsr(")
        if not is_bsr or part.format.blocks.is_ragged(tensor.shape):  # blocks of other libraries never exceed the shape
            return to_plain(tensor)
    return tensor


def to_scipy(tensor: SparseTensor) -> sparray:
    """Convert to a scipy.sparse array: csr_array, csc_array or bsr_array for matrices in these formats, else coo_array.

    Tensors in composed formats without a counterpart in SciPy become csr_array.

    Explicit zeros are kept. The arrays are copies.

        >>> A.to_scipy().tocsc()

    Raises ShapeError for a tensor without dimensions (before SciPy 1.15, for every rank other than two); DTypeError if
    the values are traced, or have a dtype that scipy does not support (bfloat16, float16); ShardingError if its arrays
    are on the devices of several processes.
    """
    tensor = static_or_blocks(tensor, "A.to_scipy")
    values = np.array(tensor.values)
    if values.dtype.kind == "V" or values.dtype == np.float16:
        raise DTypeError(f"Expected values that scipy.sparse can hold, but got {values.dtype}. Use astype('float32').")
    sparse = scipy_sparse()
    if isinstance(tensor, ComposedTensor):
        (part,), (pointers, columns) = tensor.pattern.parts, tensor.pattern.arrays()
        return sparse.bsr_array((values.reshape(-1, *part.inner), columns.copy(), pointers.copy()), shape=tensor.shape)
    assert isinstance(tensor.pattern, Pattern)
    if tensor.format.name in ("csr", "csc"):
        make = sparse.csr_array if tensor.format.name == "csr" else sparse.csc_array
        pointers, coordinates = tensor.pattern.arrays
        return make((values, coordinates.copy(), pointers.copy()), shape=(tensor.shape[0], tensor.shape[1]))
    try:
        return sparse.coo_array((values, tuple(tensor.pattern.to_coords())), shape=tensor.shape)
    except (TypeError, ValueError) as error:
        raise ShapeError(
            f"Expected a matrix for scipy.sparse {version('scipy')}, or from 1.15 on a tensor with at least one "
            f"dimension, but the tensor has shape {tensor.shape}. Use to_coords()."
        ) from error
