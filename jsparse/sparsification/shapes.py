"""Rules for primitives that move, add and join dimensions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.base.arrays import Array
from jsparse.ops.building.filled import zeros
from jsparse.ops.shaping.axes import expand_dims, squeeze
from jsparse.ops.shaping.joining import concatenate, pad, stack
from jsparse.ops.shaping.repeating import tile
from jsparse.ops.shaping.reshaping import reshape
from jsparse.ops.shaping.rolling import flip
from jsparse.sparsification.deferred import FOLDED, Deferred, defer_repetition, iota, uniform_number
from jsparse.sparsification.equation import Equation
from jsparse.sparsification.rules import deferred_rule, sparse_rule
from jsparse.sparsification.sparse_value import (
    Background,
    Cause,
    SparseValue,
    Value,
    background_array,
    broadcast,
    check_background,
    plain,
    whole,
)
from jsparse.tensor.sparse_tensor import SparseTensor


def move_elements(
    equation: Equation,
    x: SparseValue,
    function: Callable[[SparseTensor], SparseTensor | Array],
    of_background: Callable[[jax.Array], jax.Array] | None = None,
) -> Value:
    """Apply a function that moves the elements of a tensor.

    `of_background` moves the elements of an array with the tensor's dimensions in the same way. The array has size 1
    in dimensions along which it is repeated. Without `of_background`, a background that is not a number becomes
    unknown.
    """
    moved = plain(function(whole(x).tensor))
    if not isinstance(moved, SparseValue):
        check_background(x, equation)
        return moved
    if of_background is None:
        background = Background(x.background.value, x.background.cause)
    else:
        background = x.background.through(of_background)
    return replace(moved, background=background)


@deferred_rule("iota")
def coordinates(equation: Equation) -> Value:
    """Defer an array of the coordinates in one dimension."""
    return iota(equation.shape, equation.dtype, equation.params["dimension"])


@deferred_rule("broadcast_in_dim")
def broadcast_array(equation: Equation, x: Any) -> Value:
    """Defer the repetition of elements."""
    shape, dims = equation.shape, equation.params["broadcast_dimensions"]
    if isinstance(x, Deferred) and x.repeats is not None:
        array, repeated_dims = x.repeats
        return defer_repetition(array, shape, [dims[dim] for dim in repeated_dims])
    return NotImplemented if isinstance(x, Deferred) or prod(shape) <= np.size(x) else defer_repetition(x, shape, dims)


@sparse_rule("broadcast_in_dim")
def broadcast_tensor(equation: Equation, x: SparseValue) -> Value:
    """Add dimensions of size 1 to a tensor, or repeat the tensor without storing repeated entries."""
    shape, dims = equation.shape, tuple(equation.params["broadcast_dimensions"])
    if x.is_repeated or prod(shape) != prod(x.shape):
        return broadcast(x, shape, dims)
    added = tuple(dim for dim in range(len(shape)) if dim not in dims)
    return move_elements(
        equation, x, lambda tensor: expand_dims(tensor, added) if added else tensor, lambda b: jnp.expand_dims(b, added)
    )


@deferred_rule("transpose")
def transpose_array(equation: Equation, x: Value) -> Value:
    """Defer the transposition of a deferred array."""
    return x.transpose(equation.params["permutation"]) if isinstance(x, Deferred) else NotImplemented


@sparse_rule("transpose")
def transpose_tensor(equation: Equation, x: SparseValue) -> Value:
    """Permute dimensions. Index arrays are shared."""
    axes = equation.params["permutation"]
    return move_elements(equation, x, lambda tensor: tensor.transpose(axes), lambda b: b.transpose(axes))


@deferred_rule("reshape", "squeeze")
def reshape_array(equation: Equation, x: Value) -> Value:
    """Reshape a deferred array that repeats a smaller array, by a reshape of the smaller array where that suffices."""
    if not isinstance(x, Deferred) or x.repeats is None:
        return NotImplemented
    array, dims = x.repeats
    sizes = dict(zip(dims, array.shape, strict=True))
    small = regroup_shape([sizes.get(dim, 1) for dim in range(x.ndim)], x.shape, equation.shape)
    return (
        NotImplemented if small is None else defer_repetition(array.reshape(small), equation.shape, range(len(small)))
    )


@sparse_rule("reshape")
def reshape_tensor(equation: Equation, x: SparseValue) -> Value:
    """Reshape in C order."""
    arrays = [x.background.array] if x.background.array is not None else sum(x.background.products, ())
    spread = {b.shape: regroup_shape(b.shape, x.shape, equation.shape) for b in arrays}
    is_known = None not in spread.values()

    def of_background(b: jax.Array) -> jax.Array:
        return b.reshape(spread[b.shape] or ())

    return move_elements(
        equation, x, lambda tensor: reshape(tensor, equation.shape), of_background if is_known else None
    )


def regroup_shape(small: Sequence[int], shape: Sequence[int], wanted: Sequence[int]) -> tuple[int, ...] | None:
    """Find the new shape of a small array, which broadcasts to an array that is reshaped from `shape` to `wanted`.

    The small array has the shape `small`, with size 1 in dimensions along which it is repeated. `shape` and `wanted`
    are cut into groups of dimensions with equally many elements. In each group the small array has to vary along all
    dimensions, or along none. Returns None if it does not.
    """
    sizes: list[int] = []
    old = new = 0
    while old < len(shape) or new < len(wanted):
        first, start, size, target = old, new, 1, 1
        while size != target or old == first or new == start:
            if (size <= target and old < len(shape)) or new == len(wanted):
                if old == len(shape):
                    break
                size, old = size * shape[old], old + 1
            else:
                target, new = target * wanted[new], new + 1
        group = prod(small[first:old])
        if size != target or group not in (1, size):
            return None
        sizes += [1] * (new - start) if group == 1 else wanted[start:new]
    return tuple(sizes)


@sparse_rule("squeeze")
def squeeze_tensor(equation: Equation, x: SparseValue) -> Value:
    """Remove dimensions of size 1."""
    dims = equation.params["dimensions"]
    return move_elements(equation, x, lambda tensor: squeeze(tensor, dims), lambda b: jnp.squeeze(b, dims))


@sparse_rule("rev")
def reverse_tensor(equation: Equation, x: SparseValue) -> Value:
    """Reverse dimensions."""
    dims = equation.params["dimensions"]
    return move_elements(equation, x, lambda tensor: flip(tensor, dims), lambda b: jnp.flip(b, dims))


@sparse_rule("optimization_barrier")
def same(equation: Equation, *inputs: Value) -> list[Value]:
    """Return the operands."""
    return list(inputs)


@sparse_rule("tile")
def tile_tensor(equation: Equation, x: SparseValue) -> Value:
    """Repeat the tensor along each dimension."""
    reps = equation.params["reps"]

    def tile_background(b: jax.Array) -> jax.Array:
        return jnp.tile(b, [1 if size == 1 else times for size, times in zip(b.shape, reps, strict=True)])

    return move_elements(equation, x, lambda tensor: tile(tensor, reps), tile_background)


@sparse_rule("concatenate", "stack")
def join_tensors(equation: Equation, *inputs: Value) -> Value:
    """Join tensors along a dimension, and also arrays whose elements all equal one known number."""
    parts = [_joinable(equation, x) for x in inputs]
    if equation.name == "stack":
        axis, join = equation.params["axis"], stack
        sizes, added = [1] * len(parts), partial(jnp.expand_dims, axis=axis)
        backgrounds = [x.background.through(added) for x in parts]
    else:
        axis, join = equation.params["dimension"], concatenate
        sizes, backgrounds = [x.shape[axis] for x in parts], [x.background for x in parts]

    def join_at_axis(tensors: Sequence[SparseTensor]) -> SparseTensor:
        return join(tensors, axis)

    joined = join_at_axis([x.tensor for x in parts])
    return _fill_new_slots(joined, _join_backgrounds(backgrounds, axis, sizes, joined), parts, join_at_axis)


def _fill_new_slots(
    tensor: SparseTensor,
    background: Background,
    parts: Sequence[SparseValue],
    join: Callable[[Sequence[SparseTensor]], SparseTensor],
) -> SparseValue:
    """Return the value of a joined tensor. Slots that no part stores get the elements of the background."""
    value = SparseValue(tensor, tuple(tensor.shape), tuple(range(tensor.ndim)), background)
    if background.is_zero or tensor.nse <= sum(x.tensor.nse for x in parts):
        return value
    is_stored = join([x.tensor.with_values(jnp.ones(x.tensor.nse, jnp.int8)) for x in parts]).values != 0
    return value.with_tensor(
        tensor.with_values(jnp.where(is_stored, tensor.values, background_array(value).at(tensor))), background
    )


def _join_backgrounds(
    backgrounds: Sequence[Background], axis: int, sizes: Sequence[int], joined: SparseTensor
) -> Background:
    """Join backgrounds of tensors along an axis: a number if all are equal, else an array, or unknown if too large."""
    first = backgrounds[0]
    if all(x.value is not None and x.value == first.value for x in backgrounds):
        return first
    cause = next(x.cause for x in backgrounds if not x.is_zero)
    if any(x.is_unknown for x in backgrounds) or sum(sizes) > max(joined.nse, FOLDED):
        return Background(None, cause)
    arrays = [x.as_array(joined.ndim, joined.dtype) for x in backgrounds]
    common = np.broadcast_shapes(*((*x.shape[:axis], 1, *x.shape[axis + 1 :]) for x in arrays))
    if prod(common) > 1 and prod(common) * sum(sizes) > joined.nse:
        return Background(None, cause)
    widened = [
        jnp.broadcast_to(x, (*common[:axis], size, *common[axis + 1 :])) for x, size in zip(arrays, sizes, strict=True)
    ]
    return Background(None, cause, jnp.concatenate(widened, axis))


@sparse_rule("pad")
def pad_tensor(equation: Equation, x: Any, fill: Value) -> Value:
    """Add elements at both ends of dimensions. The added elements have to equal the background, such as 0."""
    config, number = equation.params["padding_config"], uniform_number(fill)
    is_equal = isinstance(x, SparseValue) and number is not None and x.background.value == number
    if not is_equal or any(low < 0 or high < 0 or interior for low, high, interior in config):
        raise equation.not_supported(
            "pads a SparseTensor with elements other than 0, or between its elements", "Pass A.todense() there."
        )

    def pad_one(tensors: Sequence[SparseTensor]) -> SparseTensor:
        return pad(tensors[0], [(low, high) for low, high, _ in config])

    stored = whole(x)
    return _fill_new_slots(pad_one([stored.tensor]), x.background, [stored], pad_one)


def _joinable(equation: Equation, x: Value) -> SparseValue:
    if isinstance(x, SparseValue):
        return whole(x)
    number = uniform_number(x) if isinstance(x, Deferred) else None
    if number is None:
        raise equation.not_supported(
            "joins a SparseTensor with a dense array", "Convert the array with jsparse.asarray, or pass A.todense()."
        )
    nothing = zeros(x.shape, x.dtype)
    return SparseValue(nothing, x.shape, tuple(range(nothing.ndim)), Background(number, Cause(str(equation))))
