"""Rules for elementwise primitives, which map the stored entries and the background."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.notation import background as rules
from jsparse.notation.ellipsis import letters_of
from jsparse.ops.einsum import einsum
from jsparse.ops.elementwise import operators
from jsparse.ops.elementwise.map import on_one_pattern
from jsparse.primitives.elementwise_function import ELEMENTWISE
from jsparse.sparsification.deferred import Deferred, defer_repetition, dense, uniform_number, values_at
from jsparse.sparsification.equation import Equation
from jsparse.sparsification.rules import deferred_rule, sparse_rule
from jsparse.sparsification.separable import Products, combine_products
from jsparse.sparsification.sparse_value import (
    ZERO,
    Background,
    Cause,
    SparseValue,
    Value,
    as_array,
    broadcast,
    elements_at_slots,
    plain,
    whole,
)
from jsparse.tensor.entrywise import map_slots
from jsparse.tensor.sparse_tensor import SparseTensor

__all__: list[str] = []

OF_SHAPES = {"broadcast_in_dim", "reshape", "squeeze", "optimization_barrier"}  # these move elements of arrays
NAMES = sorted((ELEMENTWISE - OF_SHAPES) | {"add_any"})


@deferred_rule(*NAMES)
def elementwise_of_arrays(equation: Equation, *inputs: Any) -> Any:
    """Compute the result of known numbers. Defer it if an operand is deferred, or all are smaller than the result."""
    numbers = [uniform_number(x) for x in inputs]
    if all(x is not None for x in numbers):
        number = evaluate_numbers(equation, numbers)
        return defer_repetition(number, equation.shape, ()) if equation.shape else number
    shape = equation.shape
    if not any(isinstance(x, Deferred) for x in inputs) and any(np.shape(x) == shape for x in inputs):
        return NotImplemented

    def sample(tensor: SparseTensor) -> jax.Array:
        return _map(equation, tensor, [values_at(x, shape, tensor) for x in inputs]).values

    products = _products(equation, inputs)
    return Deferred(
        shape, equation.dtype, lambda: equation.results([dense(x) for x in inputs])[0], sample, products=products
    )


@sparse_rule(*NAMES)
def elementwise(equation: Equation, *inputs: Any) -> SparseValue | jax.Array:
    """Map the stored entries of tensors, together with the elements of arrays at these entries."""
    shape = equation.shape
    dims = tuple(range(len(shape)))
    operands = [broadcast(x, shape, dims) if isinstance(x, SparseValue) and x.shape != shape else x for x in inputs]
    if not any(isinstance(x, SparseValue) for x in operands):
        return elementwise_of_arrays(equation, *operands)
    background = background_of(equation, operands)
    first = next(x for x in operands if isinstance(x, SparseValue))
    if all(_agrees(x, first) for x in operands):
        values = [x.tensor.values if isinstance(x, SparseValue) else _scalar(x) for x in operands]
        return first.with_tensor(_map(equation, first.tensor, values), background)
    if equation.name == "mul" and all(is_factor(x) for x in operands):
        return product_of(equation, operands)
    if equation.name == "div" and all(isinstance(x, SparseValue) and x.background.is_zero for x in operands):
        return product_of(equation, [operands[0], operands[1].with_tensor(1 / operands[1].tensor, ZERO)])
    if equation.name in SUMS and all(is_addend(x, shape) for x in operands):
        return sum_of(equation, operands)
    if background.is_unknown and any(_is_whole(x, shape) for x in operands):
        return equation.results([as_array(x) if isinstance(x, SparseValue) else dense(x) for x in operands])[0]
    operands = [whole(x) if isinstance(x, SparseValue) else x for x in operands]
    target = _target(equation, operands, background)
    values = [
        elements_at_slots(x, target) if isinstance(x, SparseValue) else values_at(x, shape, target) for x in operands
    ]
    return SparseValue(_map(equation, target, values), shape, dims, background)


def _agrees(x: Value, first: SparseValue) -> bool:
    """Whether an operand has the same pattern as the first tensor, or is a single number."""
    if isinstance(x, SparseValue):
        return x is first or (x.dims == first.dims and on_one_pattern(x.tensor, first.tensor))
    return not np.ndim(_scalar(x))


def _is_whole(x: Any, shape: tuple[int, ...]) -> bool:
    """Whether an operand is an array with the shape of the result, and neither sparse nor deferred."""
    return not isinstance(x, SparseValue | Deferred) and np.shape(x) == shape


def _scalar(x: Value) -> Any:
    """Return the smaller array that a deferred array repeats, such as a scalar; any other value unchanged."""
    return x.repeats[0] if isinstance(x, Deferred) and x.repeats else x


def _map(equation: Equation, tensor: SparseTensor, values: Sequence[Value]) -> SparseTensor:
    function = apply(equation)

    def of_entries(*arrays: jax.Array) -> jax.Array:
        shape = np.broadcast_shapes(*(x.shape for x in arrays))
        return function(*(x if x.shape == shape else jnp.broadcast_to(x, shape) for x in arrays))

    of_entries.__name__ = equation.name
    return SparseTensor._wrap(map_slots(of_entries, tensor.pattern, *values), tensor.pattern)


def _target(equation: Equation, operands: Sequence[Value], background: Background) -> SparseTensor:
    """Return a tensor with the pattern of the result."""
    if equation.name == "select_n" and isinstance(operands[0], SparseValue):
        which = operands[0].background.value  # where the condition stores nothing, the other cases play no part
        operands = operands if which is None else [operands[0], operands[1 + int(which)]]
    tensors = [x for x in operands if isinstance(x, SparseValue)]
    first = tensors[0].tensor
    if all(on_one_pattern(first, x.tensor) for x in tensors[1:]):
        return first
    if equation.name in ("mul", "and") and background.is_zero:  # where one of them is 0 everywhere else
        return next(x.tensor for x in tensors if x.background.is_zero)
    union: Any = _ones(first)
    for x in tensors[1:]:
        if not on_one_pattern(union, x.tensor):
            union = union + _ones(x.tensor)
    return union


def _ones(tensor: SparseTensor) -> SparseTensor:
    return tensor.with_values(jnp.ones(tensor.nse, jnp.float32))


def background_of(equation: Equation, operands: Sequence[Value]) -> Background:
    """Find the background of the result of an elementwise equation."""
    numbers = [x.background.value if isinstance(x, SparseValue) else uniform_number(x) for x in operands]
    value = _value(equation, numbers)
    if value is not None and value == 0:
        return Background(value)
    causes = [x.background.cause for x in operands if isinstance(x, SparseValue) and not x.background.is_zero]
    array = _array(equation, operands) if value is None else None
    products = _products(equation, operands) if value is None and array is None else ()
    return Background(value, causes[0] if causes else Cause(str(equation)), array, products)


def _products(equation: Equation, operands: Sequence[Value]) -> Products:
    """Express the result's background as a sum of products, if all operands' backgrounds are sums of products."""
    factors: list[Products] = []
    for x, aval in zip(operands, equation.in_avals, strict=True):
        known = x.background.products if isinstance(x, SparseValue) else getattr(x, "products", ())
        part = None if known else _part(x, equation.shape, aval.dtype)
        if part is None and not known:
            return ()
        factors.append(known if part is None else ((part,),))
    return combine_products(equation.name, factors, equation.dtype)


def _array(equation: Equation, operands: Sequence[Value]) -> jax.Array | None:
    """Compute the result's background as an array that broadcasts; None if unknown or larger than every operand."""
    parts = []
    for x, aval in zip(operands, equation.in_avals, strict=True):
        part = _part(x, equation.shape, aval.dtype)
        if part is None:
            return None
        parts.append(part)
    shape = np.broadcast_shapes(*(part.shape for part in parts))
    entries = (x.tensor.nse for x in operands if isinstance(x, SparseValue))
    if prod(shape) > max(*(part.size for part in parts), *entries):
        return None
    return apply(equation)(*(jnp.broadcast_to(part, shape) for part in parts))


def _part(x: Value, shape: tuple[int, ...], dtype: np.dtype) -> jax.Array | None:
    """Return an operand's background as an array that broadcasts; None if it is unknown or a full array."""
    if isinstance(x, SparseValue):
        return None if x.background.is_unknown else x.background.as_array(len(shape), dtype)
    if isinstance(x, Deferred) and x.repeats is not None:
        array, dims = x.repeats
        sizes = dict(zip(dims, array.shape, strict=True))
        return jnp.asarray(array, dtype).reshape([sizes.get(dim, 1) for dim in range(len(shape))])
    if shape and x.shape == shape:
        return None
    array = jnp.asarray(dense(x), dtype)
    return array.reshape((1,) * (len(shape) - array.ndim) + array.shape)


def evaluate_numbers(equation: Equation, numbers: Sequence[Any]) -> Any:
    """Compute the result of an elementwise equation for known numbers."""
    with jax.ensure_compile_time_eval():
        avals = equation.in_avals
        result = apply(equation)(*(jnp.asarray(x, aval.dtype) for x, aval in zip(numbers, avals, strict=True)))
        return np.asarray(result)[()]


def apply(equation: Equation) -> Any:
    """Return the function of arrays that an elementwise equation applies."""
    return jax.lax.add if equation.name == "add_any" else equation.bind


def _value(equation: Equation, numbers: Sequence[Any]) -> Any:
    """Find the number that the background has everywhere; None if there is no known number."""
    backgrounds, name = [rules.UNKNOWN if x is None else rules.ABSENT if x == 0 else x for x in numbers], equation.name
    if name == "select_n":
        which, *cases = backgrounds
        if which is not rules.UNKNOWN:
            return numbers[1 + int(numbers[0])]
        name, backgrounds = "where", [which, *cases[::-1]] if len(cases) == 2 else [which, cases[0], rules.UNKNOWN]
    value = rules.background(name, backgrounds, lambda known: evaluate_numbers(equation, known).item())
    return None if value is rules.UNKNOWN else np.zeros((), equation.dtype).item() if rules.is_zero(value) else value


SUMS = {"add": operators.add, "add_any": operators.add, "sub": operators.subtract}


def is_factor(x: Value) -> bool:
    """Whether an operand is a tensor of background 0, an array of rank >= 1, or a deferred array that repeats one."""
    if isinstance(x, SparseValue):
        return x.background.is_zero
    return bool(np.ndim(x)) if not isinstance(x, Deferred) else x.repeats is not None and x.repeats[0].ndim > 0


def product_of(equation: Equation, factors: Sequence[Value]) -> SparseValue:
    """Multiply on the entries that all sparse factors store. Repeat the product along dimensions that no factor has."""
    shape, terms = equation.shape, []
    for x in factors:
        if isinstance(x, SparseValue):
            terms.append((x.tensor, x.dims))
        else:
            leaf = x if isinstance(x, Deferred) else defer_repetition(x, shape, range(len(shape) - x.ndim, len(shape)))
            assert leaf.repeats is not None
            terms.append(leaf.repeats)
    dims = tuple(sorted({dim for _, dims_of_factor in terms for dim in dims_of_factor}))
    letters = letters_of(len(shape))
    inputs = ",".join("".join(letters[dim] for dim in dims_of_factor) for _, dims_of_factor in terms)
    product: Any = einsum(f"{inputs}->{''.join(letters[dim] for dim in dims)}", *(x for x, _ in terms))
    return SparseValue(product.astype(equation.dtype) if product.dtype != equation.dtype else product, shape, dims)


def is_addend(x: object, shape: tuple[int, ...]) -> bool:
    """Whether an operand of a sum is a tensor of background 0, or an array with the shape of the result."""
    return x.background.is_zero if isinstance(x, SparseValue) else _is_whole(x, shape)


def sum_of(equation: Equation, addends: Sequence[Value]) -> Any:
    """Compute a sum or difference: an array if one operand is an array, else a tensor."""
    lhs, rhs = (whole(x).tensor if isinstance(x, SparseValue) else x for x in addends)
    return plain(SUMS[equation.name](lhs, rhs))
