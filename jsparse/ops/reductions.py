"""Reductions of a sparse tensor over its stored entries. Each is one einsum by the semiring of its name."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from jsparse.compiler.dtypes import part, unrounded
from jsparse.compiler.semiring import Semiring
from jsparse.errors import DTypeError, ShapeError
from jsparse.notation.ellipsis import letters_of
from jsparse.ops.einsum import einsum
from jsparse.tensor.leaves import check_leaves
from jsparse.tensor.sparse_tensor import Axis, SparseTensor

__all__ = ["max", "mean", "min", "prod", "sum"]


_MIN, _MAX, _PROD = Semiring("min", "+"), Semiring("max", "+"), Semiring("*", "*")


def sum(self: SparseTensor, axis: Axis = None) -> Any:
    """Sum over `axis`: one dimension, several, or all (None).

    The result is an array, or a SparseTensor if two or more dimensions with sparse levels remain, as in einsum.

        >>> A.sum(axis=1)

    Raises ShapeError for an axis out of range.
    """
    return _reduced(self, axis)


def min(self: SparseTensor, axis: Axis = None) -> jax.Array:
    """Compute the minimum of the stored entries over `axis`, as an array.

    Where no entry is stored, the minimum is inf, or the largest integer of the dtype. It is NaN if an entry is NaN.
    Entries that attain the minimum share its gradient equally.

    Raises DTypeError for complex numbers, ShapeError for an axis out of range.
    """
    return _extreme("min", self, axis, _MIN)


def max(self: SparseTensor, axis: Axis = None) -> jax.Array:
    """Compute the maximum of the stored entries over `axis`, as an array.

    Where no entry is stored, the maximum is -inf, or the smallest integer of the dtype. See `min`.
    """
    return _extreme("max", self, axis, _MAX)


def prod(self: SparseTensor, axis: Axis = None) -> jax.Array:
    """Compute the product of the stored entries over `axis`, as an array. It is 1 where no entry is stored.

    The gradient is exact for any entries. Second and higher derivatives are 0 where two or more entries are 0, instead
    of exact.
    """
    return _reduced(self, axis, _PROD)


def mean(self: SparseTensor, axis: Axis = None) -> jax.Array:
    """Compute the mean of the stored entries over `axis`, as an array. It is 0 where no entry is stored.

    The mean of integers and bools has JAX's default float dtype. Narrow floats are rounded once, at the end.
    """
    check_leaves(self, "A in A.mean")
    values = self.values
    if not jnp.issubdtype(values.dtype, jnp.inexact):
        values = values.astype(jnp.result_type(float))
    wide = unrounded(values.dtype.name)  # neither the sum nor the count need fit a float16
    total = _reduced(self.with_values(values), axis, dense=True, preferred=wide)
    ones = jnp.ones(values.shape, part(wide))
    count = _reduced(self.with_values(ones), axis, dense=True)
    mean: jax.Array = (total / jnp.maximum(count, 1)).astype(values.dtype)
    return mean


def _extreme(name: str, tensor: SparseTensor, axis: Axis, semiring: Semiring) -> jax.Array:
    check_leaves(tensor, f"A in A.{name}")
    if jnp.issubdtype(tensor.dtype, jnp.complexfloating):
        raise DTypeError(
            f"Expected real entries for A.{name}(), which needs an order, but they are {tensor.dtype}. Write "
            f"A.with_values(A.values.real).{name}(), or abs(A).{name}()."
        )
    return _reduced(tensor, axis, semiring)


def _reduced(
    tensor: SparseTensor,
    axis: Axis,
    semiring: Semiring | None = None,
    dense: bool = False,
    preferred: str | None = None,
) -> Any:
    """Reduce `axis` by one einsum. With a semiring the result is always an array."""
    if not tensor.ndim:
        check_leaves(tensor, "A in a reduction of A")
        _axes(axis, 0)
        return tensor.values[0]
    letters = letters_of(tensor.ndim)
    reduced = _axes(axis, tensor.ndim)
    subscripts = f"{letters}->{''.join(letters[at] for at in range(tensor.ndim) if at not in reduced)}"
    if semiring is None:
        return einsum(subscripts, tensor, out_format="dense" if dense else None, preferred_element_type=preferred)
    return einsum(subscripts, tensor, out_format="dense", semiring=semiring)


def _axes(axis: Axis, ndim: int) -> set[int]:
    given = range(ndim) if axis is None else axis if isinstance(axis, Sequence) else [axis]
    axes = [operator.index(one) for one in given]
    wrapped = {one % ndim for one in axes if -ndim <= one < ndim}
    if len(wrapped) != len(axes):
        raise ShapeError(f"Expected different axes from {-ndim} to {ndim - 1} to reduce over, but got {axis}.")
    return wrapped
