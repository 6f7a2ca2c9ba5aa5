"""Comparisons. The result is a bool SparseTensor, which is False where nothing is stored.

If an operand is an array of the result's shape, the result is an array.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from jsparse.errors import represented
from jsparse.notation.functions import COMPARISONS
from jsparse.ops.elementwise.called import called
from jsparse.tensor.sparse_tensor import SparseTensor, TensorLike

__all__ = ["equal", "greater", "greater_equal", "less", "less_equal", "not_equal"]

COMPLEMENTS = {"==": "!=", "!=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


def equal(A: TensorLike, x: TensorLike) -> SparseTensor | jax.Array:
    """Compute `A == x` elementwise for a number x other than 0: a bool SparseTensor on the pattern of A.

    The operator `==` compares tensors by identity instead.

        >>> jsparse.equal(A, 2.0)

    The result has the shape of A. It is an array if x is an array of that shape. Raises PatternError if the result
    would be True where A stores nothing, or if that is not known.
    """
    return _compared("==", A, x)


def not_equal(A: TensorLike, x: TensorLike) -> SparseTensor | jax.Array:
    """Compute `A != x` elementwise for x = 0: a bool SparseTensor on the pattern of A. See `equal`.

    >>> jsparse.not_equal(A, 0).dtype
    dtype('bool')
    """
    return _compared("!=", A, x)


def less(A: TensorLike, x: TensorLike) -> SparseTensor | jax.Array:
    """Compute `A < x` elementwise for a number x ≤ 0: a bool SparseTensor on the pattern of A, as the operator does.

        >>> A < -1

    The result has the shape of A. It is an array if x is an array of that shape. Raises PatternError if the result
    would be True where A stores nothing, or if that is not known.
    """
    return _compared("<", A, x)


def less_equal(A: TensorLike, x: TensorLike) -> SparseTensor | jax.Array:
    """Compute `A <= x` elementwise for a number x < 0. See `less`.

    >>> A <= -1
    """
    return _compared("<=", A, x)


def greater(A: TensorLike, x: TensorLike) -> SparseTensor | jax.Array:
    """Compute `A > x` elementwise for a number x ≥ 0. See `less`.

    >>> A > 0.5
    """
    return _compared(">", A, x)


def greater_equal(A: TensorLike, x: TensorLike) -> SparseTensor | jax.Array:
    """Compute `A >= x` elementwise for a number x > 0. See `less`.

    >>> A >= 0.5
    """
    return _compared(">=", A, x)


def _compared(symbol: str, lhs: TensorLike, rhs: TensorLike) -> SparseTensor | jax.Array:
    return called(symbol, f"A {symbol} x", (lhs, rhs), lambda: _advice(symbol, rhs))


def _advice(symbol: str, x: Any) -> str:
    complement, is_tensor = COMPLEMENTS[symbol], isinstance(x, SparseTensor)
    is_number = np.size(x) == 1 and not is_tensor and not isinstance(x, jax.core.Tracer)
    shown = "B" if is_tensor else represented(x) if is_number else "x"
    name = COMPARISONS[complement].path.rpartition(".")[2]
    has_operator = not is_tensor and complement not in ("==", "!=")
    written = f"A {complement} {shown}" if has_operator else f"jsparse.{name}(A, {shown})"
    return f"Compute the complement, {written}, which is False there where this is True. "
