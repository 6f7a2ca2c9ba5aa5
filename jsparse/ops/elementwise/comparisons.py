"""Comparisons. The result is a bool SparseTensor, which is False where nothing is stored.

If an operand is an array of the result's shape, the result is an array.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.convert.creation import as_sparse_operand, asarray
from jsparse.errors import ShapeError, short_repr, shorten
from jsparse.formats import Pattern
from jsparse.notation.functions import COMPARISONS
from jsparse.ops.elementwise.called import apply_elementwise
from jsparse.tensor.composed import Composition
from jsparse.tensor.dynamic_pattern import DynamicPattern
from jsparse.tensor.sparse_tensor import SparseTensor, TensorLike

PATTERNS = (Pattern, DynamicPattern, Composition)
COMPLEMENTS = {"==": "!=", "!=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


def equal(A: TensorLike, x: TensorLike) -> SparseTensor | jax.Array:
    """Compute `A == x` elementwise for a number x other than 0: a bool SparseTensor on the pattern of A.

        >>> jsparse.equal(A, 2.0)

    The operator `==` does the same for a number or an array, but two tensors are `==` only if they are the same object.

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
            f"Expected operands of jsparse.allclose with the same shape, but got {shorten(np.shape(one))} and "
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
