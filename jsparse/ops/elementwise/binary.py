"""Elementwise functions of two and three operands: minimum, maximum, clip, where, power."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.convert.creation import as_sparse_operand
from jsparse.errors import DTypeError, ShapeError
from jsparse.ops.elementwise.map import on_both_patterns, value_operands
from jsparse.tensor.entrywise import compiled, mapped
from jsparse.tensor.leaves import check_leaves
from jsparse.tensor.sparse_tensor import SparseTensor

__all__ = ["clip", "maximum", "minimum", "power", "where"]


def maximum(A: Any, B: Any) -> Any:
    """Compute the larger of two operands elementwise, where entries that are not stored are 0, as numpy does.

    Args:
        A, B: SparseTensors of one shape, or one SparseTensor and a number x. Of two tensors the result has the entries
            that either stores, of a tensor and a number those of the tensor.

        >>> jsparse.maximum(A, B)

    Dtypes promote as in jnp. Raises ShapeError for different shapes, DTypeError for a number that would replace entries
    that are not stored: write `A.map(lambda v: jnp.maximum(v, x))` for stored entries only.
    """
    return _extreme("maximum", jnp.maximum, A, B)


def minimum(A: Any, B: Any) -> Any:
    """Compute the smaller of two operands elementwise. See `maximum`.

    >>> jsparse.minimum(A, B)
    """
    return _extreme("minimum", jnp.minimum, A, B)


def clip(A: Any, min: Any = None, max: Any = None) -> Any:
    """Limit the stored entries of a SparseTensor to the interval from `min` to `max`, as `jnp.clip` does.

        >>> jsparse.clip(A, -1, 1)

    Entries that are not stored stay 0. Raises DTypeError if the known interval does not contain 0, since those would
    not: write `A.map(lambda v: jnp.clip(v, min, max))` for stored entries only.

    Shape and pattern stay, and dtypes promote as in jnp.clip.
    """
    A = as_sparse_operand(A, "jsparse.clip")
    if not isinstance(A, SparseTensor):
        return jnp.clip(A, min, max)
    for bound, limit in ((min, jnp.maximum), (max, jnp.minimum)):
        if bound is not None:
            _check_keeps_zero("clip", limit, bound)
    check_leaves(A, "A in jsparse.clip(A)")
    return SparseTensor._unchecked(mapped(lambda v: jnp.clip(v, min, max), A.pattern, A.values), A.pattern)


def where(condition: SparseTensor, x: Any, y: Any) -> SparseTensor:
    """Choose `x` where the condition is True and `y` elsewhere, for the stored entries of the condition.

        >>> jsparse.where(A > 0.5, A, 0.0)

    Args:
        condition: a SparseTensor, as a comparison gives it.
        x, y: SparseTensors with the entries of the condition, or scalars.

    Entries that the condition does not store are not stored in the result. Raises PatternError if the tensors have
    different entries; `B.restrict(condition)` has those of the condition.

    The result has the shape of the condition, and the dtype to which x and y promote.
    """
    operands = [as_sparse_operand(one, "jsparse.where") for one in (condition, x, y)]
    first = operands[0]
    if not isinstance(first, SparseTensor):
        if any(isinstance(one, SparseTensor) for one in operands):
            raise DTypeError(
                "Expected a SparseTensor as the condition of jsparse.where, but got an array. Write "
                "jsparse.where(condition tensor, A, 0), or A * mask for a dense mask."
            )
        return jnp.where(*operands)  # type: ignore[return-value]
    values = value_operands("jsparse.where", *operands)
    return SparseTensor._unchecked(compiled(jnp.where, first.pattern, *map(_array, values)), first.pattern)


def power(tensor: Any, exponent: Any) -> Any:
    """Compute `A ** p` for the stored entries. Where nothing is stored the result stores nothing, for any p.

    Args:
        exponent: a number, a scalar array, or a SparseTensor with the entries of A.

        >>> A**2
        >>> A**-0.5  # of stored entries only, as in the normalization of an adjacency matrix

    For p > 0 the result equals that of the dense array. Raises ShapeError for other shapes, PatternError for a tensor
    with other entries.

    Dtypes promote as in jnp.
    """
    exponent = as_sparse_operand(exponent, "the operator **")
    if not isinstance(exponent, SparseTensor) and np.shape(exponent):
        raise ShapeError(
            f"Expected a number or a SparseTensor as the exponent of A ** p, but got an array of shape "
            f"{np.shape(exponent)}. Take its elements at A's entries, (A.with_values(1) * p), first."
        )
    if not isinstance(exponent, int | float | np.number):
        values = value_operands("A ** p", tensor, exponent)
        return SparseTensor._unchecked(compiled(operator.pow, tensor.pattern, *map(_array, values)), tensor.pattern)
    check_leaves(tensor, "the operand of **")
    # Not compiled: XLA computes some powers (roots) differently when it compiles them, and jnp's results are expected.
    raised = mapped(lambda values: values**exponent, tensor.pattern, tensor.values)
    return SparseTensor._unchecked(raised, tensor.pattern)


def _array(x: Any) -> Any:
    return x if isinstance(x, jax.Array) else jnp.asarray(x)


def _extreme(name: str, function: Callable[[Any, Any], Any], lhs: Any, rhs: Any) -> Any:
    lhs, rhs = (as_sparse_operand(x, f"jsparse.{name}") for x in (lhs, rhs))
    if not isinstance(lhs, SparseTensor):
        lhs, rhs = rhs, lhs
    if not isinstance(lhs, SparseTensor):
        return function(lhs, rhs)
    if not isinstance(rhs, SparseTensor):
        _check_keeps_zero(name, function, rhs)
    elif lhs.shape != rhs.shape:
        raise ShapeError(
            f"Expected SparseTensors of one shape in jsparse.{name}, but got {lhs.shape} and {rhs.shape}. Bring "
            f"them to one shape before."
        )
    else:
        lhs, rhs = on_both_patterns(lhs, rhs)
    values = value_operands(f"jsparse.{name}", lhs, rhs)
    return SparseTensor._unchecked(compiled(function, lhs.pattern, *map(_array, values)), lhs.pattern)


def _check_keeps_zero(name: str, function: Callable[[Any, Any], Any], x: Any) -> None:
    """Raise DTypeError unless `function(0, x)` is known to be 0."""
    instead = f"For stored entries only write A.map(lambda v: jnp.{name}(v, …)), or use A.todense()."
    if isinstance(x, jax.core.Tracer) or np.size(x) != 1:
        kind = "a traced value" if isinstance(x, jax.core.Tracer) else f"shape {np.shape(x)}"
        raise DTypeError(
            f"Expected a known number beside a SparseTensor in jsparse.{name}, but got {kind}: where nothing is stored "
            f"the result may differ from 0. {instead}"
        )
    number = np.asarray(x).item()
    if float(function(0.0, number)) != 0:
        raise DTypeError(
            f"jsparse.{name} with {number} is {number} wherever the SparseTensor stores nothing, so it would be dense. "
            f"{instead}"
        )
