"""Elementwise functions of two and three operands: minimum, maximum, clip, where, power."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.base.arrays import check_python_int, jax_array
from jsparse.convert.creation import as_sparse_operand
from jsparse.errors import DTypeError, ShapeError, represented, shortened
from jsparse.ops.elementwise.broadcast import common_shape, keeps, with_array
from jsparse.ops.elementwise.map import on_both_patterns, on_one_pattern, value_operands
from jsparse.ops.shaping.repeating import broadcast_to
from jsparse.tensor.entrywise import compiled, mapped
from jsparse.tensor.leaves import check_leaves
from jsparse.tensor.sparse_tensor import SparseTensor

__all__ = ["clip", "maximum", "minimum", "power", "where"]


def maximum(A: Any, B: Any) -> Any:
    """Compute the larger of two operands elementwise, where entries that are not stored are 0, as numpy does.

    Args:
        A, B: SparseTensors of one shape, or one SparseTensor and a number x. Of two tensors the result has the entries
            that either stores, of a tensor and a number those of the tensor. Beside an array of the result's shape it
            is an array.

        >>> jsparse.maximum(A, B)

    Dtypes promote as in jnp. Raises ShapeError for different shapes, DTypeError for a number or a smaller array that
    would replace entries that are not stored: write `A.map(jnp.maximum, x)` for stored entries only.
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
    not: write `A.map(jnp.clip, min, max)` for stored entries only.

    Shape and pattern stay, and dtypes promote as in jnp.clip. If a bound is an array of the shape of A, so is the
    result.
    """
    A = as_sparse_operand(A, "jsparse.clip")
    if not isinstance(A, SparseTensor):
        return jnp.clip(A, min, max)
    bounds = [0 if bound is None else bound for bound in (min, max)]
    if any(np.size(bound) != 1 for bound in bounds):
        found = with_array("jsparse.clip", lambda x, *_: jnp.clip(x, min, max), A, *bounds)
        if found is not None:
            return found
    for bound, limit in ((min, jnp.maximum), (max, jnp.minimum)):
        if bound is not None:
            _check_keeps_zero("clip", limit, bound)
    check_leaves(A, "A in jsparse.clip(A)")
    return SparseTensor._unchecked(mapped(lambda v: jnp.clip(v, min, max), A.pattern, A.values), A.pattern)


def where(condition: Any, x: Any, y: Any) -> Any:
    """Choose `x` where the condition is True and `y` elsewhere, as numpy does. Entries that are not stored are 0.

        >>> jsparse.where(A > 0.5, A, 0.0)  # on the entries of A

    Args:
        condition: a SparseTensor, as a comparison gives it, or an array.
        x, y: SparseTensors, arrays and numbers, which broadcast with the condition.

    The result is a SparseTensor if it is 0 wherever none of the tensors stores an entry: if the condition is one and y
    is a SparseTensor or a known 0, or if both x and y are. It has the entries of the condition and of y, or those of x
    and y. Otherwise it is an array, if an operand is an array of its shape.

    Its dtype is that to which x and y promote. Raises ShapeError if the operands do not broadcast, and if the result
    would be dense and larger than any array among them: for stored entries only write `condition.map(jnp.where, x, y)`.
    """
    what = "jsparse.where(condition, x, y)"
    operands: list[Any] = [x if isinstance(x, SparseTensor) else _operand(x, what) for x in (condition, x, y)]
    first = operands[0]
    if isinstance(first, SparseTensor) and _is_zero(operands[2]) and all(_is_on(one, first) for one in operands[1:]):
        return _where(map(_values, operands), first)
    if not any(isinstance(one, SparseTensor) for one in operands):
        return jnp.where(*operands)
    shape = common_shape(what, *map(np.shape, operands))
    target = _entries(shape, *operands)
    if target is not None:
        return _where(value_operands(what, target, *(_restricted(one, target) for one in operands))[1:], target)
    found = with_array(what, jnp.where, *operands)
    if found is None:
        raise ShapeError(
            f"Expected y of {what} to be a SparseTensor or a known 0, with tensors of the shape {shortened(shape)}, or "
            f"an operand that is an array of that shape, but got {_kinds(operands)}: the result would be dense. For "
            f"the stored entries of the condition only write condition.map(jnp.where, x, y); for the array, "
            f"jnp.where(condition.todense(), x, y)."
        )
    return found


def _entries(shape: tuple[int, ...], condition: Any, x: Any, y: Any) -> SparseTensor | None:
    """A tensor with the entries of `where`, outside of which it is 0; None if there is none."""
    is_sparse = isinstance(condition, SparseTensor)
    if not _is_zero(y) or not (is_sparse or _is_zero(x)):
        return None
    tensors = [one for one in ((condition, y) if is_sparse else (x, y)) if isinstance(one, SparseTensor)]
    if not all(keeps(one, shape) for one in tensors):
        return None
    first, *others = (one if one.shape == shape else broadcast_to(one, shape) for one in tensors)
    return on_both_patterns(first, others[0])[0] if others else first


def _where(values: Iterable[Any], target: SparseTensor) -> SparseTensor:
    """`jnp.where` of values on the pattern of a tensor."""
    return SparseTensor._unchecked(compiled(jnp.where, target.pattern, *map(_array, values)), target.pattern)


def _is_zero(x: Any) -> bool:
    """Whether an operand is known to be 0 wherever tensors store no entry."""
    if isinstance(x, SparseTensor):
        return True
    is_known = isinstance(x, int | float | complex) or not (x.ndim or isinstance(x, jax.core.Tracer))
    return is_known and not x


def _values(x: Any) -> Any:
    """The values of a tensor; a number as it is."""
    if isinstance(x, SparseTensor):
        check_leaves(x, "an operand of jsparse.where")
        return x.values
    return x


def _is_on(x: Any, target: SparseTensor) -> bool:
    """Whether an operand is a tensor on the pattern of another one, or a number."""
    return on_one_pattern(x, target) if isinstance(x, SparseTensor) else isinstance(x, int | float | complex)


def _restricted(x: Any, target: SparseTensor) -> Any:
    """An operand with the entries of a tensor if it is sparse."""
    if not isinstance(x, SparseTensor) or on_one_pattern(x, target):
        return x
    return (x if x.shape == target.shape else broadcast_to(x, target.shape)).restrict(target)


def _kinds(operands: Sequence[Any]) -> str:
    """What operands are, for messages."""
    return ", ".join(
        f"{'a SparseTensor' if isinstance(x, SparseTensor) else 'an array'} of shape {shortened(x.shape)}"
        if np.ndim(x)
        else represented(x)
        for x in operands
    )


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
    return jax_array(x, "the operands of an elementwise function to be tensors or numbers")


def _operand(x: Any, what: str) -> Any:
    """A tensor, an array, or a Python number as it is. Raises DTypeError for anything else."""
    x = as_sparse_operand(x, what)
    return x if isinstance(x, SparseTensor | int | float | complex) else jax_array(x, f"the operands of {what}")


def _extreme(name: str, function: Callable[[Any, Any], Any], lhs: Any, rhs: Any) -> Any:
    what = f"jsparse.{name}"
    lhs, rhs = (as_sparse_operand(x, what) for x in (lhs, rhs))
    if not isinstance(lhs, SparseTensor):
        lhs, rhs = rhs, lhs
    if not isinstance(lhs, SparseTensor):
        return function(lhs, rhs)
    if not isinstance(rhs, SparseTensor):
        if np.size(rhs) != 1 and (found := with_array(what, function, lhs, rhs)) is not None:
            return found
        _check_keeps_zero(name, function, rhs)
    elif lhs.shape != rhs.shape:
        raise ShapeError(
            f"Expected SparseTensors of one shape in {what}, but got {lhs.shape} and {rhs.shape}. Bring "
            f"them to one shape before."
        )
    else:
        lhs, rhs = on_both_patterns(lhs, rhs)
    values = value_operands(what, lhs, rhs)
    return SparseTensor._unchecked(compiled(function, lhs.pattern, *map(_array, values)), lhs.pattern)


def _check_keeps_zero(name: str, function: Callable[[Any, Any], Any], x: Any) -> None:
    """Raise DTypeError unless `function(0, x)` is known to be 0."""
    instead = f"For stored entries only write A.map(jnp.{name}, …), or use A.todense()."
    if isinstance(x, jax.core.Tracer) or np.size(x) != 1:
        kind = "a traced value" if isinstance(x, jax.core.Tracer) else f"shape {np.shape(x)}"
        raise DTypeError(
            f"Expected a known number, or an array of the shape of A, beside a SparseTensor A in jsparse.{name}, but "
            f"got {kind}: where nothing is stored the result may differ from 0. {instead}"
        )
    number = check_python_int(np.asarray(x).item(), f"a number beside a SparseTensor in jsparse.{name}")
    if float(function(0.0, number)) != 0:
        raise DTypeError(
            f"jsparse.{name} with {number} is {number} wherever the SparseTensor stores nothing, so it would be dense. "
            f"{instead}"
        )
