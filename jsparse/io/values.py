"""Conversion of numbers in files to values of tensors. No number changes silently, except by rounding to the dtype."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.base.arrays import cast
from jsparse.convert.sums import may_overflow
from jsparse.errors import DTypeError, shorten
from jsparse.formats import Format, Pattern


def target_dtype(stored: Any, wanted: Any) -> np.dtype:
    """Return the dtype of a tensor: the wanted dtype, or by default the file's dtype in a width that JAX supports."""
    return np.dtype(jax.dtypes.canonicalize_dtype(stored if wanted is None else wanted))


def sum_entries(
    path: Path, rows: Sequence[np.ndarray], values: np.ndarray, shape: Sequence[int], layout: Format, target: np.dtype
) -> tuple[Pattern, np.ndarray]:
    """Make the pattern and the values of a tensor from entries. Entries with equal coordinates are summed.

    Sums have 64 bits, whatever the dtype of the tensor, and are rounded once. Raises DTypeError if a sum of integers
    overflows.
    """
    if values.dtype.kind in "iu" and jnp.issubdtype(target, jnp.inexact):
        values = values.astype(np.float64)
    pattern, sums = Pattern.of_entries(rows, values, shape, layout)
    if values.dtype.kind in "iu" and may_overflow(values, values.dtype):
        # v = 2**32 high + low. The sums of both parts fit int64 for any number of entries that memory has room for, and
        # the sum overflows if the sum of the high parts, with the carry, does not fit 32 bits.
        high, low = ((values >> 32).astype(np.int64), (values & 0xFFFFFFFF).astype(np.int64))
        high, low = (Pattern.of_entries(rows, part, shape, layout)[1] for part in (high, low))
        high += low >> 32
        limits = np.iinfo(np.uint32 if values.dtype.kind == "u" else np.int32)
        if ((high < limits.min) | (high > limits.max)).any():
            raise DTypeError(
                f"Expected the sums of entries with equal coordinates in {shorten(str(path), 200)} to fit "
                f"{values.dtype}, but one is out of range. Pass dtype='float32' or another float."
            )
    return pattern, sums


def convert_values(path: Path, values: np.ndarray, target: np.dtype) -> np.ndarray:
    """Convert values to another dtype, by rounding, or by dropping imaginary parts that are 0.

    Raises DTypeError if a number is out of the dtype's range, or if an imaginary part is not 0.
    """
    if values.dtype == target:
        return values
    if values.dtype.kind == "c" and target.kind != "c":
        if values.imag.any():
            raise DTypeError(
                f"Expected real numbers for {target}, but {shorten(str(path), 200)} has imaginary parts. Pass "
                "dtype='complex64', and take A.map(jnp.real) if you want the real parts."
            )
        values = values.real
    with np.errstate(all="ignore"):
        converted = cast(values, target)
    if not _is_in_range(values, converted):
        other = "" if target == np.float32 else "Pass dtype='float32'. "
        raise DTypeError(
            f"Expected numbers that fit {target}, but {shorten(str(path), 200)} has {values.dtype} from "
            f"{shorten(values.min())} to {shorten(values.max())}. {other}For 64 bits, set "
            f"jax.config.update('jax_enable_x64', True)."
        )
    return converted


def _is_in_range(values: np.ndarray, converted: np.ndarray) -> bool:
    """Return whether the numbers are in the range of the dtype to which they were converted."""
    if jnp.issubdtype(converted.dtype, jnp.inexact):
        return not values.size or bool((np.isfinite(converted) | ~np.isfinite(values)).all())
    if converted.dtype == np.bool_ or not values.size:
        return True
    least, most = jnp.iinfo(converted.dtype).min, jnp.iinfo(converted.dtype).max
    if jnp.issubdtype(values.dtype, jnp.inexact):  # most + 1 is a power of two, which floats have
        rounded = np.trunc(values.astype(np.float64))
        return bool(((rounded >= least) & (rounded < float(most + 1))).all())
    return least <= int(values.min()) and int(values.max()) <= most
