"""`nansum`, `nanmean`, `nanmax` and their like: reductions that leave out NaN.

Entries that are not stored are 0, which is not NaN, so they take part.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, update_wrapper
from typing import Any, Concatenate, ParamSpec, TypeVar

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from jsparse._compat import allow_infinities
from jsparse.base.arrays import parse_dtype
from jsparse.compiler.dtypes import arithmetic_dtype, part
from jsparse.convert.creation import of_any_array
from jsparse.ops.reductions import reductions
from jsparse.ops.reductions.axes import axes_to_reduce, elements_per_result, with_kept_axes
from jsparse.ops.reductions.stored import counts, sum_of_entries, wide_sum
from jsparse.tensor.sparse_tensor import Axis, SparseTensor, TensorLike

P = ParamSpec("P")
R = TypeVar("R")


def _of_others(
    plain: Callable[Concatenate[TensorLike, P], R], number: float, described: str
) -> Callable[Concatenate[TensorLike, P], R]:
    """Make a reduction that replaces NaN by `number` and then applies the reduction `plain`."""
    name = f"nan{plain.__name__}"

    def reduce_without_nan(A: SparseTensor, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return plain(_replace_nan(A, number), *args, **kwargs)

    update_wrapper(reduce_without_nan, plain)
    reduce_without_nan.__name__ = reduce_without_nan.__qualname__ = name
    reduce_without_nan.__doc__ = f"""{described} See `{plain.__name__}` for the arguments, the result and errors.

    >>> jsparse.{name}(A, axis=1).shape
    (1000,)
    """
    return of_any_array(name, getattr(jnp, name), f"the operand of jsparse.{name}")(reduce_without_nan)


nansum = _of_others(reductions.sum, 0, "Sum over `axis`, with 0 for NaN.")
nanprod = _of_others(reductions.prod, 1, "Compute the product over `axis`, with 1 for NaN.")


@of_any_array("nanmean", jnp.nanmean, "the operand of jsparse.nanmean")
def nanmean(
    self: SparseTensor,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    *,
    keepdims: bool = False,
    stored: bool = False,
) -> jax.Array:
    """Compute the mean over `axis` of the elements that are not NaN. If all of them are NaN, it is NaN. See `mean`.

    >>> jsparse.nanmean(A, axis=0).shape
    (800,)
    """
    if not jnp.issubdtype(self.dtype, jnp.inexact):
        return reductions.mean(self, axis, dtype, keepdims=keepdims, stored=stored)
    reduced = axes_to_reduce(axis, self.ndim)
    target = self.dtype if dtype is None else parse_dtype(dtype, "dtype= of jsparse.nanmean")
    left_out: Any = sum_of_entries(self.map(jnp.isnan), reduced, jnp.int32, "dense")
    number: Any = counts(self, reduced) if stored else elements_per_result(self, reduced, "nanmean")
    number = (number - left_out).astype(part(arithmetic_dtype(self.dtype.name)))
    average = (wide_sum(_replace_nan(self, 0), reduced) / number).astype(target)
    return with_kept_axes(average, reduced, self.ndim, keepdims)


@of_any_array("nanmax", jnp.nanmax, "the operand of jsparse.nanmax")
def nanmax(self: SparseTensor, axis: Axis = None, *, keepdims: bool = False, stored: bool = False) -> jax.Array:
    """Compute the maximum over `axis` of the elements that are not NaN. If all of them are NaN, it is NaN. See `max`.

    >>> jsparse.nanmax(A, axis=1).shape
    (1000,)
    """
    return _extreme(reductions.max, -jnp.inf, self, axis, keepdims, stored)


@of_any_array("nanmin", jnp.nanmin, "the operand of jsparse.nanmin")
def nanmin(self: SparseTensor, axis: Axis = None, *, keepdims: bool = False, stored: bool = False) -> jax.Array:
    """Compute the minimum over `axis` of the elements that are not NaN. If all of them are NaN, it is NaN. See `max`.

    >>> jsparse.nanmin(A, axis=1).shape
    (1000,)
    """
    return _extreme(reductions.min, jnp.inf, self, axis, keepdims, stored)


def _extreme(
    plain: Callable[..., jax.Array], number: float, tensor: SparseTensor, axis: Axis, keepdims: bool, stored: bool
) -> jax.Array:
    with allow_infinities():  # in place of NaN
        extreme = plain(_replace_nan(tensor, number), axis, keepdims=keepdims, stored=stored)
    if not jnp.issubdtype(tensor.dtype, jnp.floating):
        return extreme
    is_nan = tensor.map(jnp.isnan)
    nothing_else = reductions.all(is_nan, axis, keepdims=keepdims, stored=stored)
    if stored:  # a row without stored entries has the result of `max`
        nothing_else &= reductions.any(is_nan, axis, keepdims=keepdims)
    return jnp.where(nothing_else, jnp.nan, extreme)


def _replace_nan(tensor: SparseTensor, number: float) -> SparseTensor:
    """Replace NaN by a number."""
    if not jnp.issubdtype(tensor.dtype, jnp.inexact):
        return tensor
    return tensor.map(partial(_or_number, number=number))


def _or_number(x: jax.Array, number: float) -> jax.Array:
    return jnp.where(jnp.isnan(x), jnp.asarray(number, x.dtype), x)
