"""Elementwise functions of the stored values of tensors on one pattern: the operation `map` of jaxprs."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse._compat import mesh_of_chains, same_varying
from jsparse.base.arrays import check_numbers, jax_array
from jsparse.errors import ShapeError
from jsparse.formats import Pattern
from jsparse.primitives.elementwise_function import ElementwiseFunction, trace_elementwise
from jsparse.primitives.host import first, is_on_host, is_rare, pad_values
from jsparse.primitives.map_values import map_p, neutral
from jsparse.tensor.dynamic_pattern import DynamicPattern


def map_slots(function: Callable[..., Any], pattern: Pattern | DynamicPattern, *arrays: Any) -> jax.Array:
    """Compute `function(*arrays)` elementwise: values of shape (nse,), 0 in padding, NaN if the pattern overflowed.

    Args:
        function: an elementwise function, which is traced with one scalar for each array. It may close over scalars.
        arrays: values on the pattern, each of shape (nse,), or scalars of shape (). Padding contributes nothing to
            their derivatives.

    Raises ShapeError if the function is not elementwise or an array has another shape.
    """
    arrays = _check_arrays(arrays, pattern)
    if _runs_directly(pattern, arrays) and _is_elementwise(function, arrays):
        values = _compute_known(function, pattern, arrays)
        check_numbers(values.dtype, "an elementwise function to return numbers")
        return values
    traced, constants = trace_elementwise(function, [_scalar(x) for x in arrays])
    return _bind_map(traced, pattern, (*arrays, *(jnp.asarray(x) for x in constants)))


def jit_map(function: Callable[..., Any], pattern: Pattern | DynamicPattern, *arrays: Any, **options: Hashable) -> Any:
    """Compute `map_slots(function, …)` as one compiled program, outside jit too.

    The call is `function(*arrays, **options)`. The function has to be defined at the level of a module, without a
    closure, because it is the key of cached traces and programs.
    """
    arrays = _check_arrays(arrays, pattern)
    types = tuple(map(type, options.values()))  # 1, 1.0 and True are equal, but promote to different dtypes
    if _runs_directly(pattern, arrays):
        return _compute_known(_compiled(function, tuple(options.items()), types), pattern, arrays)
    dtypes = tuple((np.dtype(x.dtype), bool(getattr(x, "weak_type", False))) for x in arrays)
    # Settings that change what a trace holds are part of its key.
    settings = (jax.config.read("jax_enable_x64"), jax.config.values["jax_numpy_dtype_promotion"], mesh_of_chains())
    return _bind_map(_trace_cached(function, tuple(options.items()), (types, dtypes), settings), pattern, arrays)


@lru_cache(maxsize=1024)
def _compiled(
    function: Callable[..., Any], options: tuple[tuple[str, Hashable], ...], types: tuple[type, ...]
) -> Callable[..., jax.Array]:
    """The function as a program: a call takes less time than a call of most functions of jax.numpy."""
    return jax.jit(partial(function, **dict(options)), inline=True)


@lru_cache(maxsize=1024)
def _trace_cached(function: Callable[..., Any], options: Any, types: Any, settings: object) -> ElementwiseFunction:
    avals = [jax.ShapeDtypeStruct((), dtype, weak_type=weak) for dtype, weak in types[1]]
    if not options:
        return trace_elementwise(function, avals, is_compiled=True)[0]
    with_options: Any = partial(function, **dict(options))
    with_options.__name__ = getattr(dict(options).get("f"), "__name__", getattr(function, "__name__", "function"))
    return trace_elementwise(with_options, avals, is_compiled=True)[0]


def _runs_directly(pattern: Pattern | DynamicPattern, arrays: Sequence[jax.Array]) -> bool:
    """Whether functions of jax.numpy can be called on the arrays directly.

    No array may be traced. If the pattern is dynamic, its pointers and the arrays have to be on the host, and its
    capacity has to be so rare that no program should be compiled for it.
    """
    if not isinstance(pattern, DynamicPattern):
        return not any(isinstance(x, jax.core.Tracer) for x in arrays)
    if pattern.padding is None or np.ndim(pattern.last_pointers) != 1 or any(x.weak_type for x in arrays if x.ndim):
        return False
    known = is_on_host(pattern.last_pointers, *(x for x in arrays if x.ndim))
    return known and not any(isinstance(x, jax.core.Tracer) for x in arrays) and _is_rare_length(pattern.nse)


def _compute_known(
    function: Callable[..., Any], pattern: Pattern | DynamicPattern, arrays: Sequence[jax.Array]
) -> jax.Array:
    """Compute an elementwise function of known arrays, whose length may differ from call to call."""
    length = pattern.nse
    if isinstance(pattern, DynamicPattern):
        in_use = [pattern.in_use(x, neutral(x.dtype)) if x.ndim else x for x in arrays]
        return pattern.mask_invalid(_full(_at_round_length(function, length, in_use), pattern))
    known = is_on_host(*(x for x in arrays if x.ndim))  # scalars may have a weak dtype
    rare = known and _is_rare_length(length)
    return _full(_at_round_length(function, length, arrays) if rare else function(*arrays), pattern)


def _is_rare_length(length: int) -> bool:
    """Whether arrays of this length are so rare that no program should be compiled for the length."""
    return _round_length(length) != length and is_rare(length, 3e-5 + 2e-9 * length)


def _at_round_length(function: Callable[..., Any], length: int, arrays: Sequence[jax.Array]) -> jax.Array:
    """Pad arrays to one of a few lengths, and call an elementwise function on them. Each length has one program."""
    whole = _round_length(length)
    result = function(*(x if x.ndim == 0 else pad_values(x, whole, neutral(x.dtype)) for x in arrays))
    return first(result, length) if jnp.ndim(result) else result


def _round_length(length: int) -> int:
    """The length rounded up to four significant binary digits, at least 64."""
    step = 1 << max(length.bit_length() - 4, 3)
    return max(-(-length // step) * step, 64)


_elementwise: dict[int, weakref.ref[Any]] = {}  # id of a checked function or code → a reference to it


def _is_elementwise(function: Callable[..., Any], arrays: Sequence[jax.Array]) -> bool:
    """Return whether a function refers to no traced values. Raises ShapeError if it is not elementwise.

    Each function is checked once. A lambda is a new object in each call, so a function without closure and defaults is
    remembered by its code.
    """
    state = [getattr(function, name, None) for name in ("__closure__", "__defaults__", "__kwdefaults__")]
    key = getattr(function, "__code__", function) if not any(state) else function
    number = id(key)
    known = _elementwise.get(number)
    if known is not None and known() is key:
        return True
    _, constants = trace_elementwise(function, [_scalar(x) for x in arrays])
    with suppress(TypeError):  # not every callable can be referenced weakly
        _elementwise[number] = weakref.ref(key, lambda _: _elementwise.pop(number, None))
    return not any(isinstance(x, jax.core.Tracer) for x in constants)


def _full(values: jax.Array, pattern: Pattern | DynamicPattern) -> jax.Array:
    """Broadcast the result of a function to one element for each slot. It is a scalar if all arguments are scalars."""
    return values if jnp.shape(values) == (pattern.nse,) else jnp.broadcast_to(values, (pattern.nse,))


def _scalar(x: jax.Array) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct((), x.dtype, weak_type=bool(getattr(x, "weak_type", False)))


def _bind_map(function: ElementwiseFunction, pattern: Pattern | DynamicPattern, arrays: Any) -> jax.Array:
    """Bind the primitive. Scalars get an axis of size 1, which broadcasts along the slots."""
    padding, lead = pattern.padding, pattern.lead
    rank = 1 + len(lead)
    operands = [x.reshape((1,) * (rank - x.ndim) + x.shape) for x in arrays]
    if padding is not None and isinstance(pattern, DynamicPattern):
        operands.append(pattern.last_pointers)
    out = map_p.bind(*same_varying(operands), function=function, padding=padding)
    check_numbers(out.dtype, "an elementwise function to return numbers")
    shape = (*lead, pattern.nse)
    return out if out.shape == shape else jnp.broadcast_to(out, shape)


def _check_arrays(arrays: Any, pattern: Pattern | DynamicPattern) -> tuple[jax.Array, ...]:
    arrays = tuple(
        x if isinstance(x, jax.Array) else jax_array(x, "arguments of an elementwise function") for x in arrays
    )
    shape = (*pattern.lead, pattern.nse)
    for x in arrays:
        if x.shape not in ((), shape):
            raise ShapeError(
                f"Expected values of shape {shape}, one for each slot of {pattern!r}, or scalars, but got {x.shape}. "
                "Pass tensors on the same pattern."
            )
    return arrays
