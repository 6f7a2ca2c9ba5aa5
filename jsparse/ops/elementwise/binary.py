"""Elementwise functions of two and three operands: minimum, maximum, clip, where, power.

Comparisons. The result is a bool SparseTensor, which is False where nothing is stored.

If an operand is an array of the result's shape, the result is an array.
"""

from __future__ import annotations

import operator
from functools import partial
from typing import Any, overload

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.convert.creation import as_sparse_operand, asarray
from jsparse.errors import DTypeError, ShapeError, short_repr, shorten
from jsparse.formats import Pattern
from jsparse.notation.functions import COMPARISONS
from jsparse.ops.elementwise.called import apply_elementwise, number_or_unknown
from jsparse.ops.elementwise.map import map_values
from jsparse.ops.elementwise.operators import as_operand
from jsparse.tensor.composed import Composition
from jsparse.tensor.dynamic_pattern import DynamicPattern
from jsparse.tensor.entrywise import map_slots
from jsparse.tensor.leaves import check_leaves
from jsparse.tensor.sparse_tensor import SparseTensor, TensorLike

PATTERNS = (Pattern, DynamicPattern, Composition)
COMPLEMENTS = {"==": "!=", "!=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


def equal(A: TensorLike, x: TensorLike) -> SparseTensor | jax.Array:
    """Compute `A == x` elementwise for a number x other than 0: a bool SparseTensor on the pattern of A.

        >>> jsparse.equal(A, 2.0)

    The operator `==` does the same for a number or an array, but two tensors are `==` if they are one object.

    The result has the shape of A. It is an array if x is an array of that shape. Raises PatternError if the result
    would be True where A stores nothing, or if that is not known.
    """
    return _compare("==", A, x)


def not_equal(A: TensorLike, x: TensorLike) -> SparseTensor | jax.Array:
    """Compute `A != x` elementwise for x = 0: a bool SparseTensor on the pattern of A. See `equal`.

    >>> jsparse.not_equal(A, 0).dtype
    dtype('bool')
    """
    return _compare("!=", A, x)


def less(A: TensorLike, x: TensorLike) -> SparseTensor | jax.Array:
    """Compute `A < x` elementwise for a number x ≤ 0: a bool SparseTensor on the pattern of A, as the operator does.

        >>> A < -1

    The result has the shape of A. It is an array if x is an array of that shape. Raises PatternError if the result
    would be True where A stores nothing, or if that is not known.
    """
    return _compare("<", A, x)


def less_equal(A: TensorLike, x: TensorLike) -> SparseTensor | jax.Array:
    """Compute `A <= x` elementwise for a number x < 0. See `less`.

    >>> A <= -1
    """
    return _compare("<=", A, x)


def greater(A: TensorLike, x: TensorLike) -> SparseTensor | jax.Array:
    """Compute `A > x` elementwise for a number x ≥ 0. See `less`.

    >>> A > 0.5
    """
    return _compare(">", A, x)


def greater_equal(A: TensorLike, x: TensorLike) -> SparseTensor | jax.Array:
    """Compute `A >= x` elementwise for a number x > 0. See `less`.

    >>> A >= 0.5
    """
    return _compare(">=", A, x)


def array_equal(A: TensorLike, B: TensorLike) -> jax.Array:
    """Test whether two operands, sparse or dense, have equal shapes and elements, as jnp.array_equal does.

        >>> bool(jsparse.array_equal(A, A.asformat("csc")))
        True

    A pattern is True where it stores entries, as a mask is. Entries that are not stored are 0, whatever the formats.
    NaN equals nothing. Returns a bool array. Raises TypeError for operands that are not arrays.
    """
    one, other = _operands("array_equal", A, B)
    if np.shape(one) != np.shape(other):
        return jnp.asarray(False)
    unequal = apply_elementwise("!=", "jsparse.array_equal(A, B)", (one, other))
    return ~(unequal.any() if isinstance(unequal, SparseTensor) else jnp.any(unequal))


def allclose(
    A: TensorLike, B: TensorLike, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> jax.Array:
    """Test whether |A - B| ≤ atol + rtol |B| for all elements of two operands of equal shape, as jnp.allclose does.

        >>> bool(jsparse.allclose(A, 1.000001 * A))
        True

    Entries that are not stored are 0. Infinity is close to itself, and NaN only with `equal_nan=True`. Returns a
    bool array. Raises ShapeError if the shapes differ.
    """
    one, other = _operands("allclose", A, B)
    if np.shape(one) != np.shape(other):
        raise ShapeError(
            f"Expected operands of jsparse.allclose of one shape, but got {shorten(np.shape(one))} and "
            f"{shorten(np.shape(other))}."
        )
    if not isinstance(one, SparseTensor) or not isinstance(other, SparseTensor):
        a, b = (x.todense() if isinstance(x, SparseTensor) else x for x in (one, other))
        return jnp.allclose(a, b, rtol, atol, equal_nan)
    union = one + other
    near = partial(jnp.isclose, rtol=rtol, atol=atol, equal_nan=equal_nan)
    return one.restrict(union).map(near, other.restrict(union)).all(stored=True)


def _operands(name: str, *operands: TensorLike) -> list[SparseTensor | jax.Array]:
    """Convert sparse arrays of other libraries to SparseTensors, and dense operands to arrays. Keep SparseTensors."""
    converted = (
        asarray(x, dtype=bool) if isinstance(x, PATTERNS) else as_sparse_operand(x, f"jsparse.{name}") for x in operands
    )
    return [x if isinstance(x, SparseTensor) else jnp.asarray(x) for x in converted]


def _compare(symbol: str, lhs: TensorLike, rhs: TensorLike) -> SparseTensor | jax.Array:
    return apply_elementwise(symbol, f"A {symbol} x", (lhs, rhs), lambda: _advice(symbol, rhs))


def _advice(symbol: str, x: Any) -> str:
    complement, is_tensor = COMPLEMENTS[symbol], isinstance(x, SparseTensor)
    is_number = np.size(x) == 1 and not is_tensor and not isinstance(x, jax.core.Tracer)
    shown = "B" if is_tensor else short_repr(x) if is_number else "x"
    name = COMPARISONS[complement].path.rpartition(".")[2]
    is_identity = is_tensor and complement in ("==", "!=")
    written = f"jsparse.{name}(A, {shown})" if is_identity else f"A {complement} {shown}"
    dense = f"A.todense() {symbol} {shown}{'.todense()' if is_tensor else ''}"
    return f"Compute the complement, {written}, which is False there where this is True, or write {dense}. "


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

    Entries that are not stored stay 0. Raises PatternError if the interval is not known to contain 0, since these zeros
    would be replaced: write `A.map(jnp.clip, min, max)` for stored entries only.

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
            "Expected x and y in jsparse.where(condition, x, y). For the coordinates at which a condition holds write "
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

    Dtypes promote as in jnp. Raises PatternError for p = 0, since 0 ** 0 is 1 and the result would be dense, for NaN,
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
    """Whether an exponent is known to be positive, so that 0 stays 0, or negative, so that it is of stored entries."""
    if not isinstance(exponent, int | float | np.number | np.ndarray | jax.Array):
        return False
    number = number_or_unknown(exponent)
    return isinstance(number, int | float) and (number > 0 or number < 0)


pow = power
