"""Tensors of one value: eye, zeros, ones, full, and zeros_like, ones_like, full_like."""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from jsparse.base.arrays import parse_dtype
from jsparse.base.limits import check_bytes
from jsparse.convert.creation import asarray, of_any_array
from jsparse.errors import PatternError, shorten
from jsparse.formats import Format, Pattern
from jsparse.formats.validate import sizes_of
from jsparse.ops.relocation.formats import default_in
from jsparse.ops.relocation.operands import as_integer
from jsparse.ops.relocation.values import on_device
from jsparse.tensor.sparse_tensor import PatternLike, SparseTensor


def eye(
    n: int, m: int | None = None, k: int = 0, *, dtype: DTypeLike | None = None, format: Format | str | None = None
) -> SparseTensor:
    """Make the matrix of shape (n, m) with ones on its k-th diagonal, as jnp.eye does.

        >>> jsparse.eye(1000, dtype="bfloat16", format="csc")

    Args:
        m: the number of columns, by default n.
        k: 0 for the main diagonal, positive for diagonals above it, negative for diagonals below it.
        dtype: by default JAX's float.
        format: by default csr (dcsr if there are many more rows than entries).

    Raises PatternError for negative sizes, FormatError for an unsuitable format, DTypeError for an invalid dtype.
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

    Raises PatternError for an invalid shape, FormatError for an unsuitable format, DTypeError for an invalid dtype.
    """
    sizes = sizes_of(shape if isinstance(shape, Sequence) else (shape,))
    return _constant(0, [np.zeros(0, np.int32)] * len(sizes), sizes, dtype, format)


def full(
    shape: int | Sequence[int],
    fill_value: complex,
    dtype: DTypeLike | None = None,
    format: Format | str | None = None,
) -> SparseTensor:
    """Make a tensor whose elements all have one value. A value other than 0 needs a format that stores every element.

        >>> jsparse.full((2, 3), 7.0, format="dense").todense()

    Args:
        fill_value: a number. For 0 the result is `zeros`.
        dtype: by default the dtype of jnp.full.
        format: a format whose levels are all dense, unless the value is 0.

    Raises PatternError for a value other than 0 without a format of dense levels: every element would be stored.
    `jnp.full` makes an array, and `SparseTensor(jnp.full(P.nse, x), P)` has the value at the entries of a pattern.
    """
    sizes = sizes_of(shape if isinstance(shape, Sequence) else (shape,))
    kind = jnp.asarray(fill_value).dtype if dtype is None else dtype
    if not fill_value:
        return zeros(sizes, kind, format)
    layout = None if format is None else Format.plain(format, len(sizes))
    if layout is None or not layout.is_dense:
        raise PatternError(
            "Expected the value 0 for jsparse.full in a format that does not store every element, but got "
            f"{fill_value:.4g} for shape {shorten(sizes)}. Write jnp.full(shape, x), "
            f'jsparse.full(shape, x, format="dense"), or jsparse.SparseTensor(jnp.full(P.nse, x), P) for a pattern P.'
        )
    check_bytes(sizes, float_or(kind), "the values of all elements", "Ask for fewer.")
    return SparseTensor(jnp.full(math.prod(sizes), fill_value, float_or(kind)), Pattern._of_valid(sizes, layout, ()))


def ones(
    shape: int | Sequence[int], dtype: DTypeLike | None = None, format: Format | str | None = None
) -> SparseTensor:
    """Make a tensor of ones, in a format that stores every element. See `full`.

    >>> jsparse.ones((2, 3), format="dense").nse
    6
    """
    return full(shape, 1, float_or(dtype), format)


@of_any_array("zeros_like", jnp.zeros_like)
def zeros_like(A: SparseTensor, dtype: DTypeLike | None = None) -> SparseTensor:
    """Make a tensor of explicit zeros, with the pattern of A. `jsparse.zeros` stores nothing.

        >>> jsparse.zeros_like(A).nse == A.nse
        True

    `jnp.zeros_like(A)` makes a dense array. Raises DTypeError for an invalid dtype.
    """
    return full_like(A, 0, dtype)


@of_any_array("full_like", jnp.full_like)
def full_like(A: SparseTensor, fill_value: complex, dtype: DTypeLike | None = None) -> SparseTensor:
    """Make a tensor with one value at every entry of A. If the value is not 0, A must store every element.

        >>> jsparse.full_like(jsparse.ones((2, 3), format="dense"), 7).todense()

    Raises PatternError for a value other than 0 if A does not store every element; `A.map(lambda v: x)` has the value x
    at the stored entries.
    """
    if fill_value and not A.format.is_dense:
        raise PatternError(
            "Expected fill_value 0 in jsparse.full_like, because A does not store every element, but got "
            f"{fill_value:.4g}. For the stored entries write A.with_values(jnp.full_like(A.values, x)), and for all "
            "elements jnp.full(A.shape, x)."
        )
    kind = A.dtype if dtype is None else float_or(dtype)
    return A.with_values(jnp.full(A.values.shape, fill_value, kind))


@of_any_array("ones_like", jnp.ones_like, patterns=True)
def ones_like(A: SparseTensor | PatternLike, dtype: DTypeLike | None = None) -> SparseTensor:
    """Make a tensor of ones with the shape of A, which must store every element. See `full_like`.

        >>> jsparse.ones_like(jsparse.ones((2, 3), format="dense")).nse
        6

    For a pattern, the result has ones at its entries, by default integers.
    """
    if not isinstance(A, SparseTensor):
        return asarray(A, dtype=dtype)
    return full_like(A, 1, dtype)


def _constant(
    value: int, rows: Sequence[np.ndarray], shape: tuple[int, ...], dtype: DTypeLike | None, format: Format | str | None
) -> SparseTensor:
    """Make the tensor with `value` at the distinct coordinates `rows`, and zeros in all other slots."""
    kind = float_or(dtype)
    entries = len(rows[0]) if rows else 0
    layout = default_in(shape, entries) if format is None else Format.plain(format, len(shape))
    pattern, built = Pattern.from_rows(rows, shape, layout)
    check_bytes((pattern.nse,), kind, "the values of all slots", "Use a format with fewer dense levels.")
    if isinstance(jnp.zeros(()), jax.core.Tracer) and entries in (0, pattern.nse):
        # The program computes the values, so they are not constants in it.
        return SparseTensor(jnp.full(pattern.nse, value if entries else 0, kind), pattern)
    values = np.full(built.count, value, kind)
    return SparseTensor(on_device(built.sum_per_slot(values) if built.count else np.zeros(pattern.nse, kind)), pattern)


def float_or(dtype: DTypeLike | None) -> np.dtype:
    """Return `dtype` as JAX converts it, by default JAX's float. Raises DTypeError unless it is numeric."""
    kind = parse_dtype(float if dtype is None else dtype, "a dtype of numbers")
    return np.dtype(jnp.empty((), kind).dtype)  # it warns about a dtype that needs x64
