"""`var` and `std`: of all elements, where entries that are not stored are 0, or of the stored entries.

The squared distances from the mean are summed, because the mean of squares minus the square of the mean loses digits.
If n of N elements are stored, each of the N - n other elements has the distance |m| from the mean m:

    N · var = Σ |x - m|² over the stored x  +  (N - n) · |m|²
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from jsparse.base.arrays import parse_dtype
from jsparse.compiler.dtypes import arithmetic_dtype, part
from jsparse.convert.creation import of_any_array
from jsparse.ops.reductions.axes import axes_to_reduce, elements_per_result, with_kept_axes
from jsparse.ops.reductions.reductions import mean
from jsparse.ops.reductions.stored import counts, wide_sum
from jsparse.tensor.sparse_tensor import Axis, SparseTensor


@of_any_array("var", jnp.var, "the operand of jsparse.var")
def var(
    self: SparseTensor,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    *,
    ddof: float = 0,
    correction: float | None = None,
    keepdims: bool = False,
    stored: bool = False,
) -> jax.Array:
    """Compute the variance over `axis`, as an array: of all elements, or with `stored=True` of the stored entries.

        >>> jsparse.var(A, axis=0).shape
        (800,)
        >>> jsparse.var(A, axis=1, stored=True)  # of the entries of each row

    Args:
        axis: the dimensions, one or several, or all (None).
        dtype: the dtype of the result, by default the dtype of the (real) entries, or JAX's default float.
        ddof: the sum of the squared distances of N elements is divided by N - ddof. The array API calls it
            `correction`.
        keepdims: keep the reduced dimensions, with size 1.

    The variance is NaN or infinite where N - ddof is 0, as in numpy; with `stored=True` it is NaN where nothing is
    stored. Narrow floats are rounded once, at the end. Raises ShapeError for an axis out of range, DTypeError for an
    invalid dtype.
    """
    reduced = axes_to_reduce(axis, self.ndim)
    variance = _spread(self, reduced, ddof if correction is None else correction, stored)
    return with_kept_axes(variance.astype(_real(self, dtype)), reduced, self.ndim, keepdims)


@of_any_array("std", jnp.std, "the operand of jsparse.std")
def std(
    self: SparseTensor,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    *,
    ddof: float = 0,
    correction: float | None = None,
    keepdims: bool = False,
    stored: bool = False,
) -> jax.Array:
    """Compute the standard deviation over `axis`, the square root of `var`. See `var` for the arguments and errors.

    >>> jsparse.std(A, axis=1, keepdims=True).shape
    (1000, 1)
    """
    reduced = axes_to_reduce(axis, self.ndim)
    variance = jnp.sqrt(_spread(self, reduced, ddof if correction is None else correction, stored))
    return with_kept_axes(variance.astype(_real(self, dtype)), reduced, self.ndim, keepdims)


def _spread(tensor: SparseTensor, reduced: tuple[int, ...], ddof: float, stored: bool) -> jax.Array:
    """Compute the variance over the dimensions `reduced`, without rounding to a narrow float."""
    inexact = jnp.issubdtype(tensor.dtype, jnp.inexact)
    wide = tensor.astype(arithmetic_dtype(tensor.dtype.name) if inexact else jnp.result_type(float))
    dtype = np.dtype(part(wide.dtype.name))
    number: Any = counts(tensor, reduced).astype(dtype)
    center = mean(wide, reduced, keepdims=True, stored=stored)
    total = wide_sum(wide.map(_square_of_difference, center), reduced)
    if not stored:
        size = jnp.asarray(float(elements_per_result(tensor, reduced, "var")), dtype)
        total = total + (size - number) * _square(center).reshape(total.shape)
        number = size
    return total / (number - ddof)


def _square_of_difference(x: jax.Array, center: jax.Array) -> jax.Array:
    return _square(x - center)


def _square(x: jax.Array) -> jax.Array:
    """Compute |x|², also of complex numbers. No square root is taken, because its derivative at 0 would be NaN."""
    return jnp.real(x) ** 2 + jnp.imag(x) ** 2 if jnp.iscomplexobj(x) else x * x


def _real(tensor: SparseTensor, dtype: DTypeLike | None) -> np.dtype:
    """Return the dtype of a variance: `dtype` if it is given, else the default of `var`."""
    if dtype is not None:
        return parse_dtype(dtype, "dtype= of a reduction")
    if not jnp.issubdtype(tensor.dtype, jnp.inexact):
        return np.dtype(jnp.result_type(float))
    return np.dtype(part(tensor.dtype.name))
