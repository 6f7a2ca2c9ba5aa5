"""Makes sparse tensors from dense arrays, scipy.sparse, coordinates and sparse tensors."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse import _native
from jsparse.base.arrays import check_numbers, given_dtype, host_array
from jsparse.base.limits import checked_nse
from jsparse.convert import dynamic_creation
from jsparse.convert.array_kinds import is_jax_sparse, is_scipy
from jsparse.convert.jax_sparse import from_jax_sparse
from jsparse.convert.scipy_sparse import from_scipy
from jsparse.errors import NotYetSupportedError, PatternError, ShapeError
from jsparse.formats import Format, Pattern, default_format
from jsparse.formats.build import Built
from jsparse.formats.coordinates import split_coordinates
from jsparse.formats.levels import COMPRESSED
from jsparse.formats.shape import sizes_of
from jsparse.tensor.dense import dense_levels
from jsparse.tensor.dynamic_pattern import dynamic_type
from jsparse.tensor.sparse_tensor import SparseTensor

__all__ = ["as_sparse_operand", "asarray", "from_coords"]

_NUMBERS = "an array of numbers to make a SparseTensor from"


def asarray(
    x: Any,
    format: Format | str | None = None,
    *,
    dtype: Any = None,
    dynamic: bool = False,
    nse: int | None = None,
) -> SparseTensor:
    """The sparse tensor of a dense array (numpy, jax, lists), any scipy.sparse class, a BCOO, BCSR or SparseTensor.

    A dense array's zeros are dropped and its NaNs kept; explicit zeros of sparse arrays stay and their duplicates are
    summed. `format` is by default csr for matrices, otherwise all levels compressed; a BCOO's is coo, with inner dense
    levels for its `n_dense`; a SparseTensor keeps its own.

    Args:
        dtype: of the values; by default that of `x`.
        dynamic: make the pattern data: index arrays are leaves of the pytree, and one compiled program serves all
            patterns of one shape, format and nse. A traced array needs this. A BCOO or BCSR with traced indices, or
            with `n_batch`, is dynamic in any case (see `jsparse.convert.jax_sparse.from_jax_sparse`), a tensor whose
            levels are all dense never: it has no index array.
        nse: the room of a dynamic pattern, by default what is stored; a traced dense array needs it. For a static one a
            bound that is checked.

    Raises PatternError (no room, a traced array without `dynamic=True` and `nse=`), FormatError and SubscriptError
    (format), DTypeError (no numbers; int64 indices are needed, but x64 is off).
    """
    nse = checked_nse(nse, "asarray")
    dtype = None if dtype is None else given_dtype(dtype, "dtype= of asarray to be a dtype of numbers")
    if isinstance(x, SparseTensor):
        tensor = x if format is None else x.asformat(format, nse=nse)
    elif isinstance(x, jax.core.Tracer):
        tensor = _from_traced(x, format, dynamic, nse)
    elif is_jax_sparse(x):
        tensor = from_jax_sparse(x, format, dynamic, nse)
    elif is_scipy(x):
        tensor = _from_scipy(x, format, dtype)
    else:
        tensor = _from_dense(host_array(x, _NUMBERS), format, dtype)
    tensor = _with_room(tensor, dynamic, nse)
    return tensor if dtype is None or tensor.dtype == dtype else tensor.astype(dtype)


def as_sparse_operand(x: Any, text: str) -> Any:
    """A BCOO, BCSR or scipy.sparse array as the SparseTensor that `jsparse.asarray` makes of it; anything else itself.

    Raises NotYetSupportedError for a BCOO or BCSR with batch dimensions: those are for `jax.vmap`.
    """
    if isinstance(x, SparseTensor | jax.Array | np.ndarray) or not (is_scipy(x) or is_jax_sparse(x)):
        return x
    if getattr(x, "n_batch", 0):
        kind = type(x).__name__
        raise NotYetSupportedError(
            f"Expected the operands of {text} to have no batch dimensions, but one is a {kind} of shape {x.shape} with "
            f"n_batch={x.n_batch}. Map over it with jax.vmap, or give it as x.update_layout(n_batch=0)."
        )
    return asarray(x)


def _with_room(tensor: SparseTensor, dynamic: bool, nse: int | None) -> SparseTensor:
    """The tensor, made dynamic if that is asked for, with room for `nse` slots."""
    if tensor.is_dynamic or (dynamic and not tensor.format.is_dense):
        return tensor if tensor.is_dynamic and nse is None else tensor.dynamic(nse)
    if nse is not None and tensor.nse > nse:
        raise PatternError(f"Expected room for the {tensor.nse:,} slots of {tensor!r}, but nse={nse:,}.")
    return tensor


def _from_traced(x: Any, format: Format | str | None, dynamic: bool, nse: int | None) -> SparseTensor:
    check_numbers(x.dtype, _NUMBERS)
    layout = _resolved(format, x.ndim)
    if layout.is_dense:
        return dense_levels(x, layout)
    if not dynamic or nse is None:
        raise PatternError(
            "Expected dynamic=True and nse= (room for the entries) for a traced array, since which entries it stores "
            f"is known at run time only, but got dynamic={dynamic} and nse={nse}. Or make the SparseTensor outside jit "
            "and pass it in: its values may then be traced."
        )
    return dynamic_creation.from_traced_dense(x, dynamic_type(x.shape, layout, nse))


def from_coords(
    coords: Any, values: Any, shape: Sequence[int], format: Format | str = "coo", *, nse: int | None = None
) -> SparseTensor:
    """The tensor with `values` (n,) at `coords` (ndim, n), which may come in any order; duplicates are summed.

    Coordinates are integers of any dtype. Values may be traced, and are differentiable. Zeros stay.

    Concrete coordinates give a static pattern; they have to lie within the shape. Traced ones, or `nse=`, give a
    dynamic pattern, with room for `nse` slots, by default for n entries; coordinates out of range (negative ones
    included) are padding then. If there is no room, a concrete call raises; a traced one gives float values of
    NaN, and `overflowed`.

    Raises PatternError (coordinates, room), ShapeError (values), FormatError and SubscriptError (format),
    DTypeError (int64 indices are needed, but x64 is off).
    """
    nse = checked_nse(nse, "from_coords")
    if isinstance(coords, jax.core.Tracer) or nse is not None:
        return dynamic_creation.from_coords(coords, values, shape, format, nse)
    values = values if isinstance(values, jax.Array) else host_array(values, _NUMBERS)
    shape = sizes_of(shape)
    layout = _resolved(format, len(shape))
    rows = split_coordinates(coords, shape)
    count = np.shape(coords)[-1]
    if values.shape != (count,):
        raise ShapeError(
            f"Expected values of shape {(count,)}, one for each column of the coordinates, but got {values.shape}."
        )
    check_numbers(values.dtype, _NUMBERS)
    if not rows:
        return SparseTensor(values.sum(keepdims=True), Pattern._trusted((), layout, ()))
    if not isinstance(values, jax.core.Tracer):
        pattern, placed = Pattern.of_entries(rows, given := np.asarray(values), shape, layout)
        return SparseTensor(values, pattern) if placed is given else _make(placed, pattern, None, fresh=True)
    pattern, built = Pattern.from_rows(rows, shape, layout)
    return SparseTensor(_placed(values, built), pattern)


def _resolved(format: Format | str | None, ndim: int) -> Format:
    return default_format(ndim) if format is None else Format.of(format, ndim)


def _from_dense(x: np.ndarray, format: Format | str | None, dtype: Any) -> SparseTensor:
    layout = _resolved(format, x.ndim)
    if layout.is_dense:
        pattern = Pattern._trusted(x.shape, layout, ())
        return _make(x.transpose(layout.order).reshape(-1), pattern, dtype)
    if not x.flags.c_contiguous:
        x = np.ascontiguousarray(x)
    if layout.order == tuple(range(x.ndim)) and layout.levels[-1].kind is COMPRESSED and _dense_above(layout):
        rows = prod(x.shape[:-1])  # not what the number of elements says: a row may have none
        wide = max(x.size, rows, x.shape[-1]) >= 2**31
        pointers, columns, values = _native.compress_dense(x, rows, _kind(x.dtype), wide)
        return _make(values, Pattern._trusted(x.shape, layout, (pointers, columns)), dtype, fresh=True)
    _, places, values = _native.compress_dense(x, 1, _kind(x.dtype), x.size >= 2**31)
    pattern, built = Pattern.from_rows(np.unravel_index(places, x.shape), x.shape, layout)
    return _make(built.summed(values), pattern, dtype, fresh=True)


def _dense_above(layout: Format) -> bool:
    return all(level.kind.is_full for level in layout.levels[:-1])


def _kind(dtype: np.dtype) -> str:
    """How the extension tells zeros of that dtype: -0.0 is one, NaN is not."""
    if dtype == np.bool_ or jnp.issubdtype(dtype, jnp.integer):
        return "integer"
    return "complex" if jnp.issubdtype(dtype, jnp.complexfloating) else "floating"


def _from_scipy(x: Any, format: Format | str | None, dtype: Any) -> SparseTensor:
    pattern, values, fresh = from_scipy(x, _resolved(format, len(x.shape)))
    return _make(values, pattern, dtype, fresh)


def _make(values: np.ndarray, pattern: Pattern, dtype: Any, fresh: bool = False) -> SparseTensor:
    if not fresh:  # a copy: on CPU, jax would share the memory, which its owner may still write to
        return SparseTensor(jnp.array(values, dtype), pattern)
    shared = jax.device_put(values, may_alias=True)  # ours alone, so it need not be copied
    return SparseTensor(shared if dtype is None else shared.astype(dtype), pattern)


def _placed(values: Any, built: Built) -> Any:
    """(nse,) the sums of the traced values that share a slot, 0 where no value has it."""
    return values if built.in_place else dynamic_creation.scatter_sums(values, built.slots(), (built.nse,))
