"""`A.map(f)`: elementwise functions of the stored entries of tensors on one pattern."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from jsparse.base.arrays import jax_array
from jsparse.convert.composed import with_values
from jsparse.convert.creation import as_sparse_operand
from jsparse.errors import PatternError, ShapeError, shorten
from jsparse.formats import Pattern
from jsparse.ops.elementwise.broadcast import elements_at_slots
from jsparse.tensor.composed import ComposedTensor
from jsparse.tensor.dynamic_pattern import DynamicPattern, same_entries
from jsparse.tensor.entrywise import jit_map, map_slots
from jsparse.tensor.leaves import check_leaves
from jsparse.tensor.sparse_tensor import SparseTensor, TensorLike


def map_entries(self: SparseTensor, f: Callable[..., Any], *others: TensorLike) -> SparseTensor:
    """Apply an elementwise function to the stored entries: `f(values, *values_of_others)` on the pattern of A.

    The result stores the same entries as A, even if f(0) is not 0. The function is traced with scalars. It may
    close over scalars, and use any elementwise function of jax.numpy, jax.nn or jax.scipy.special.

        >>> A.map(jnp.exp)
        >>> A.map(lambda a, b: a * jax.nn.sigmoid(b), B.restrict(A))  # tensors on one pattern

        >>> A.map(lambda a, m: jnp.exp(a - m), A.max(1, keepdims=True))  # an array that broadcasts to the shape of A

    Args:
        f: a function that takes one number for each operand, and returns one number of any dtype.
        others: SparseTensors with the entries of A, numbers, and arrays that broadcast to the shape of A and are
            read at these entries. Pass an array with a number for each stored entry as `A.with_values(x)`.

    Derivatives, batches and dynamic patterns work. The padding of dynamic patterns contributes nothing.

    Raises ShapeError if the function is not elementwise or an array has another shape, PatternError if the tensors have
    different entries.
    """
    operands = [as_sparse_operand(x, "A.map", composed=True) for x in others]
    return on_pattern_of(self, map_slots(f, self.pattern, *value_operands("A.map", self, *operands)), *operands)


def map_values(function: Callable[..., Any], what: str, *operands: Any) -> SparseTensor:
    """Apply a function to values of tensors on one pattern, to numbers, and to array elements at the entries.

    The function is compiled: it has to be defined at the level of a module. Raises the errors of `value_operands`.
    """
    first, *others = (x for x in operands if isinstance(x, SparseTensor))
    return on_pattern_of(first, jit_map(function, first.pattern, *value_operands(what, *operands)), *others)


def value_operands(what: str, *operands: Any) -> list[Any]:
    """Return the values of tensors on one pattern, and elements of arrays at its entries; scalars are not changed.

    Raises PatternError for tensors with other entries, ShapeError for arrays that do not broadcast to the shape.
    """
    first = next(x for x in operands if isinstance(x, SparseTensor))
    check_leaves(first, f"A in {what}", tangents=True)
    values = []
    for x in operands:
        if not isinstance(x, SparseTensor):
            values.append(_at_entries(what, first, x) if np.ndim(x) else x)
            continue
        if x is not first:
            check_leaves(x, f"an operand of {what}", tangents=True)
            if not on_one_pattern(first, x):
                raise PatternError(
                    f"Expected the tensors of {what} to have the same stored entries, in one format, but got {first!r} "
                    f"and {x!r}. Write B.restrict(A) for values on the entries of A, or restrict both tensors to A + B."
                )
        values.append(x.values)
    return values


def _at_entries(what: str, tensor: SparseTensor, x: Any) -> jax.Array:
    """Broadcast an array to a tensor's shape. Return its elements at the tensor's slots; a scalar for one element."""
    array = jax_array(x, f"the arrays of {what} to hold numbers")
    if array.size == 1 and array.ndim <= tensor.ndim:
        return array.reshape(())
    sizes = zip(reversed(array.shape), reversed(tensor.shape), strict=False)
    if array.ndim > tensor.ndim or any(size not in (1, whole) for size, whole in sizes):
        raise ShapeError(
            f"Expected the arrays of {what} to broadcast to the shape {shorten(tensor.shape)} of the tensor, but got "
            f"{shorten(array.shape)}. To pass numbers for the stored entries, write A.with_values(x)."
        )
    return elements_at_slots(what, tensor, array)


def result_pattern(first: SparseTensor, *others: Any) -> Pattern | DynamicPattern:
    """Return the pattern of a result that has the entries of `first`.

    A dynamic pattern that is marked as a gradient's keeps this mark, unless an operand has an unmarked dynamic pattern.
    """
    return first.pattern.common(others)


def on_pattern_of(first: SparseTensor, values: jax.Array, *others: SparseTensor) -> SparseTensor:
    """Make a tensor that has these values on the pattern of `first`, which `others` may share. Padding becomes 0."""
    if isinstance(first, ComposedTensor):
        return with_values(first, values)
    return SparseTensor._wrap(values, result_pattern(first, *others))


def on_one_pattern(a: SparseTensor, b: SparseTensor) -> bool:
    """Whether two tensors certainly have the same slots."""
    if isinstance(a, ComposedTensor) or isinstance(b, ComposedTensor):
        return bool(a.pattern == b.pattern)
    return a.format == b.format and a.shape == b.shape and same_entries(a.pattern, b.pattern)
