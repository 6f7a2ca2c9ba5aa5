"""Comparisons of a sparse tensor with a number: a bool SparseTensor, False where nothing is stored.

Compared with an array of its shape, it gives an array.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.base.arrays import jax_array
from jsparse.convert.creation import as_sparse_operand
from jsparse.errors import DTypeError
from jsparse.ops.elementwise.broadcast import with_array
from jsparse.ops.elementwise.map import on_both_patterns, value_operands
from jsparse.tensor.entrywise import compiled
from jsparse.tensor.sparse_tensor import SparseTensor

__all__ = ["equal", "greater", "greater_equal", "less", "less_equal", "not_equal"]

SYMBOLS = {"equal": "==", "not_equal": "!=", "less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">="}
COMPLEMENTS = {
    "equal": "not_equal",
    "not_equal": "equal",
    "less": "greater_equal",
    "less_equal": "greater",
    "greater": "less_equal",
    "greater_equal": "less",
}
MIRRORED = {"less": "greater", "less_equal": "greater_equal", "greater": "less", "greater_equal": "less_equal"}
COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "equal": operator.eq,
    "not_equal": operator.ne,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
}


def equal(A: Any, x: Any) -> Any:
    """Compute `A == x` elementwise for a number x other than 0: a bool SparseTensor on the pattern of A.

    The operator `==` compares tensors by identity instead.

        >>> jsparse.equal(A, 2.0)

    The result has the shape of A. It is an array if x is one of that shape. Raises DTypeError if the result would be
    True where A stores nothing, or if that is not known.
    """
    return _compared("equal", A, x)


def not_equal(A: Any, x: Any) -> Any:
    """Compute `A != x` elementwise for x = 0: a bool SparseTensor on the pattern of A. See `equal`.

    >>> jsparse.not_equal(A, 0).dtype
    dtype('bool')
    """
    return _compared("not_equal", A, x)


def less(A: Any, x: Any) -> Any:
    """Compute `A < x` elementwise for a number x ≤ 0: a bool SparseTensor on the pattern of A, as the operator does.

        >>> A < -1

    The result has the shape of A. It is an array if x is one of that shape. Raises DTypeError if the result would be
    True where A stores nothing, or if that is not known.
    """
    return _compared("less", A, x)


def less_equal(A: Any, x: Any) -> Any:
    """Compute `A <= x` elementwise for a number x < 0. See `less`.

    >>> A <= -1
    """
    return _compared("less_equal", A, x)


def greater(A: Any, x: Any) -> Any:
    """Compute `A > x` elementwise for a number x ≥ 0. See `less`.

    >>> A > 0.5
    """
    return _compared("greater", A, x)


def greater_equal(A: Any, x: Any) -> Any:
    """Compute `A >= x` elementwise for a number x > 0. See `less`.

    >>> A >= 0.5
    """
    return _compared("greater_equal", A, x)


def _compared(name: str, lhs: Any, rhs: Any) -> Any:
    text = f"A {SYMBOLS[name]} x"
    lhs, rhs = as_sparse_operand(lhs, text), as_sparse_operand(rhs, text)
    if isinstance(rhs, SparseTensor) and not isinstance(lhs, SparseTensor):
        name, lhs, rhs = MIRRORED.get(name, name), rhs, lhs
    if not isinstance(lhs, SparseTensor):
        return getattr(jnp, name)(lhs, rhs)
    if isinstance(rhs, SparseTensor):
        return _of_tensors(name, lhs, rhs)
    number = jax_array(rhs, f"the operands of {text} to be numbers")
    if number.size != 1 and (found := with_array(text, COMPARE[name], lhs, number)) is not None:
        return found
    _check_unstored(name, rhs)
    values = value_operands(text, lhs, number.reshape(()))
    return SparseTensor._unchecked(compiled(COMPARE[name], lhs.pattern, *values), lhs.pattern)


def _of_tensors(name: str, lhs: SparseTensor, rhs: SparseTensor) -> SparseTensor:
    """Compare tensors: 0 is compared with 0 where neither stores an entry, so that has to be False."""
    symbol = SYMBOLS[name]
    if COMPARE[name](0, 0):
        raise DTypeError(
            f"A {symbol} B is True wherever neither tensor stores an entry, so it would be dense. Compute the "
            f"complement, jsparse.{COMPLEMENTS[name]}(A, B), which is False there, or A.todense() {symbol} B.todense()."
        )
    lhs, rhs = on_both_patterns(lhs, rhs)
    values = value_operands(f"A {symbol} B", lhs, rhs)
    return SparseTensor._unchecked(compiled(COMPARE[name], lhs.pattern, *values), lhs.pattern)


def _check_unstored(name: str, x: Any) -> None:
    """Raise DTypeError unless `0 <op> x` is known to be False."""
    symbol = SYMBOLS[name]
    if isinstance(x, jax.core.Tracer):
        raise DTypeError(
            f"Expected a known number x in A {symbol} x, but it is traced: where A stores nothing, 0 {symbol} x may be "
            f"True. For stored entries only write A.map(lambda v: v {symbol} x)."
        )
    if np.size(x) != 1:
        raise DTypeError(
            f"Expected a number or a SparseTensor in A {symbol} x, but got shape {np.shape(x)}: the result would be "
            f"dense. For stored entries only write A.map(jnp.{name}, x), or compare A.todense()."
        )
    if bool(COMPARE[name](0, np.asarray(x).item())):
        complement = COMPLEMENTS[name]
        other = f"A {SYMBOLS[complement]} {x}" if complement in MIRRORED else f"jsparse.{complement}(A, {x})"
        raise DTypeError(
            f"A {symbol} {x} is True wherever A stores nothing, so it would be dense. Compute the complement, {other}, "
            f"which is False there, or A.map(lambda v: v {symbol} {x}) for stored entries only, or A.todense() "
            f"{symbol} {x}."
        )
