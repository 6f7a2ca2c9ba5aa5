"""Tensors of one value: eye and zeros."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from jsparse.base.arrays import given_dtype
from jsparse.base.limits import check_bytes
from jsparse.formats import Format, Pattern
from jsparse.formats.build import Built
from jsparse.formats.validate import sizes_of
from jsparse.ops.relocation.formats import default_in
from jsparse.ops.relocation.operands import as_integer
from jsparse.ops.relocation.values import on_device
from jsparse.tensor.sparse_tensor import SparseTensor

__all__ = ["eye", "float_or", "zeros"]


def eye(
    n: int, m: int | None = None, k: int = 0, *, dtype: DTypeLike | None = None, format: Format | str | None = None
) -> SparseTensor:
    """Make the matrix of shape (n, m) with ones on its diagonal number k, as jnp.eye does.

        >>> jsparse.eye(1000, dtype="bfloat16", format="csc")

    Args:
        m: the number of columns, by default n.
        k: the diagonal: 0 for the main one, above it positive, below it negative.
        dtype: by default JAX's float.
        format: by default csr (dcsr if there are many more rows than entries).

    Raises PatternError for negative sizes, FormatError for the format, DTypeError for the dtype.
    """
    shape = sizes_of((n, n if m is None else m))
    by = as_integer(k, "the k of jsparse.eye")
    count = max(min(shape[0] - max(-by, 0), shape[1] - max(by, 0)), 0)
    check_bytes((count,), np.int64, "the coordinates of the ones", "Ask for fewer.")
    along = np.arange(count, dtype=np.int64 if max(shape) >= 2**31 else np.int32)
    return _constant(1, [along + max(-by, 0), along + max(by, 0)] if count else [along, along], shape, dtype, format)


def zeros(
    shape: int | Sequence[int], dtype: DTypeLike | None = None, format: Format | str | None = None
) -> SparseTensor:
    """Make a tensor without stored entries (with zeros in the slots of dense levels, if the format has some).

        >>> jsparse.zeros((10**9, 10**9), "float32").nse
        0

    Args:
        dtype: by default JAX's float.
        format: by default csr for matrices (dcsr if there are many rows), else all levels compressed.

    Raises PatternError for the shape, FormatError for the format, DTypeError for the dtype.
    """
    sizes = sizes_of(shape if isinstance(shape, Sequence) else (shape,))
    return _constant(0, [np.zeros(0, np.int32)] * len(sizes), sizes, dtype, format)


def _constant(
    value: int, rows: Sequence[np.ndarray], shape: tuple[int, ...], dtype: DTypeLike | None, format: Format | str | None
) -> SparseTensor:
    """The tensor with one value at the distinct coordinates `rows`, and zeros in other slots."""
    kind = float_or(dtype)
    entries = len(rows[0]) if rows else 0
    layout = default_in(shape, entries) if format is None else Format.of(format, len(shape))
    pattern, built = Pattern.from_rows(rows, shape, layout)
    check_bytes((pattern.nse,), kind, "the values of all slots", "Use a format with fewer dense levels.")
    if isinstance(jnp.zeros(()), jax.core.Tracer) and entries in (0, pattern.nse):
        # The program computes the values, so they are no constant in it.
        return SparseTensor(jnp.full(pattern.nse, value if entries else 0, kind), pattern)
    return SparseTensor(on_device(_filled(value, pattern.nse, built, kind)), pattern)


def _filled(value: int, nse: int, built: Built, dtype: np.dtype) -> np.ndarray:
    if not built.count:
        return np.zeros(nse, dtype)
    return built.summed(np.full(built.count, value, dtype))


def float_or(dtype: DTypeLike | None) -> np.dtype:
    """The dtype that was asked for, as JAX has it, or JAX's default float. Raises DTypeError unless it is numeric."""
    found = given_dtype(float if dtype is None else dtype, "a dtype of numbers")
    return np.dtype(jnp.empty((), found).dtype)  # it warns about a dtype that needs x64
