"""Reductions of a sparse tensor over its stored entries: each is one einsum, by the semiring of its name."""

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
    """The sum over `axis`: what einsum gives, an array, or sparse where two or more sparse dimensions are left."""
    return _reduced(self, axis)


def min(self: SparseTensor, axis: Axis = None) -> jax.Array:
    """The smallest stored entries over `axis`, as an array; inf, of integers the largest there is, where none is
    stored. NaN if one is. Entries that are equally small share the gradient.

    Raises DTypeError for complex numbers.
    """
    return _extreme("min", self, axis, _MIN)


def max(self: SparseTensor, axis: Axis = None) -> jax.Array:
    """The largest stored entries over `axis`, as an array; -inf, of integers the smallest there is, where none is
    stored. See `min`."""
    return _extreme("max", self, axis, _MAX)


def prod(self: SparseTensor, axis: Axis = None) -> jax.Array:
    """The product of the stored entries over `axis`, as an array; 1 where none is stored.

    The gradient is right for any entries. Its own derivative counts two zeros or more as if one could not tell
    the others: it is 0 there.
    """
    return _reduced(self, axis, _PROD)


def mean(self: SparseTensor, axis: Axis = None) -> jax.Array:
    """The mean of the stored entries over `axis`, as an array; 0 where none is stored. Of integers and bool it is
    of JAX's default float dtype; narrow floats are rounded once, at the end."""
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
            f"Expected entries that have an order, but A.{name}() is asked of {tensor.dtype}. Write "
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
    """The einsum that reduces `axis`; a semiring of its own gives an array."""
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
