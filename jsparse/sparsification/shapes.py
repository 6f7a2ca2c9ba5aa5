"""Rules of primitives that move, add and join dimensions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from jsparse.base.arrays import Array
from jsparse.errors import NotYetSupportedError
from jsparse.ops.building.filled import zeros
from jsparse.ops.shaping.axes import expand_dims, squeeze
from jsparse.ops.shaping.joining import concatenate, pad, stack
from jsparse.ops.shaping.repeating import tile
from jsparse.ops.shaping.reshaping import reshape
from jsparse.ops.shaping.rolling import flip
from jsparse.sparsification.deferred import Deferred, iota, known_number, repeated
from jsparse.sparsification.equation import Equation
from jsparse.sparsification.rules import deferred_rule, sparse_rule
from jsparse.sparsification.sparse_value import SparseValue, Value, broadcast, check_background, plain, tensor_of, whole
from jsparse.tensor.sparse_tensor import SparseTensor

__all__ = ["moved"]


def moved(equation: Equation, x: SparseValue, function: Callable[[SparseTensor], SparseTensor | Array]) -> Value:
    """The value of a function of a tensor that moves elements. The background stays."""
    found = plain(function(whole(x).tensor))
    if isinstance(found, SparseValue):
        return replace(found, background=x.background)
    check_background(x, equation)
    return found


@deferred_rule("iota")
def coordinates(equation: Equation) -> Value:
    """Defer the coordinates of a dimension."""
    return iota(equation.shape, equation.dtype, equation.params["dimension"])


@deferred_rule("broadcast_in_dim")
def repeated_array(equation: Equation, x: Any) -> Value:
    """Defer the repetition of elements."""
    shape, dims = equation.shape, equation.params["broadcast_dimensions"]
    if isinstance(x, Deferred) and x.repeats is not None:
        array, own = x.repeats
        return repeated(array, shape, [dims[dim] for dim in own])
    return NotImplemented if isinstance(x, Deferred) or prod(shape) <= np.size(x) else repeated(x, shape, dims)


@sparse_rule("broadcast_in_dim")
def repeated_tensor(equation: Equation, x: SparseValue) -> Value:
    """Add dimensions of size 1 to a tensor, or repeat it without repeating its entries."""
    shape, dims = equation.shape, tuple(equation.params["broadcast_dimensions"])
    if x.is_repeated or prod(shape) != prod(x.shape):
        return broadcast(x, shape, dims)
    added = tuple(dim for dim in range(len(shape)) if dim not in dims)
    return moved(equation, x, lambda tensor: expand_dims(tensor, added) if added else tensor)


@deferred_rule("transpose")
def transposed_array(equation: Equation, x: Value) -> Value:
    """Defer the transposition of a deferred array."""
    return x.transposed(equation.params["permutation"]) if isinstance(x, Deferred) else NotImplemented


@sparse_rule("transpose")
def transposed(equation: Equation, x: SparseValue) -> Value:
    """Permute dimensions. Index arrays are shared."""
    return moved(equation, x, lambda tensor: tensor.transpose(equation.params["permutation"]))


@sparse_rule("reshape")
def reshaped(equation: Equation, x: SparseValue) -> Value:
    """Reshape in C order."""
    return moved(equation, x, lambda tensor: reshape(tensor, equation.shape))


@sparse_rule("squeeze")
def squeezed(equation: Equation, x: SparseValue) -> Value:
    """Remove dimensions of size 1."""
    return moved(equation, x, lambda tensor: squeeze(tensor, equation.params["dimensions"]))


@sparse_rule("rev")
def reversed_(equation: Equation, x: SparseValue) -> Value:
    """Reverse dimensions."""
    return moved(equation, x, lambda tensor: flip(tensor, equation.params["dimensions"]))


@sparse_rule("optimization_barrier")
def same(equation: Equation, *inputs: Value) -> list[Value]:
    """Return the operands."""
    return list(inputs)


@sparse_rule("tile")
def tiled(equation: Equation, x: SparseValue) -> Value:
    """Repeat the whole tensor."""
    return moved(equation, x, lambda tensor: tile(tensor, equation.params["reps"]))


@sparse_rule("concatenate", "stack")
def joined(equation: Equation, *inputs: Value) -> Value:
    """Join tensors, and arrays that are known to be 0, along a dimension."""
    tensors = [_joinable(equation, x) for x in inputs]
    if equation.name == "stack":
        return plain(stack(tensors, equation.params["axis"]))
    return plain(concatenate(tensors, equation.params["dimension"]))


@sparse_rule("pad")
def padded(equation: Equation, x: Any, fill: Value) -> Value:
    """Add elements that are 0 at both ends of dimensions."""
    config, number = equation.params["padding_config"], known_number(fill)
    is_zero = isinstance(x, SparseValue) and number is not None and number == 0
    if not is_zero or any(low < 0 or high < 0 or interior for low, high, interior in config):
        raise equation.unsupported("pads a SparseTensor by other elements than 0, or inside", "Pass A.todense() there.")
    return plain(pad(tensor_of(x, equation), [(low, high) for low, high, _ in config]))


def _joinable(equation: Equation, x: Value) -> SparseTensor:
    if isinstance(x, SparseValue):
        return tensor_of(x, equation)
    number = known_number(x) if isinstance(x, Deferred) else None
    if number is not None and number == 0:
        return zeros(x.shape, x.dtype)
    raise _mixed(equation)


def _mixed(equation: Equation) -> NotYetSupportedError:
    return equation.unsupported(
        "joins a SparseTensor with a dense array", "Convert the array by jsparse.asarray, or pass A.todense()."
    )
