"""Rules for reductions with numpy's meaning: elements that are not stored have the values of the background."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from jsparse.compiler.dtypes import arithmetic_dtype
from jsparse.notation.ellipsis import letters_of
from jsparse.ops.reductions.stored import counts
from jsparse.sparsification.equation import Equation
from jsparse.sparsification.rules import sparse_rule
from jsparse.sparsification.separable import in_letters
from jsparse.sparsification.sparse_value import (
    SparseValue,
    Value,
    check_known,
    not_zero,
    plain,
    subtract_background,
    whole,
)
from jsparse.tensor.sparse_tensor import SparseTensor


@sparse_rule("reduce_sum")
def sums(equation: Equation, x: SparseValue) -> Value:
    """Sum the entries. If the array repeats its tensor, each entry is counted as often as it is repeated."""
    axes = equation.params["axes"]
    if x.background.products:
        return _sums_with_products(whole(x), axes)
    check_known(x, equation)
    if not x.background.is_zero:
        return _sums_with_background(whole(x), axes)
    times = prod(x.shape[dim] for dim in axes if dim not in x.dims)
    if not set(range(x.ndim)) - set(x.dims) <= set(axes):
        x, times = whole(x), 1
    total = x.tensor.sum(tuple(n for n, dim in enumerate(x.dims) if dim in axes), dtype=x.dtype)
    return plain(total * times if times != 1 else total)


def _sums_with_background(x: SparseValue, axes: Sequence[int]) -> jax.Array:
    """Sum stored entries, and the background for each element that is not stored.

    A background b that varies along a summed dimension is summed over all elements, and the differences of the entries
    from b are added: Σ b + Σ (x - b). Dimensions along which b is constant are summed first if the remaining array is
    no larger than b or the entries.
    """
    wide = np.dtype(arithmetic_dtype(x.dtype.name))
    if (first := _constant_axes(x, axes)) is not None:
        stored: Any = x.tensor.sum(first, dtype=wide, out_format="dense")
        sums = stored + _combine_background(x, first, wide, jnp.multiply)
        return jnp.sum(sums, _positions(axes, first)).astype(x.dtype)
    background = x.background.as_array(x.ndim, x.dtype).astype(wide)
    repeats = prod(x.shape[dim] for dim in axes if background.shape[dim] == 1)
    total = jnp.squeeze(background.sum(tuple(axes), keepdims=True), tuple(axes)) * as_number(repeats, wide)
    return (subtract_background(x).sum(tuple(axes), dtype=wide, out_format="dense") + total).astype(x.dtype)


def _sums_with_products(x: SparseValue, axes: Sequence[int]) -> jax.Array:
    """Sum a background that is a sum of products, and the differences of the entries from this background."""
    wide = np.dtype(arithmetic_dtype(x.dtype.name))
    letters = letters_of(x.ndim)
    kept = [dim for dim in range(x.ndim) if dim not in axes]
    total: Any = subtract_background(x).sum(tuple(axes), dtype=wide, out_format="dense")
    for factors in x.background.products:
        arrays, subscripts = zip(*(in_letters(b.astype(wide), letters) for b in factors), strict=True)
        left = [dim for dim in kept if letters[dim] in "".join(subscripts)]
        times = prod(x.shape[dim] for dim in axes if letters[dim] not in "".join(subscripts))
        part = jnp.einsum(f"{','.join(subscripts)}->{''.join(letters[dim] for dim in left)}", *arrays)
        shape = [x.shape[dim] if dim in left else 1 for dim in kept]
        total = total + part.reshape(shape) * as_number(times, wide)
    return total.astype(x.dtype)


def _constant_axes(x: SparseValue, axes: Sequence[int]) -> tuple[int, ...] | None:
    """Find the axes to reduce first: the axes along which the background is constant.

    Returns None if the background varies along all axes, or if the reduction over these axes leaves an array that is
    larger than both the background and the array of stored values.
    """
    shape = (1,) * x.ndim if x.background.array is None else x.background.array.shape
    first = tuple(dim for dim in axes if shape[dim] == 1)
    if len(first) == len(axes):
        return first
    left = prod(size for dim, size in enumerate(x.shape) if dim not in first)
    return first if first and left <= max(prod(shape), x.tensor.nse) else None


def _positions(axes: Sequence[int], removed: Sequence[int]) -> tuple[int, ...]:
    """Renumber the remaining axes as dimensions of the array from which the `removed` axes are removed."""
    return tuple(dim - sum(other < dim for other in removed) for dim in axes if dim not in removed)


def _count_unstored(tensor: SparseTensor, axes: Sequence[int], dtype: np.dtype) -> tuple[jax.Array, jax.Array | bool]:
    """Count the elements that are not stored in each part that is reduced over `axes`, in `dtype`.

    Also return whether each part stores all elements: a bool array, or False for all parts.
    """
    total, stored = prod(tensor.shape[dim] for dim in axes), jnp.asarray(counts(tensor, axes))
    if total > tensor.nse:
        return as_number(total, dtype) - stored.astype(dtype), False
    return (total - stored).astype(dtype), stored == total


def as_number(count: int, dtype: DTypeLike) -> jax.Array:
    """Convert a number of elements, which may exceed int64, to a dtype. Integers wrap, as sums of integers do."""
    known = np.uint64(count % 2**64) if jnp.issubdtype(dtype, jnp.integer) else np.float64(count)
    return jnp.asarray(known.astype(dtype))


def _combine_background(x: SparseValue, axes: Sequence[int], dtype: np.dtype, repeat: Callable[..., Any]) -> jax.Array:
    """Combine the background with itself, once for each element that is not stored, in each part reduced over `axes`.

    `repeat(b, n)` combines n numbers b: n · b for a sum, bⁿ for a product. If a part stores all elements, even an
    infinite background has no effect.
    """
    left, is_full = _count_unstored(x.tensor, axes, dtype)
    background = jnp.squeeze(x.background.as_array(x.ndim, x.dtype), tuple(axes)).astype(dtype)
    return repeat(jnp.where(is_full, jnp.ones((), dtype), background), left)


METHODS = {"reduce_max": "max", "reduce_min": "min", "reduce_prod": "prod", "reduce_or": "any", "reduce_and": "all"}
NEUTRAL = {"reduce_max": -np.inf, "reduce_min": np.inf, "reduce_prod": 1, "reduce_or": False, "reduce_and": True}
OPERATIONS: dict[str, Any] = {
    "reduce_max": jnp.maximum,
    "reduce_min": jnp.minimum,
    "reduce_prod": jnp.multiply,
    "reduce_or": jnp.logical_or,
    "reduce_and": jnp.logical_and,
}


@sparse_rule(*METHODS)
def extremes(equation: Equation, x: SparseValue) -> Value:
    """Reduce the stored entries, together with the background where some of the reduced elements are not stored."""
    if equation.name in ("reduce_or", "reduce_and") and x.dtype != bool:
        raise equation.not_supported("combines bits of integers", "Pass A.todense() there.")
    check_known(x, equation)
    x, axes, name = whole(x), equation.params["axes"], equation.name
    if x.background.is_zero:
        return plain(getattr(x.tensor, METHODS[name])(axes))
    first = _constant_axes(x, axes)
    if first is None:
        raise not_zero(x, equation)
    method = getattr(x.tensor, METHODS[name])
    stored = method(first, stored=True) if name != "reduce_or" else method(first)
    if x.background.value is None or x.background.value != NEUTRAL[name]:
        # The background takes part where some of the reduced elements are not stored.
        if name == "reduce_prod":
            wide = np.dtype(arithmetic_dtype(x.dtype.name))
            stored = (stored.astype(wide) * _combine_background(x, first, wide, jnp.power)).astype(x.dtype)
        else:
            background = jnp.squeeze(x.background.as_array(x.ndim, x.dtype), first)
            _, is_full = _count_unstored(x.tensor, first, np.dtype(np.int32))
            stored = jnp.where(is_full, stored, OPERATIONS[name](stored, background))
    return stored if len(first) == len(axes) else OPERATIONS[name].reduce(stored, _positions(axes, first))
