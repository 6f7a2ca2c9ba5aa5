"""Tensors of ones on a pattern: its dense form, its values in a dtype, and its product with an operand."""

from __future__ import annotations

import jax
from jax.typing import DTypeLike

from jsparse.base.arrays import parse_dtype
from jsparse.convert.creation import of_ones
from jsparse.formats.pattern import Pattern
from jsparse.tensor.dynamic_pattern import DynamicPattern
from jsparse.tensor.sparse_tensor import SparseTensor, TensorLike


def todense(self: Pattern | DynamicPattern) -> jax.Array:
    """Return a bool array of the pattern's shape, which is True where an entry is stored.

    >>> jsparse.pattern.causal(3).todense().astype(int).tolist()
    [[1, 0, 0], [1, 1, 0], [1, 1, 1]]

    Raises ShapeError if the array is too large for memory, PatternError if the pattern has overflowed.
    """
    return of_ones(self, bool).todense()


def astype(self: Pattern | DynamicPattern, dtype: DTypeLike) -> SparseTensor:
    """Return the tensor of ones on the pattern, as `jsparse.asarray(pattern, dtype=dtype)` does.

        >>> jsparse.pattern.causal(3).astype("float32").sum().item()
        6.0

    Raises DTypeError if `dtype` is not a dtype of numbers.
    """
    return of_ones(self, parse_dtype(dtype, "a dtype of numbers for astype"))


def multiply(self: Pattern | DynamicPattern, x: TensorLike) -> SparseTensor:
    """Multiply the ones on the pattern by a number or an array: the elements of `x` where the pattern stores entries.

        >>> (jsparse.pattern.causal(3) * 2.0).values.tolist()
        [2.0, 2.0, 2.0, 2.0, 2.0, 2.0]

    A sparse `x` is 0 where it stores nothing, and the result is on the intersection. The result has the dtype of `x`.
    Raises ShapeError for an array whose shape does not broadcast to the pattern's, PatternError after an overflow.
    """
    return of_ones(self, bool) * x
