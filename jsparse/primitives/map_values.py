"""`map`: an elementwise function of the values on one pattern.

    out[p] = f(x₁[p], …, xₙ[p])

The arguments are values, with an element for each slot, and scalars, with one element for all slots. Axes of size 1
broadcast, so a batch axis may be at any place. The tangent Σᵢ ∂f/∂xᵢ · dxᵢ is again a map, linear in each dxᵢ, and the
transpose of such a map is a map of the cotangent.

On a dynamic pattern the results are 0 in padding, and NaN everywhere after an overflow. Padding of the arguments is 0,
where a function such as x ** -1, or the derivative of a function such as x ** 0.5, is infinite. An infinite value would
reach the whole gradient, because 0 * inf is NaN. So before the function is applied, padding is set to a number at which
functions and their derivatives are finite.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse import _compat
from jsparse.errors import LeafError
from jsparse.primitives.elementwise_function import ElementwiseFunction
from jsparse.primitives.padding import Padding, in_use, mask_invalid

NEUTRAL = 0.5  # an inner point of the domains of powers, logarithms and inverse trigonometric functions


def _split(operands: Sequence[Any], padding: Padding | None) -> tuple[Sequence[Any], Sequence[Any]]:
    """Split operands into the arguments and, with `padding`, the pointers that count the slots in use."""
    count = len(operands) - (padding is not None)
    return operands[:count], operands[count:]


def _shape(arguments: Sequence[Any], function: ElementwiseFunction) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(*(x.shape for x in arguments))
    except ValueError:
        shapes = [x.shape for x in arguments]
        raise LeafError(f"Expected arguments of {function.name} on one pattern, but got shapes {shapes}.") from None


def _abstract(*operands: Any, function: ElementwiseFunction, padding: Padding | None) -> Any:
    shape = _shape(_split(operands, padding)[0], function)
    return _compat.output_aval(shape, function.dtype, operands)


def compute_map(*operands: Any, function: ElementwiseFunction, padding: Padding | None) -> Any:
    """Compute the map with JAX operations."""
    arguments, pointers = _split(operands, padding)
    if padding is not None:
        arguments = [in_use(x, pointers[0], padding, neutral(x.dtype)) for x in arguments]
    shape = _shape(arguments, function)
    out = _over_axes(function, arguments, shape) if 0 not in shape else jnp.zeros(shape, function.dtype)
    return out if padding is None else mask_invalid(out, pointers[0], padding)


def _directly(*operands: Any, function: ElementwiseFunction, padding: Padding | None) -> Any:
    return None if function.is_compiled else compute_map(*operands, function=function, padding=padding)


def _over_axes(function: Callable[..., Any], arguments: Sequence[Any], shape: tuple[int, ...]) -> Any:
    """Map a function of scalars over arguments that broadcast to `shape`, axis by axis."""
    if not shape:
        return function(*arguments)
    axes = [0 if x.shape[0] == shape[0] else None for x in arguments]
    inner_arguments = [x if axis == 0 else x.reshape(x.shape[1:]) for x, axis in zip(arguments, axes, strict=True)]
    return jax.vmap(lambda *inner: _over_axes(function, inner, shape[1:]), axes)(*inner_arguments)


def neutral(dtype: np.dtype) -> complex:
    """The value that padding gets before a function is applied: a Python number, which promotes no dtype."""
    return NEUTRAL if jnp.issubdtype(dtype, jnp.inexact) else 1


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, function: ElementwiseFunction, padding: Any) -> Any:
    out = map_p.bind(*primals, function=function, padding=padding)
    (arguments, pointers), (changes, _) = _split(primals, padding), _split(tangents, padding)
    active = tuple(type(change) is not _compat.Zero for change in changes)
    if not any(active) or not jnp.issubdtype(function.dtype, jnp.inexact):
        return out, _compat.add_tangents((), out)
    operands = (*arguments, *(change for change, is_active in zip(changes, active, strict=True) if is_active))
    bound = _compat.same_varying((*operands, *pointers))
    return out, map_p.bind(*bound, function=function.tangent(active), padding=padding)


def _transpose(cotangent: Any, *operands: Any, function: ElementwiseFunction, padding: Padding | None) -> list[Any]:
    arguments, pointers = _split(operands, padding)
    out: list[Any] = [None] * len(operands)
    for n, x in enumerate(arguments):
        if not _compat.is_undefined(x):
            continue
        if type(cotangent) is _compat.Zero:
            out[n] = _compat.Zero(x.aval)
            continue
        # The function is linear in this argument if all other unknown arguments are 0.
        others = tuple(m for m, y in enumerate(arguments) if m != n and _compat.is_undefined(y))
        partial = (function.without(others) if others else function).transpose_in(n - sum(m < n for m in others))
        known = [y for m, y in enumerate(arguments) if m != n and not _compat.is_undefined(y)]
        bound = _compat.same_varying((*known, cotangent, *pointers))
        slope = map_p.bind(*bound, function=partial, padding=padding)
        # An argument with an axis of size 1 was repeated along that axis.
        repeated = tuple(m for m, size in enumerate(slope.shape) if size != x.aval.shape[m])
        out[n] = jnp.sum(slope, repeated, keepdims=True, dtype=slope.dtype) if repeated else slope
    return out


def _batch(operands: Sequence[Any], axes: Sequence[Any], *, function: ElementwiseFunction, padding: Any) -> Any:
    """Keep the batch axis where the largest argument has it. On a dynamic pattern, the batch axis comes first."""
    batched = [(x.size, axis) for x, axis in zip(operands, axes, strict=True) if axis is not None]
    target = 0 if padding is not None else max(batched)[1]

    def move_axis(x: Any, axis: int | None) -> Any:
        return jnp.expand_dims(x, target) if axis is None else jnp.moveaxis(x, axis, target)

    moved = [move_axis(x, axis) for x, axis in zip(operands, axes, strict=True)]
    if padding is not None and all(axis is None for axis in axes[:-1]):  # the same values on each pattern of a batch
        first = moved[0]
        moved[0] = jnp.broadcast_to(first, (moved[-1].shape[0], *first.shape[1:]))
    return map_p.bind(*_compat.same_varying(moved), function=function, padding=padding), target


_compat.cache_weakly(ElementwiseFunction)
map_p = _compat.make_primitive("jsparse_map", _abstract)
_compat.run_directly(map_p, _directly)
_compat.register_jvp(map_p, _jvp)
_compat.register_transpose(map_p, _transpose)
_compat.register_batching(map_p, _batch)
