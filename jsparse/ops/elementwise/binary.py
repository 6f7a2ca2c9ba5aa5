"""Elementwise functions of two and three operands: minimum, maximum, clip, where, power."""

from __future__ import annotations

import operator
from typing import overload

import jax
import numpy as np

from jsparse.convert.creation import as_sparse_operand
from jsparse.errors import DTypeError
from jsparse.ops.elementwise.called import apply_elementwise, number_or_unknown
from jsparse.ops.elementwise.map import map_values
from jsparse.ops.elementwise.operators import as_operand
from jsparse.tensor.entrywise import map_slots
from jsparse.tensor.leaves import check_leaves
from jsparse.tensor.sparse_tensor import SparseTensor, TensorLike


@overload
def maximum(A: SparseTensor, B: SparseTensor) -> SparseTensor: ...
@overload
def maximum(A: TensorLike, B: TensorLike) -> SparseTensor | jax.Array: ...
def maximum(A: TensorLike, B: TensorLike) -> SparseTensor | jax.Array:
    """Compute the larger of two operands elementwise, as numpy does. Elements that are not stored are 0.

    Args:
        A, B: SparseTensors, arrays and numbers that broadcast. For two tensors, the result stores the union of their
            entries; for a tensor and a number, the result has the tensor's pattern. If one operand is an array of the
            result's shape, the result is an array.

        >>> jsparse.maximum(A, B)

    Dtypes promote as in jnp. Raises ShapeError if the operands do not broadcast, PatternError if the result
    would be dense and no operand is an array of its size: write `A.map(jnp.maximum, x)` for stored entries only.
    """
    return apply_elementwise("maximum", "jsparse.maximum(A, B)", (A, B))


@overload
def minimum(A: SparseTensor, B: SparseTensor) -> SparseTensor: ...
@overload
def minimum(A: TensorLike, B: TensorLike) -> SparseTensor | jax.Array: ...
def minimum(A: TensorLike, B: TensorLike) -> SparseTensor | jax.Array:
    """Compute the smaller of two operands elementwise. See `maximum`.

    >>> jsparse.minimum(A, B)
    """
    return apply_elementwise("minimum", "jsparse.minimum(A, B)", (A, B))


def clip(A: TensorLike, min: TensorLike | None = None, max: TensorLike | None = None) -> SparseTensor | jax.Array:
    """Limit the stored entries of a SparseTensor to the interval from `min` to `max`, as `jnp.clip` does.

        >>> jsparse.clip(A, -1, 1)

    Entries that are not stored stay 0. Raises PatternError if the interval is not known to contain 0, because these
    zeros would be replaced: write `A.map(jnp.clip, min, max)` for stored entries only.

    Shape and pattern stay, and dtypes promote as in jnp.clip. If a bound is an array of the shape of A, the
    result is an array.
    """
    if min is None and max is None:
        return as_operand(A)
    if min is None or max is None:
        name, bound = ("maximum", min) if max is None else ("minimum", max)
        return apply_elementwise(name, "jsparse.clip(A, min, max)", (A, bound))
    return apply_elementwise("clip", "jsparse.clip(A, min, max)", (A, min, max))


def where(condition: TensorLike, x: TensorLike | None = None, y: TensorLike | None = None) -> SparseTensor | jax.Array:
    """Choose `x` where the condition is True and `y` elsewhere, as numpy does. Entries that are not stored are 0.

        >>> jsparse.where(A > 0.5, A, 0.0)  # on the entries of A

    Args:
        condition: a SparseTensor, as a comparison gives it, or an array.
        x, y: SparseTensors, arrays and numbers, which broadcast with the condition.

    The result is a SparseTensor if it is 0 wherever none of the tensors stores an entry: if the condition is a
    SparseTensor and y is a SparseTensor or a known 0, or if both x and y are SparseTensors. In the first case it has
    the entries of the condition and of y, in the second the entries of x and of y. Otherwise it is an array, if an
    operand is an array of the result's shape. Entries that become 0 stay stored; `A.drop_zeros()` removes them.

    Its dtype is the dtype to which x and y promote. Raises DTypeError without x and y (numpy gives coordinates then, as
    `nonzero` does), ShapeError if the operands do not broadcast, PatternError if the result would be dense and larger
    than any array among the operands: for stored entries only write `condition.map(jnp.where, x, y)`.
    """
    if y is None:
        raise DTypeError(
            "Expected x and y in jsparse.where(condition, x, y). For the coordinates at which a condition holds, write "
            "jsparse.nonzero(condition)."
        )
    advice = "Pass a SparseTensor or a known 0 as y, or write condition.map(jnp.where, x, y) for its stored entries. "
    return apply_elementwise("where", "jsparse.where(condition, x, y)", (condition, x, y), lambda: advice)


def power(tensor: TensorLike, exponent: TensorLike) -> SparseTensor | jax.Array:
    """Compute `A ** p` on the pattern of A: the power of the dense array for p > 0, and of stored entries for p < 0.

    Args:
        exponent: a number, a scalar array that is known, or a SparseTensor with the entries of A, for powers of stored
            entries. With an array of the shape of A the result is an array.

        >>> A**2
        >>> A**-0.5  # of stored entries only, as in the normalization of an adjacency matrix

    Dtypes promote as in jnp. Raises PatternError for p = 0, because 0 ** 0 is 1 and the result would be dense, for NaN,
    and for a traced p, which may be 0: for stored entries only write `A.map(jnp.power, p)`. Raises PatternError, too,
    if the exponent is a tensor with other entries, or an array that is smaller than the result.
    """
    tensor, exponent = (as_sparse_operand(x, "the operator **") for x in (tensor, exponent))
    if not isinstance(tensor, SparseTensor):
        return apply_elementwise("pow", "x ** A", (tensor, exponent))
    if not isinstance(exponent, SparseTensor) and (np.shape(exponent) or not _has_sign(exponent)):
        return apply_elementwise("pow", "A ** p", (tensor, exponent))
    if not isinstance(exponent, int | float | np.number):
        return map_values(operator.pow, "A ** p", tensor, exponent)
    check_leaves(tensor, "the operand of **")
    # Not compiled: XLA computes some powers (roots) differently when it compiles them, and jnp's results are expected.
    raised = map_slots(lambda values: values**exponent, tensor.pattern, tensor.values)
    return SparseTensor._wrap(raised, tensor.pattern)


def _has_sign(exponent: TensorLike) -> bool:
    """Whether an exponent is known to be positive, so that 0 stays 0, or negative, so only stored entries count."""
    if not isinstance(exponent, int | float | np.number | np.ndarray | jax.Array):
        return False
    number = number_or_unknown(exponent)
    return isinstance(number, int | float) and (number > 0 or number < 0)


pow = power
