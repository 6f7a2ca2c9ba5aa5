"""The operators &, | and ^ of tensors of bool and integers, with numpy's broadcasting."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from jsparse.compiler.semiring import SEMIRINGS
from jsparse.errors import DTypeError
from jsparse.ops.elementwise.broadcast import broadcast_shape, check_size, is_sparse, multiplied
from jsparse.ops.elementwise.map import on_both_patterns, on_one_pattern, value_operands
from jsparse.ops.elementwise.operators import as_operand
from jsparse.ops.shaping.repeating import broadcast_to
from jsparse.tensor.entrywise import compiled
from jsparse.tensor.sparse_tensor import SparseTensor

__all__ = ["bitwise_and", "bitwise_or", "bitwise_xor"]


def bitwise_and(lhs: Any, rhs: Any) -> Any:
    """Compute `A & B` elementwise: a SparseTensor on the entries that both store, or on those of the only sparse one.

        >>> A = jsparse.asarray([[0, 3], [-2, 0]])
        >>> ((A > 1) & (A < 5)).todense()

    Args:
        lhs, rhs: SparseTensors, arrays and numbers of bool or integers that broadcast, at least one of them sparse.

    Raises DTypeError for other dtypes, ShapeError by the rules of `A * B`.
    """
    lhs, rhs = _operands("&", lhs, rhs)
    if _on_values(lhs, rhs):
        return _entrywise("&", operator.and_, lhs, rhs)
    return multiplied(lhs, rhs, symbol="&", semiring=SEMIRINGS["or_and"])


def bitwise_or(lhs: Any, rhs: Any) -> Any:
    """Compute `A | B` elementwise: a SparseTensor on the union of the entries of two, or an array if one is dense.

        >>> A = jsparse.asarray([[0, 3], [-2, 0]])
        >>> ((A > 1) | (A < -1)).todense()

    Raises DTypeError for dtypes other than bool and integers, ShapeError by the rules of `A + B`.
    """
    return _united("|", operator.or_, lhs, rhs)


def bitwise_xor(lhs: Any, rhs: Any) -> Any:
    """Compute `A ^ B` elementwise, by the rules of `A | B`."""
    return _united("^", operator.xor, lhs, rhs)


def _united(symbol: str, combine: Callable[[Any, Any], Any], lhs: Any, rhs: Any) -> Any:
    """Compute an operation that gives 0 for two zeros, and x for x and 0."""
    zero = any(isinstance(x, bool | int | np.bool_ | np.integer) and not x for x in (lhs, rhs))
    lhs, rhs = _operands(symbol, lhs, rhs)
    both = isinstance(lhs, SparseTensor) and isinstance(rhs, SparseTensor)
    if zero or (both and _on_values(lhs, rhs)):
        return _entrywise(symbol, combine, lhs, rhs)
    shape = broadcast_shape(symbol, lhs, rhs)
    if not all(is_sparse(symbol, x, lhs, rhs) for x in (lhs, rhs)):
        check_size(symbol, lhs, rhs)
        return combine(*(x.todense() if isinstance(x, SparseTensor) else x for x in (lhs, rhs)))
    lhs, rhs = (x if x.shape == shape else broadcast_to(x, shape) for x in (lhs, rhs))
    return _entrywise(symbol, combine, *on_both_patterns(lhs, rhs))


def _entrywise(symbol: str, combine: Callable[[Any, Any], Any], lhs: Any, rhs: Any) -> SparseTensor:
    """Combine the values of tensors on one pattern, or of a tensor and a scalar. All three operations commute."""
    if not isinstance(lhs, SparseTensor):
        lhs, rhs = rhs, lhs
    scalar = rhs if isinstance(rhs, SparseTensor) else rhs.reshape(())
    values = value_operands(f"A {symbol} B", lhs, scalar)
    return SparseTensor._unchecked(compiled(combine, lhs.pattern, *values), lhs.pattern)


def _on_values(lhs: Any, rhs: Any) -> bool:
    """Whether two tensors are on one pattern, or one operand is a scalar."""
    if isinstance(lhs, SparseTensor) and isinstance(rhs, SparseTensor):
        return on_one_pattern(lhs, rhs)
    return any(_is_scalar(x, other) for x, other in ((lhs, rhs), (rhs, lhs)))


def _is_scalar(x: Any, tensor: Any) -> bool:
    return not isinstance(x, SparseTensor) and x.size == 1 and x.ndim <= tensor.ndim


def _operands(symbol: str, lhs: Any, rhs: Any) -> tuple[Any, Any]:
    """The operands as tensors and arrays. Raises DTypeError if one has no bits."""
    for x in (lhs := as_operand(lhs), rhs := as_operand(rhs)):
        if not (x.dtype == bool or jnp.issubdtype(x.dtype, jnp.integer)):
            raise DTypeError(
                f"Expected operands of A {symbol} B that are bool or integers, but one is {x.dtype}. Compare it first, "
                f"as in (A > 0) {symbol} (B > 0)."
            )
    return lhs, rhs
