"""Makes sparse tensors from dense arrays, scipy.sparse, coordinates and sparse tensors."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.errors import DTypeError, NotYetSupportedError, PatternError, ShapeError
from jsparse.formats import Format, Pattern, default_format
from jsparse.tensor import SparseTensor, refuse_dynamic

__all__ = ["asarray", "from_coords"]


def asarray(
    x: Any,
    format: Format | str | None = None,
    *,
    dtype: Any = None,
    dynamic: bool = False,
    nse: int | None = None,
) -> SparseTensor:
    """The sparse tensor of a dense array (numpy, concrete jax, lists), any scipy.sparse class, or a SparseTensor.

    A dense array's zeros are dropped and its NaNs kept; explicit zeros of scipy.sparse stay and its duplicates are
    summed. `format` is by default csr for matrices, otherwise all levels compressed; a SparseTensor keeps its own.
    Raises FormatError and SubscriptError (format), DTypeError (no numbers), NotYetSupportedError (traced arrays, BCOO,
    BCSR, `dynamic=`, `nse=`).
    """
    refuse_dynamic("asarray", nse, dynamic)
    if isinstance(x, SparseTensor):
        tensor = x if format is None else x.asformat(format)
        return tensor if dtype is None else tensor.astype(dtype)
    if isinstance(x, jax.core.Tracer):
        raise NotYetSupportedError(
            "asarray of a traced array is not supported yet: which entries it stores would be known at run time only. "
            "Make the SparseTensor outside jit and pass it in; its values may then be traced (A.with_values(v))."
        )
    if type(x).__module__.startswith("jax.experimental.sparse"):
        raise NotYetSupportedError(
            f"asarray of a {type(x).__name__} is not supported yet. Use SparseTensor.from_coords(x.indices.T, x.data, "
            "x.shape) for a BCOO without batch and dense dimensions and padding, or asarray(x.todense())."
        )
    if _is_scipy(x):
        return _from_scipy(x, format, dtype)
    return _from_dense(np.asarray(x), format, dtype)


def from_coords(
    coords: Any, values: Any, shape: Sequence[int], format: Format | str | None = "coo", *, nse: int | None = None
) -> SparseTensor:
    """`SparseTensor.from_coords`, which documents it."""
    refuse_dynamic("from_coords", nse)
    if isinstance(coords, jax.core.Tracer):
        raise NotYetSupportedError(
            "from_coords with traced coordinates is not supported yet. Pass concrete coordinates; values may be traced."
        )
    values = values if isinstance(values, jax.Array) else np.asarray(values)
    pattern, slots = Pattern.from_coordinates(coords, shape, _resolved(format, len(shape)))
    if values.shape != slots.shape:
        raise ShapeError(
            f"Expected values of shape {slots.shape}, one for each column of the coordinates, but got {values.shape}."
        )
    _check_numbers(values.dtype)
    return SparseTensor(_placed(values, slots, pattern.nse), pattern)


def _resolved(format: Format | str | None, ndim: int) -> Format:
    return default_format(ndim) if format is None else Format.of(format, ndim)


def _from_dense(x: np.ndarray, format: Format | str | None, dtype: Any) -> SparseTensor:
    _check_numbers(x.dtype)
    layout = _resolved(format, x.ndim)
    if layout.is_dense:
        pattern = Pattern.of_arrays(x.shape, layout, ())
        return _make(x.transpose(layout.order).reshape(-1), pattern, dtype)
    stored = np.nonzero(x)
    pattern, slots = Pattern.from_coordinates(np.stack(stored), x.shape, layout)
    return _make(_placed(x[stored], slots, pattern.nse), pattern, dtype)


def _from_scipy(x: Any, format: Format | str | None, dtype: Any) -> SparseTensor:
    _check_numbers(x.dtype)
    layout = _resolved(format, len(x.shape))
    if x.format == layout.name and x.format in ("csr", "csc"):
        count = int(x.indptr[-1])
        try:
            pattern = Pattern(x.shape, layout, (x.indptr, x.indices[:count]))
        except PatternError:
            pass  # unsorted, or with duplicates: legal there
        else:
            return _make(x.data[:count], pattern, dtype)
    triplets = x.tocoo()
    coords = triplets.coords if hasattr(triplets, "coords") else (triplets.row, triplets.col)
    pattern, slots = Pattern.from_coordinates(np.stack(coords), x.shape, layout)
    return _make(_placed(triplets.data, slots, pattern.nse), pattern, dtype)


def _is_scipy(x: Any) -> bool:
    scipy_sparse = sys.modules.get("scipy.sparse")
    return scipy_sparse is not None and scipy_sparse.issparse(x)


def _check_numbers(dtype: np.dtype) -> None:
    if not (dtype == np.bool_ or jnp.issubdtype(dtype, jnp.number)):
        raise DTypeError(f"Expected an array of numbers to make a SparseTensor from, but got dtype {dtype}.")


def _make(values: np.ndarray, pattern: Pattern, dtype: Any) -> SparseTensor:
    # A copy: on CPU, jax would share the memory of a numpy array that its owner may still write to.
    return SparseTensor(jnp.array(values, dtype), pattern)


def _placed(values: Any, slots: np.ndarray, nse: int) -> Any:
    """(nse,) the sums of the values that share a slot, 0 where no value has it; differentiable if they are traced."""
    in_place = len(slots) == nse and np.array_equal(slots, np.arange(nse))
    if isinstance(values, jax.core.Tracer):
        return values if in_place else jnp.zeros(nse, values.dtype).at[slots].add(values)
    values = np.asarray(values)
    if in_place:
        return values
    placed = np.zeros(nse, values.dtype)
    np.add.at(placed, slots, values)
    return placed
