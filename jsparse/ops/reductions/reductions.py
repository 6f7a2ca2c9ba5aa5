"""`sum`, `mean`, `max` and the other reductions with numpy's meaning: elements that are not stored are 0."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from jsparse.base.arrays import parse_dtype
from jsparse.compiler.dtypes import arithmetic_dtype, part
from jsparse.convert.creation import of_any_array
from jsparse.ops.reductions.axes import axes_to_reduce, elements_per_result, with_kept_axes
from jsparse.ops.reductions.stored import (
    check_ordered,
    counts,
    extreme_of_entries,
    fullness,
    product_of_entries,
    sum_of_entries,
    wide_sum,
)
from jsparse.planning.dtypes import convert_dtype
from jsparse.planning.signature import OutFormat
from jsparse.tensor.sparse_tensor import Axis, SparseTensor


@of_any_array("sum", jnp.sum, "A in A.sum")
def sum(
    self: SparseTensor,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    *,
    keepdims: bool = False,
    out_format: OutFormat = None,
) -> SparseTensor | jax.Array:
    """Sum over `axis`: one dimension, several, or all (None).

        >>> A.sum(axis=1)

    Args:
        axis: the dimensions; negative numbers count from the end.
        dtype: the dtype of the sum and of the result. The default is the dtype of jnp.sum: small integers and bools are
            summed in the default integer dtype.
        keepdims: keep the reduced dimensions, with size 1.
        out_format: "dense", or the format of a sparse result, as in `jsparse.einsum`.

    The result is an array, or a SparseTensor if two or more dimensions remain and one of their levels is sparse.

    Raises ShapeError for an axis out of range, DTypeError for a dtype that does not hold numbers.
    """
    reduced = axes_to_reduce(axis, self.ndim)
    return with_kept_axes(sum_over(self, reduced, dtype, out_format), reduced, self.ndim, keepdims)


def sum_over(
    tensor: SparseTensor, reduced: tuple[int, ...], dtype: DTypeLike | None = None, out_format: OutFormat = None
) -> Any:
    """Compute `sum` of a tensor that has been checked, over the dimensions `reduced`."""
    target = _accumulator_dtype(tensor.dtype, dtype)
    return convert_dtype(sum_of_entries(tensor, reduced, target, out_format), target)


@of_any_array("mean", jnp.mean, "A in A.mean")
def mean(
    self: SparseTensor,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    *,
    keepdims: bool = False,
    stored: bool = False,
) -> jax.Array:
    """Compute the mean over `axis`, as an array: of all elements, or with `stored=True` of the stored entries.

        >>> A.mean(axis=0)
        >>> A.mean(axis=1, stored=True)  # the mean over a node's neighbours; 0 where it has none

    The mean of integers and bools has JAX's default float dtype. Narrow floats are rounded once, at the end. See `sum`
    for the arguments and errors.
    """
    reduced = axes_to_reduce(axis, self.ndim)
    inexact = jnp.issubdtype(self.dtype, jnp.inexact)
    target = parse_dtype(dtype, "dtype= of A.mean") if dtype is not None else self.dtype
    target = target if inexact or dtype is not None else jnp.result_type(float)
    tensor = self if inexact else self.astype(jnp.result_type(float))
    total = wide_sum(tensor, reduced)
    wide = part(arithmetic_dtype(tensor.dtype.name))
    if stored:
        number = jnp.maximum(counts(tensor, reduced).astype(wide), 1)
    else:
        number = jnp.asarray(float(elements_per_result(self, reduced, "mean")), wide)
    return with_kept_axes((total / number).astype(target), reduced, self.ndim, keepdims)


@of_any_array("max", jnp.max, "A in A.max")
def max(self: SparseTensor, axis: Axis = None, *, keepdims: bool = False, stored: bool = False) -> jax.Array:
    """Compute the maximum over `axis`, as an array: of all elements, or with `stored=True` of the stored entries.

        >>> A.max(axis=1)  # 0 in a row of negative entries that does not store all elements, as in numpy

    With `stored=True` the maximum is -inf (or the smallest integer of the dtype) where no entry is stored. The maximum
    is NaN if an entry is NaN. Entries that attain the maximum share its gradient equally.

    Raises DTypeError for complex numbers, ShapeError for an axis out of range, or for a maximum of no elements.
    """
    return _extreme("max", self, axis, keepdims, stored)


@of_any_array("min", jnp.min, "A in A.min")
def min(self: SparseTensor, axis: Axis = None, *, keepdims: bool = False, stored: bool = False) -> jax.Array:
    """Compute the minimum over `axis`, as an array. See `max`.

    >>> A.min(axis=1).shape
    (1000,)
    """
    return _extreme("min", self, axis, keepdims, stored)


@of_any_array("prod", jnp.prod, "A in A.prod")
def prod(
    self: SparseTensor,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    *,
    keepdims: bool = False,
    stored: bool = False,
) -> jax.Array:
    """Compute the product over `axis`, as an array: of all elements, or with `stored=True` of the stored entries.

        >>> A.prod(axis=1, stored=True).shape
        (1000,)

    The product is 0 where an element is not stored; with `stored=True` it is 1 where no entry is stored. The gradient
    is exact for any entries. Second and higher derivatives are not exact where two or more entries are 0: they are 0
    there. The product of complex numbers is exact, too. See `sum` for the arguments and errors.
    """
    reduced = axes_to_reduce(axis, self.ndim)
    target = _accumulator_dtype(self.dtype, dtype)
    tensor = self if target == self.dtype else self.astype(target)
    product = product_of_entries(tensor, reduced).astype(target)
    if not stored:
        zero = jnp.where(jnp.isnan(product), product, jnp.zeros_like(product))
        product = _where_full(tensor, reduced, product, zero)
    return with_kept_axes(product, reduced, self.ndim, keepdims)


@of_any_array("any", jnp.any, "A in A.any")
def any(self: SparseTensor, axis: Axis = None, *, keepdims: bool = False) -> jax.Array:
    """Whether any element along `axis` is not 0, as a bool array. NaN is not 0. See `max` for the arguments.

    >>> A.any(axis=1).shape
    (1000,)
    """
    reduced = axes_to_reduce(axis, self.ndim)
    result = extreme_of_entries("max", _nonzero(self), reduced)
    return with_kept_axes(result, reduced, self.ndim, keepdims)


@of_any_array("all", jnp.all, "A in A.all")
def all(self: SparseTensor, axis: Axis = None, *, keepdims: bool = False, stored: bool = False) -> jax.Array:
    """Whether all elements along `axis` (with `stored=True`: stored entries) are nonzero, as a bool array. See `max`.

    >>> A.all(stored=True)
    Array(True, dtype=bool)
    """
    reduced = axes_to_reduce(axis, self.ndim)
    result = extreme_of_entries("min", _nonzero(self), reduced)
    if not stored:
        result = _where_full(self, reduced, result, jnp.zeros_like(result))
    return with_kept_axes(result, reduced, self.ndim, keepdims)


@of_any_array("count_nonzero", jnp.count_nonzero, "the operand of jsparse.count_nonzero")
def count_nonzero(self: SparseTensor, axis: Axis = None, *, keepdims: bool = False) -> jax.Array:
    """Count the elements along `axis` that are not 0, as an integer array. See `max` for the arguments.

        >>> jsparse.count_nonzero(A, axis=1).shape
        (1000,)

    Explicit zeros are not counted, but NaN is counted.
    """
    reduced = axes_to_reduce(axis, self.ndim)
    count: Any = sum_of_entries(_nonzero(self), reduced, _accumulator_dtype(np.dtype(bool), None), "dense")
    return with_kept_axes(count, reduced, self.ndim, keepdims)


def _extreme(name: str, tensor: SparseTensor, axis: Axis, keepdims: bool, stored: bool) -> jax.Array:
    check_ordered(name, tensor)
    reduced = axes_to_reduce(axis, tensor.ndim)
    extreme = extreme_of_entries(name, tensor, reduced)
    if not stored:
        elements_per_result(tensor, reduced, name)
        extreme = _where_full(tensor, reduced, extreme, _or_zero(name, extreme))
    return with_kept_axes(extreme, reduced, tensor.ndim, keepdims)


@partial(jax.jit, static_argnames="name", inline=True)  # one program takes less time than its parts
def _or_zero(name: str, found: jax.Array) -> jax.Array:
    """Return the maximum or minimum of `found` and 0, but NaN, with its derivative, where `found` is NaN."""
    other = (jnp.maximum if name == "max" else jnp.minimum)(found, jnp.zeros((), found.dtype))
    return jnp.where(jnp.isnan(found), found, other)


def _where_full(tensor: SparseTensor, reduced: tuple[int, ...], full: jax.Array, other: jax.Array) -> jax.Array:
    """Return `full` where all elements that are reduced to an element of the result are stored, else `other`.

    `other` is NaN where `full` is: an entry is NaN, or the pattern overflowed.
    """
    stored = fullness(tensor, reduced)
    if stored != "some":
        return full if stored == "always" else other
    total = elements_per_result(tensor, reduced, "")
    return jnp.where(counts(tensor, reduced) == total, full, other)


def _nonzero(tensor: SparseTensor) -> SparseTensor:
    """Return a bool tensor on the same pattern, True for each stored entry that is not 0."""
    return tensor.map(lambda v: v != 0)


def _accumulator_dtype(own: np.dtype, requested: DTypeLike | None) -> np.dtype:
    """Return the requested dtype, or by default the dtype of jnp.sum for entries of the dtype `own`."""
    if requested is not None:
        return parse_dtype(requested, "dtype= of a reduction")
    return _sum_dtype(own, jax.config.read("jax_enable_x64"))


@lru_cache(maxsize=64)
def _sum_dtype(own: np.dtype, is_x64: bool) -> np.dtype:
    return jax.eval_shape(jnp.sum, jax.ShapeDtypeStruct((1,), own)).dtype
