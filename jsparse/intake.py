"""Makes sparse tensors from dense arrays, scipy.sparse, coordinates and sparse tensors."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse import _native
from jsparse.errors import DTypeError, NotYetSupportedError, PatternError, ShapeError
from jsparse.formats import Format, LevelKind, Pattern, default_format
from jsparse.formats.build import Built
from jsparse.formats.coordinates import split_coordinates
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
    layout = _resolved(format, len(shape))
    rows = split_coordinates(coords, shape)
    count = np.shape(coords)[-1]
    if values.shape != (count,):
        raise ShapeError(
            f"Expected values of shape {(count,)}, one for each column of the coordinates, but got {values.shape}."
        )
    _check_numbers(values.dtype)
    if not rows:
        return SparseTensor(values.sum(keepdims=True), Pattern.of_arrays((), layout, ()))
    pattern, built = Pattern.from_rows(rows, shape, layout)
    return SparseTensor(_placed(values, built), pattern)


def _resolved(format: Format | str | None, ndim: int) -> Format:
    return default_format(ndim) if format is None else Format.of(format, ndim)


def _from_dense(x: np.ndarray, format: Format | str | None, dtype: Any) -> SparseTensor:
    _check_numbers(x.dtype)
    layout = _resolved(format, x.ndim)
    if layout.is_dense:
        pattern = Pattern.of_arrays(x.shape, layout, ())
        return _make(x.transpose(layout.order).reshape(-1), pattern, dtype)
    if not x.flags.c_contiguous:
        x = np.ascontiguousarray(x)
    if layout.order == tuple(range(x.ndim)) and layout.levels[-1].kind is LevelKind.COMPRESSED and _dense_above(layout):
        pointers, columns, values = _native.compress_dense(
            x, x.shape[-1], _kind(x.dtype), max(x.size, *x.shape) >= 2**31
        )
        return _make(values, Pattern.of_arrays(x.shape, layout, (pointers, columns)), dtype, fresh=True)
    _, places, values = _native.compress_dense(x, x.size, _kind(x.dtype), x.size >= 2**31)
    pattern, built = Pattern.from_rows(np.unravel_index(places, x.shape), x.shape, layout)
    return _make(built.summed(values), pattern, dtype, fresh=True)


def _dense_above(layout: Format) -> bool:
    return all(level.kind is LevelKind.DENSE for level in layout.levels[:-1])


def _kind(dtype: np.dtype) -> str:
    """How the extension tells zeros of that dtype: -0.0 is one, NaN is not."""
    if dtype == np.bool_ or jnp.issubdtype(dtype, jnp.integer):
        return "integer"
    return "complex" if jnp.issubdtype(dtype, jnp.complexfloating) else "floating"


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
    pattern, built = Pattern.from_rows(coords, x.shape, layout)
    return _make(built.summed(triplets.data), pattern, dtype, fresh=not built.in_place)


def _is_scipy(x: Any) -> bool:
    scipy_sparse = sys.modules.get("scipy.sparse")
    return scipy_sparse is not None and scipy_sparse.issparse(x)


def _check_numbers(dtype: np.dtype) -> None:
    if not (dtype == np.bool_ or jnp.issubdtype(dtype, jnp.number)):
        raise DTypeError(f"Expected an array of numbers to make a SparseTensor from, but got dtype {dtype}.")


def _make(values: np.ndarray, pattern: Pattern, dtype: Any, fresh: bool = False) -> SparseTensor:
    # A copy unless the array is ours: on CPU, jax would share its memory, which its owner may still write to.
    return SparseTensor(jnp.asarray(values, dtype) if fresh else jnp.array(values, dtype), pattern)


def _placed(values: Any, built: Built) -> Any:
    """(nse,) the sums of the values that share a slot, 0 where no value has it; differentiable if they are traced."""
    if built.in_place:
        return values
    if not isinstance(values, jax.core.Tracer):
        return built.summed(np.asarray(values))
    return jnp.zeros(built.nse, values.dtype).at[built.slots()].add(values)
