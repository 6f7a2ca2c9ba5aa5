"""`jsparse.add`, `subtract` and `multiply`: the operators +, - and *, with a capacity for their result."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, overload

import jax

from jsparse.base.limits import parse_nse
from jsparse.convert.conversion import with_index_of
from jsparse.convert.creation import as_sparse_operand
from jsparse.errors import PatternError
from jsparse.formats import Pattern
from jsparse.ops.elementwise.broadcast import broadcast_add, broadcast_multiply
from jsparse.ops.elementwise.map import on_one_pattern
from jsparse.tensor.sparse_tensor import SparseTensor, TensorLike


@overload
def add(a: SparseTensor, b: SparseTensor, *, nse: int | None = None) -> SparseTensor: ...
@overload
def add(a: TensorLike, b: TensorLike, *, nse: int | None = None) -> SparseTensor | jax.Array: ...
def add(a: TensorLike, b: TensorLike, *, nse: int | None = None) -> SparseTensor | jax.Array:
    """Compute `a + b` with numpy's broadcasting.

        >>> total, _ = jax.lax.scan(lambda C, A: (jsparse.add(C, A, nse=C.nse), None), C, stacked)

    The sum of two SparseTensors has the union of their patterns. With `nse` the sum keeps the format of the operands if
    they share one, and a transposed index (a second order of the entries) if `a` has one. The carry C of a loop
    therefore keeps its type if the loop adds to C with `nse=C.nse`.

    Args:
        a, b: SparseTensors, arrays and numbers.
        nse: the capacity of a dynamic result, by default the sum of the operands' capacities. If there are more
            entries, the result overflows. For a static result it is an upper bound that is checked.

    Dtypes promote as in jnp. Raises ShapeError if `a` and `b` do not broadcast, PatternError if a known number of
    entries exceeds `nse`, or if the result is dense and `nse` is given.
    """
    return _combine_with_capacity("+", operator.add, a, b, nse)


@overload
def subtract(a: SparseTensor, b: SparseTensor, *, nse: int | None = None) -> SparseTensor: ...
@overload
def subtract(a: TensorLike, b: TensorLike, *, nse: int | None = None) -> SparseTensor | jax.Array: ...
def subtract(a: TensorLike, b: TensorLike, *, nse: int | None = None) -> SparseTensor | jax.Array:
    """Compute `a - b`, by the rules of `add`.

    >>> jsparse.subtract(A, B).shape
    (1000, 800)
    """
    return _combine_with_capacity("-", operator.sub, a, b, nse)


@overload
def multiply(a: SparseTensor, b: SparseTensor, *, nse: int | None = None) -> SparseTensor: ...
@overload
def multiply(a: TensorLike, b: TensorLike, *, nse: int | None = None) -> SparseTensor | jax.Array: ...
def multiply(a: TensorLike, b: TensorLike, *, nse: int | None = None) -> SparseTensor | jax.Array:
    """Compute `a * b`, by the rules of `add`, but on the intersection of the patterns.

        >>> jsparse.multiply(A, B, nse=A.nse).shape
        (1000, 800)

    The default capacity is the capacity of the smaller pattern. If one operand is an array or a number, the result has
    the pattern of the tensor.
    """
    return _combine_with_capacity("*", operator.mul, a, b, nse)


def _combine_with_capacity(
    symbol: str,
    combine: Callable[[SparseTensor, SparseTensor], SparseTensor | jax.Array],
    a: TensorLike,
    b: TensorLike,
    nse: int | None,
) -> SparseTensor | jax.Array:
    a, b = (as_sparse_operand(x, f"a {symbol} b") for x in (a, b))
    nse = parse_nse(nse, f"a {symbol} b")
    if nse is None:
        return combine(a, b)
    both = isinstance(a, SparseTensor) and isinstance(b, SparseTensor) and a.shape == b.shape and a.ndim
    if both and (a.is_dynamic or b.is_dynamic) and not on_one_pattern(a, b):  # the result has a new, dynamic pattern
        format = a.format if a.format == b.format else None
        result: Any = (
            broadcast_multiply(a, b, format, nse) if symbol == "*" else broadcast_add(symbol, a, b, format, nse)
        )
    else:
        result = combine(a, b)
        if not isinstance(result, SparseTensor):
            raise PatternError(
                f"Expected a sparse result of a {symbol} b for nse=, which is a capacity, but the result is dense. "
                "Leave out nse=."
            )
    return _with_capacity(result, a, nse)


def _with_capacity(result: SparseTensor, a: SparseTensor, nse: int) -> SparseTensor:
    if isinstance(result.pattern, Pattern):
        return result.asformat(result.format, nse=nse)  # checks the bound
    result = result.dynamic(nse)
    return with_index_of(result, a.pattern) if isinstance(a, SparseTensor) else result
