"""`nansum`, `nanmean`, `nanmax` and their like: reductions that leave out NaN.

Entries that are not stored are 0, which is not NaN, so they take part.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from jsparse.base.arrays import given_dtype
from jsparse.compiler.dtypes import part, unrounded
from jsparse.convert.creation import of_any_array
from jsparse.ops.reductions import reductions
from jsparse.ops.reductions.axes import reduced_axes, reduced_size, with_kept_axes
from jsparse.ops.reductions.stored import counts, reduced_sum, wide_sum
from jsparse.planning.signature import OutFormat
from jsparse.tensor.leaves import check_leaves
from jsparse.tensor.sparse_tensor import Axis, SparseTensor

__all__ = ["nanmax", "nanmean", "nanmin", "nanprod", "nansum"]


@of_any_array("nansum", jnp.nansum)
def nansum(
    self: SparseTensor,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    *,
    keepdims: bool = False,
    out_format: OutFormat = None,
) -> SparseTensor | jax.Array:
    """Sum over `axis`, with 0 for NaN. See `sum` for the arguments, the result and errors.

    >>> jsparse.nansum(A, axis=1).shape
    (1000,)
    """
    return reductions.sum(_filled(self, 0), axis, dtype, keepdims=keepdims, out_format=out_format)


@of_any_array("nanprod", jnp.nanprod)
def nanprod(
    self: SparseTensor,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    *,
    keepdims: bool = False,
    stored: bool = False,
) -> jax.Array:
    """Compute the product over `axis`, with 1 for NaN. See `prod` for the arguments and errors.

    >>> jsparse.nanprod(A, axis=1, stored=True).shape
    (1000,)
    """
    return reductions.prod(_filled(self, 1), axis, dtype, keepdims=keepdims, stored=stored)


@of_any_array("nanmean", jnp.nanmean)
def nanmean(
    self: SparseTensor,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    *,
    keepdims: bool = False,
    stored: bool = False,
) -> jax.Array:
    """Compute the mean over `axis` of what is not NaN; NaN where there is nothing else. See `mean`.

    >>> jsparse.nanmean(A, axis=0).shape
    (800,)
    """
    check_leaves(self, "the operand of jsparse.nanmean")
    if not jnp.issubdtype(self.dtype, jnp.inexact):
        return reductions.mean(self, axis, dtype, keepdims=keepdims, stored=stored)
    reduced = reduced_axes(axis, self.ndim)
    target = self.dtype if dtype is None else given_dtype(dtype, "dtype= of jsparse.nanmean")
    left_out: Any = reduced_sum(self.map(jnp.isnan), reduced, jnp.int32, "dense")
    number: Any = counts(self, reduced) if stored else reduced_size(self, reduced, "nanmean")
    number = (number - left_out).astype(part(unrounded(self.dtype.name)))
    found = (wide_sum(_filled(self, 0), reduced) / number).astype(target)
    return with_kept_axes(found, reduced, self.ndim, keepdims)


@of_any_array("nanmax", jnp.nanmax)
def nanmax(self: SparseTensor, axis: Axis = None, *, keepdims: bool = False, stored: bool = False) -> jax.Array:
    """Compute the maximum over `axis` of what is not NaN; NaN where there is nothing else. See `max`.

    >>> jsparse.nanmax(A, axis=1).shape
    (1000,)
    """
    return _extreme("max", self, axis, keepdims, stored)


@of_any_array("nanmin", jnp.nanmin)
def nanmin(self: SparseTensor, axis: Axis = None, *, keepdims: bool = False, stored: bool = False) -> jax.Array:
    """Compute the minimum over `axis` of what is not NaN; NaN where there is nothing else. See `max`.

    >>> jsparse.nanmin(A, axis=1).shape
    (1000,)
    """
    return _extreme("min", self, axis, keepdims, stored)


def _extreme(name: str, tensor: SparseTensor, axis: Axis, keepdims: bool, stored: bool) -> jax.Array:
    of_tensor = reductions.max if name == "max" else reductions.min
    if not jnp.issubdtype(tensor.dtype, jnp.floating):
        return of_tensor(tensor, axis, keepdims=keepdims, stored=stored)
    found = of_tensor(_filled(tensor, -jnp.inf if name == "max" else jnp.inf), axis, keepdims=keepdims, stored=stored)
    nothing_else = reductions.all(tensor.map(jnp.isnan), axis, keepdims=keepdims, stored=stored)
    if stored:  # where nothing is stored, the maximum is -inf, as of `max`
        nothing_else &= reductions.any(tensor.map(jnp.isnan), axis, keepdims=keepdims)
    return jnp.where(nothing_else, jnp.nan, found)


def _filled(tensor: SparseTensor, number: float) -> SparseTensor:
    """The tensor with a number in place of NaN."""
    if not jnp.issubdtype(tensor.dtype, jnp.inexact):
        return tensor
    return tensor.map(partial(_or_number, number=number))


def _or_number(x: jax.Array, number: float) -> jax.Array:
    return jnp.where(jnp.isnan(x), jnp.asarray(number, x.dtype), x)
