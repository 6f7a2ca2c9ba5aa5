"""`routine`: calls of the extension's routines, which make and check the index arrays of dynamic patterns.

Their results are integers that depend on integers, or on which elements are zero. So routines have no derivative. One
other routine, `swap`, transposes an array. Only lowerings call it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, cast

import jax
import jax.numpy as jnp
import numpy as np

from jsparse import _compat
from jsparse.base import _native
from jsparse.base.dataclass import dataclass
from jsparse.compiler.runtime.assembly_call import AssemblyCall
from jsparse.compiler.runtime.kernel_call import KernelCall
from jsparse.compiler.runtime.routine import Routine, parameters, swap_parameters
from jsparse.compiler.signature import element_code, encode_buffers
from jsparse.errors import DTypeError, LinearityError, PatternError
from jsparse.formats import Format, Pattern, PatternType, default_format
from jsparse.formats.dynamic import slots_dtype
from jsparse.primitives.batch import map_leading_axes, move_batch_in_front
from jsparse.primitives.free_transposes import after_transposes, build_transpose
from jsparse.primitives.host import Result, is_on_host, misfit, run_routine
from jsparse.primitives.kernel import custom_call, run_call
from jsparse.settings import config

AnyRoutine: TypeAlias = Routine | AssemblyCall
"""A routine of the extension, or the call that assembles a pattern."""

DENSE, VECTOR = Format.dense(2), default_format(1)


@dataclass(frozen=True)
class Assembled:
    """The result of `assemble`: index arrays, and the relation between inputs and slots.

    Attributes:
        arrays: the index arrays.
        order: (inputs,) the indices of the inputs, sorted by slot.
        starts: (nse + 1,) the offset in `order` at which the inputs of each slot begin.
        slots: (inputs,) the slot of each input, -1 if it has none.
    """

    arrays: tuple[Any, ...]
    order: Any
    starts: Any
    slots: Any


def assemble(coords: Any, type_: PatternType) -> Assembled:
    """Assemble the pattern of the entries at `coords`, an integer array (ndim, n). The entries may be in any order.

    Duplicates share a slot. Entries out of range or beyond the capacity have no slot.
    """
    inputs = coords.shape[-1]
    slot_dtype = slots_dtype(type_, inputs)
    params = parameters(type_, inputs=inputs, coordinates=np.dtype(coords.dtype))
    results = (*array_results(type_), ((inputs,), slot_dtype), ((type_.nse + 1,), slot_dtype), ((inputs,), slot_dtype))
    *arrays, order, starts, slots = _bind("assemble", params, (coords,), results)
    return Assembled(tuple(arrays), order, starts, slots)


def check_index_arrays(arrays: Sequence[Any], type_: PatternType) -> tuple[Any, ...]:
    """Return the index arrays of a pattern, or of a batch of patterns, after a check if `config.bounds` is "check".

    Args:
        arrays: the index arrays; leading axes are batch axes.

    The program fails at run time if the check finds that the index arrays are not valid.
    """
    # A pattern without pointers needs no check: kernels skip any coordinate out of range.
    if config.bounds != "check" or all(not level.kind.has_pointers for level in type_.format.levels):
        return tuple(arrays)

    def check(*arrays: Any) -> tuple[Any, ...]:
        return tuple(_bind("check", parameters(type_), arrays, (((), np.dtype(np.int32)), *array_results(type_)))[1:])

    return cast("tuple[Any, ...]", map_leading_axes(check, arrays[0].ndim - 1)(*arrays))


def expand(arrays: Sequence[Any], type_: PatternType) -> Any:
    """Return the coordinates (ndim, nse) of every slot in storage order. In padding, they equal the dimension sizes."""
    arrays = check_index_arrays(arrays, type_)
    results = (((len(type_.shape), type_.nse), type_.index_dtype),)
    return _bind("expand", parameters(type_), tuple(arrays), results)[0]


def fitting(arrays: tuple[Any, ...], pointers: Any, type_: PatternType) -> tuple[Any, ...]:
    """Return arrays of integers or booleans that belong to a pattern, unless the pattern has overflowed.

    After an overflow, a program for CPU that uses one of the arrays fails under `config.overflow = "raise"`.

    Args:
        arrays: the arrays, whose leading axes are the batch axes of the pattern.
        pointers: the pattern's last pointers.

    Raises PatternError if the pattern is known and has overflowed.
    """
    if config.overflow == "cut" or type_.limit is None:
        return arrays
    last, capacity = type_.limit
    if not isinstance(pointers, jax.core.Tracer):
        count = int(np.asarray(pointers)[..., -1].max(initial=0))
        if count > capacity:
            raise overflow_error(type_, count * type_._slots_below(last))
        return arrays

    def fit(end: Any) -> Any:
        return _bind("fit", parameters(type_, inputs=capacity), (end,), (((), np.dtype(np.int32)),))[0]

    faults = map_leading_axes(fit, pointers.ndim - 1)(pointers[..., -1])  # always 0, but no compiler knows that
    aligned = [faults.reshape(*faults.shape, *[1] * (x.ndim - faults.ndim)) for x in arrays]
    return tuple(jnp.where(fault == 0, x, jnp.zeros((), x.dtype)) for fault, x in zip(aligned, arrays, strict=True))


def overflow_error(type_: PatternType, count: int) -> PatternError:
    """Return the error for a pattern that has `count` entries, more than its capacity."""
    return PatternError(
        f"Expected at most nse={type_.nse:,} entries in a {type_.format.name} tensor of shape {type_.shape}, but there "
        f"are {count:,}. Pass nse={count} or more."
    )


def nonzero(x: Any, type_: PatternType) -> tuple[Any, ...]:
    """The index arrays of a pattern with an entry for each nonzero element of `x`. NaN is nonzero."""
    x = jax.lax.stop_gradient(x)
    results = (*array_results(type_), ((type_.nse,), slots_dtype(type_, x.size)))
    return tuple(_bind("nonzero", parameters(type_, element=np.dtype(x.dtype)), (x,), results)[:-1])


def draw_distinct(key: Any, sizes: Any, count: int) -> Any:
    """Draw `count` distinct random numbers below each of the `sizes` (n,). Sizes up to `count` give 0, 1, …, count - 1.

    Every set is equally likely. The numbers depend on the key and on the row alone, and not on the platform.

    Args:
        key: (2,) the words of a key, uint32.
    """
    type_ = PatternType((sizes.shape[0], count), DENSE, sizes.shape[0] * count)
    dtype = np.dtype(sizes.dtype)
    return _bind("draw", parameters(type_, coordinates=dtype), (key, sizes), ((type_.shape, dtype),))[0]


def number_distinct(leading: Any, numbers: Any, size: int, room: int) -> tuple[Any, Any]:
    """Give each distinct number in [0, size) a slot, in the order in which they occur.

    Args:
        leading: (k,) the numbers of the first k slots, which may be repeated. Other slots have distinct numbers.
        numbers: (n,) further numbers, of the same dtype.
        room: the number of slots, at least k.

    Returns:
        slots: (n,) the first slot of each of the `numbers`, -1 where it is out of range or there is no room.
        kept: (room,) the number in each slot, `size` where there is none.
    """
    inputs, dtype = numbers.shape[0], np.dtype(numbers.dtype)
    params = parameters(PatternType((size,), VECTOR, room), inputs=inputs, coordinates=dtype)
    slots, kept = _bind("number", params, (leading, numbers), (((inputs,), dtype), ((room,), dtype)))
    return slots, kept


def swap_last_axes(x: Any) -> Any:
    """Swap the last two dimensions of an array in memory, as jnp.swapaxes does.

    The routine uses all threads and full cache lines. It has no derivative.
    """
    shape = (*x.shape[:-2], x.shape[-1], x.shape[-2])
    return _bind("swap", swap_parameters(x.shape, np.dtype(x.dtype)), (x,), ((shape, np.dtype(x.dtype)),))[0]


def array_results(type_: Pattern | PatternType) -> tuple[Result, ...]:
    """The shapes and dtypes of the index arrays of a dynamic pattern; () for a static pattern.

    Raises DTypeError if jax would cut int64 to int32.
    """
    leaves = type_.index_leaves
    if leaves and type_.index_dtype.itemsize == 8 and not jax.config.read("jax_enable_x64"):
        raise DTypeError(
            f"Expected dimensions and nse that fit int32, but a dynamic tensor of shape {type_.shape} with nse "
            f"{type_.nse:,} needs int64 indices. Set jax.config.update('jax_enable_x64', True)."
        )
    return tuple(((length,), dtype) for _, length, dtype in leaves)


def _bind(name: Any, params: tuple[int, ...], operands: tuple[Any, ...], results: tuple[Result, ...]) -> Sequence[Any]:
    return run_or_bind(operands, Routine(name, params, len(operands), len(results)), results)


def run_or_bind(
    operands: tuple[Any, ...], routine: AnyRoutine, results: tuple[Result, ...], keepalive: tuple[object, ...] = ()
) -> Sequence[Any]:
    """Run a routine and return its results. If all operands are known, it runs at once, without a primitive."""
    known = _directly(*operands, routine=routine, results=results, keepalive=keepalive)
    if known is not None:
        return known
    out = routine_p.bind(*_compat.same_varying(operands), routine=routine, results=results, keepalive=keepalive)
    return cast("Sequence[Any]", out)


def _abstract(*operands: Any, routine: AnyRoutine, results: tuple[Result, ...], keepalive: tuple[object, ...]) -> Any:
    buffers = [*((x.dtype, x.shape) for x in operands), *((dtype, shape) for shape, dtype in results)]
    described = [(element_code(dtype), shape) for dtype, shape in buffers]
    try:
        _native.check_buffers(
            encode_buffers(routine.buffer_types), [None if n < 0 else described[n] for n in routine.slots]
        )
    except (IndexError, ValueError) as error:
        raise misfit(routine.recipe, error) from error
    return [_compat.output_aval(shape, dtype, operands) for shape, dtype in results]


def lower_routine(
    ctx: Any, *operands: Any, routine: AnyRoutine, results: tuple[Result, ...], keepalive: tuple[object, ...]
) -> Any:
    """Lower a routine to a custom call on CPU."""
    if isinstance(routine, Routine) and routine.name == "swap" and after_transposes(ctx, operands[0]):
        return [build_transpose(operands[0])]
    return custom_call(ctx, operands, KernelCall(routine.recipe, routine.bound), *keepalive)


def _directly(
    *operands: Any, routine: AnyRoutine, results: tuple[Result, ...], keepalive: tuple[object, ...]
) -> list[Any] | None:
    """Run a routine on the host. Return None if the operands are not known, or if the routine fails.

    Then the caller has a compiled program run the routine. If the routine fails there, XLA raises its error.
    """
    if not is_on_host(*operands):
        return None
    if isinstance(routine, AssemblyCall):
        return run_call(KernelCall(routine.recipe, routine.bound), operands, results, keepalive)
    return run_routine(operands, routine, results)


def _jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    out = routine_p.bind(*primals, **params)
    return out, [_compat.add_tangents((), x) for x in out]


def pattern_is_unknown() -> LinearityError:
    """Return the error for transposing a function whose arguments determine index arrays."""
    return LinearityError(
        "Expected a linear function to transpose, but the coordinates of a sparse tensor depend on the function's "
        "arguments. Make the tensor first, or take the derivative with jax.vjp."
    )


def _transpose(cotangents: Any, *operands: Any, **params: Any) -> Any:
    raise pattern_is_unknown()


def _batch(
    operands: Any, axes: Any, *, routine: AnyRoutine, results: tuple[Result, ...], keepalive: tuple[object, ...]
) -> Any:
    """The batching rule: batch all operands along axis 0. A second batch axis of a routine is merged into the first."""
    size, moved = move_batch_in_front(operands, axes)
    inner = routine.is_batched
    if inner:
        moved = [x.reshape(size * x.shape[1], *x.shape[2:]) for x in moved]
    flat = tuple(((size * s[0], *s[1:]) if inner else (size, *s), d) for s, d in results)
    out = routine_p.bind(*moved, routine=routine.with_batch_axis(size), results=flat, keepalive=keepalive)
    return [x.reshape(size, *shape) for x, (shape, _) in zip(out, results, strict=True)], [0] * len(results)


routine_p = _compat.make_primitive("jsparse_routine", _abstract, multiple_results=True)
_compat.run_directly(routine_p, _directly)
_compat.register_jvp(routine_p, _jvp)
_compat.register_transpose(routine_p, _transpose)
_compat.register_batching(routine_p, _batch)
