"""Sums of the values of entries that share a slot: on the host if the entries are known, else by a program."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse._compat import same_varying
from jsparse.base.arrays import Array, cast, device_array, narrow_array
from jsparse.base.limits import check_bytes
from jsparse.formats import Format, PatternType
from jsparse.formats.build import sum_dtype
from jsparse.primitives.einsum import einsum_p
from jsparse.primitives.host import is_on_host, on_device
from jsparse.primitives.routine import Assembled
from jsparse.primitives.rows import row_sums
from jsparse.primitives.spec import ArrayAccess, PatternAccess, Spec

NUMBERS = "an array of numbers to make a SparseTensor from"
"""What follows "Expected" in messages about values."""


def summands(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Convert values of entries to the dtype in which duplicates are summed for a result of `dtype`.

    The result is `values` itself if the dtype stays.
    """
    wide = values.dtype if values.dtype == dtype else sum_dtype(values.dtype, dtype)
    is_long = wide.kind in "iu" and jnp.issubdtype(dtype, jnp.inexact)
    return cast(values, np.dtype(np.float64) if is_long and may_overflow(values, wide) else wide)


def _widen_values(values: Array, dtype: np.dtype) -> jax.Array:
    """Convert values as `summands` does, but to 32 bits if x64 is off, and to floats for any float result."""
    wide = sum_dtype(values.dtype, dtype)
    if wide.kind in "iu" and jnp.issubdtype(dtype, jnp.inexact):
        wide = np.dtype(np.float64)
    return convert_values(values, jax.dtypes.canonicalize_dtype(wide) if values.dtype.itemsize <= 4 else wide)


def convert_values(values: Array, dtype: np.dtype) -> jax.Array:
    """Convert values to a jax array of `dtype`, which becomes 32 bits wide if x64 is off."""
    if isinstance(values, np.ndarray):
        return device_array(values, NUMBERS, dtype)
    return values.astype(jax.dtypes.canonicalize_dtype(dtype))


def may_overflow(values: np.ndarray, wide: np.dtype) -> bool:
    """Whether a sum of integers could be out of the range of the dtype `wide`."""
    largest = max(int(values.max(initial=0)), -int(values.min(initial=0)))
    return largest * values.size > np.iinfo(wide).max


def scatter_sums(
    values: Array, coordinates: Sequence[Array], shape: tuple[int, ...], dtype: np.dtype | None = None
) -> Any:
    """Add values of shape (n, ...) at the given coordinates to an array of zeros of shape (shape..., ...).

    Traced coordinates must not be negative. They may exceed the shape, and values there are dropped. The sum of
    booleans is their disjunction. `dtype` is the dtype of the result, by default the dtype of the values.
    """
    dtype = np.dtype(values.dtype if dtype is None else dtype)
    whole = (*shape, *values.shape[1:])
    check_bytes(whole, dtype, "the values of all slots", "Use a format with fewer dense levels.")
    if is_on_host(values, *coordinates):
        terms = summands(np.asarray(values), dtype)
        sums = np.zeros(whole, sum_dtype(terms.dtype))
        with np.errstate(over="ignore", invalid="ignore"):
            np.add.at(sums, tuple(coordinates), terms.astype(sums.dtype, copy=False))
            sums = cast(sums, terms.dtype)
        return on_device([narrow_array(sums, NUMBERS, dtype)], [values])[0]
    if values.dtype != dtype:
        return convert_values(scatter_sums(_widen_values(values, dtype), coordinates, shape), dtype)
    values = convert_values(values, dtype)
    if values.dtype == np.bool_ and len(values):
        return jnp.zeros(whole, values.dtype).at[tuple(coordinates)].max(values, mode="drop")
    return row_sums(values, coordinates, shape)


def slot_sums(values: Any, assembled: Assembled, nse: int, dtype: np.dtype | None = None) -> jax.Array:
    """Sum `values` (entries, ...) over the entries that `assembled` assigns to each slot. Returns a flat array.

    `dtype` is the dtype of the result, by default the dtype of the values.
    """
    if dtype is not None and values.dtype != dtype:
        return convert_values(slot_sums(_widen_values(values, dtype), assembled, nse), dtype)
    values = convert_values(values, values.dtype)
    # The sum is the product M · values with a csr matrix M (nse x inputs) of ones: M[q, k] = 1 if input k belongs to
    # slot q. Its transposed index has one entry in each row, at `slots`, so the cotangent is a gather.
    inputs = values.shape[0]
    block = (prod(values.shape[1:]),) if values.ndim > 1 else ()  # not -1, which is undefined for no values
    if not nse or not inputs:
        return jnp.zeros(nse * prod(block), values.dtype)  # M has no elements, so its index arrays must not be read
    matrix, transposed = (PatternType((nse, inputs), Format.plain(name, 2), inputs) for name in ("csr", "csc"))
    inner = "t" * len(block)
    sizes = (("q", nse), ("k", inputs), *(("t", size) for size in block))
    spec = Spec(
        (ArrayAccess(("k", *inner)),),
        ArrayAccess(("q", *inner)),
        (PatternAccess(("q", "k"), matrix, (transposed,)),),
        sizes,
    )
    ones = jnp.arange(inputs + 1, dtype=assembled.slots.dtype)
    flat = values.reshape(inputs, *block)
    slots = assembled.slots
    operands = (flat, assembled.starts, assembled.order, ones, slots, slots, slots)
    return einsum_p.bind(*same_varying(operands), spec=spec).reshape(-1)
