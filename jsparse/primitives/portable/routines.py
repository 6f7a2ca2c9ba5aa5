"""The routines of dynamic patterns as XLA operations: what `csrc/routines/routines.cc` computes on CPU.

Both compute the same integers, also in padding, and the same true counts after an overflow.
"""

from __future__ import annotations

from math import prod

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jsparse.compiler.runtime.routine import BY_MAGNITUDE, DESCENDING, GIVES_NUMBERS, Parameters, Routine
from jsparse.errors import NotYetSupportedError
from jsparse.formats import PatternType
from jsparse.formats.dynamic import slots_dtype
from jsparse.primitives.host import Result
from jsparse.primitives.portable.assembly import assemble_arrays, differs, sort_distinct
from jsparse.primitives.portable.drawn import draw
from jsparse.primitives.portable.expand import expand
from jsparse.primitives.portable.faults import find_faults
from jsparse.primitives.portable.ordering import largest, sort_segments


def run_portable(
    *operands: jax.Array, routine: Routine, results: tuple[Result, ...], keepalive: tuple[object, ...] = ()
) -> list[jax.Array]:
    """Compute the results of a routine. `operands` and `results` are as for the primitive `routine_p`.

    Raises NotYetSupportedError for the routine `check`, which makes a program fail: XLA operations cannot do that.
    """
    if routine.name == "check":
        raise NotYetSupportedError(
            'Expected config.bounds to be "clamp" in a program that is not for cpu, but it is "check", and '
            "programs on other platforms cannot fail for invalid index arrays yet. Set jsparse.config.bounds = 'clamp' "
            "and call SparseTensor.validate() where the index arrays are made, or run the program on CPU."
        )
    params = Parameters.read(routine.params)
    type_ = params.type

    def single(*operands: jax.Array) -> tuple[jax.Array, ...]:
        match routine.name:
            case "assemble":
                return _assemble(operands[0], type_)
            case "draw":
                return (draw(operands[0], operands[1], type_.shape[1]),)
            case "number":
                return _number(operands[0], operands[1], type_)
            case "expand":
                columns, live = expand(operands, type_)
                by_dim = {level.dim: column for level, column in zip(type_.format.levels, columns, strict=True)}
                return (jnp.stack([jnp.where(live, by_dim[dim], size) for dim, size in enumerate(type_.shape)]),)
            case "nonzero":
                return _nonzero(operands[0], type_)
            case "sort":
                numbers, starts = operands
                order, places = sort_segments(numbers, starts, type_.shape[0], bool(params.flags & DESCENDING))
                return numbers[order] if params.flags & GIVES_NUMBERS else order, places
            case "largest":
                numbers, starts, k, *others = operands
                valid = others[0] if others else None
                return (largest(numbers, starts, k, valid, bool(params.flags & BY_MAGNITUDE)),)
            case "fit":  # no operation of XLA makes a program fail
                return (jnp.zeros((), np.int32),)
            case "validate":
                return (find_faults(operands, type_),)
            case _:
                return (jnp.swapaxes(operands[0], -1, -2),)

    outputs = (jax.vmap(single) if routine.is_batched else single)(*operands)
    return [x.astype(dtype) for x, (_, dtype) in zip(outputs, results, strict=True)]


def _assemble(coords: jax.Array, type_: PatternType) -> tuple[jax.Array, ...]:
    """Assemble the pattern of the entries at `coords`. Return all arrays of a `routine.Assembled`."""
    inputs = coords.shape[1]
    dtype = slots_dtype(type_, inputs)
    columns = [coords[level.dim] for level in type_.format.levels]
    sizes = [type_.shape[level.dim] for level in type_.format.levels]
    wide = np.promote_types(coords.dtype, type_.index_dtype)  # holds the coordinates and the sizes
    live = jnp.ones(inputs, np.bool_)
    for column, size in zip(columns, sizes, strict=True):
        live &= (column >= 0) & (column.astype(wide) < size)
    columns = [column.astype(type_.index_dtype) for column in columns]
    tuples = sort_distinct(columns, live, sizes, dtype)
    assembly = assemble_arrays(tuples.columns, tuples.count, type_)
    slots = jnp.zeros(inputs, dtype).at[tuples.order].set(assembly.slots, unique_indices=True)
    # For each slot, and for the end, `starts` counts the inputs in earlier slots. Inputs without a slot are in none.
    behind = jnp.where(assembly.slots >= 0, assembly.slots + 1, type_.nse + 1)
    starts = lax.cumsum(jnp.zeros(type_.nse + 1, dtype).at[behind].add(1, mode="drop"))
    return (*assembly.arrays, tuples.order, starts, slots)


def _nonzero(x: jax.Array, type_: PatternType) -> tuple[jax.Array, ...]:
    """Compute the index arrays of a pattern with an entry for each nonzero element, and the element index of each slot.

    Element indices are in row-major order. In padding, the index is the number of all elements. The array is transposed
    to the storage order, so its elements are in order and need no sort.
    """
    order, sizes = type_.format.order, [type_.shape[dim] for dim in type_.format.order]
    dtype = np.promote_types(slots_dtype(type_, x.size), type_.index_dtype)
    is_nonzero = _is_nonzero(jnp.transpose(x, order)).reshape(x.size)
    numbers, count = lax.iota(dtype, x.size), is_nonzero.sum(dtype=dtype)
    to = jnp.where(is_nonzero, lax.cumsum(is_nonzero.astype(dtype)) - 1, x.size)
    left = jnp.zeros(x.size, dtype).at[to].set(numbers, mode="drop")
    columns: list[jax.Array] = []
    for size in reversed(sizes):
        extent = jnp.full_like(left, max(size, 1))
        columns.append(lax.rem(left, extent).astype(type_.index_dtype))
        left = lax.div(left, extent)
    assembly = assemble_arrays(columns[::-1], count, type_)
    columns_of_slots, live = expand(assembly.arrays, type_)
    number = jnp.zeros(type_.nse, dtype)
    for level, column in zip(type_.format.levels, columns_of_slots, strict=True):
        stride = prod(type_.shape[level.dim + 1 :])
        number += column.astype(dtype) * min(stride, x.size)  # without elements, no stride matters
    return (*assembly.arrays, jnp.where(live, number, x.size))


def _is_nonzero(x: jax.Array) -> jax.Array:
    """Return which elements are not zero.

    NaN and denormal numbers are nonzero, but a comparison may flush denormal numbers to zero. So the bits of floats are
    compared, without the sign."""
    if x.dtype == np.bool_:
        return x
    if jnp.issubdtype(x.dtype, jnp.complexfloating):
        return _is_nonzero(x.real) | _is_nonzero(x.imag)
    if jnp.issubdtype(x.dtype, jnp.integer):
        return x != 0
    bits = lax.bitcast_convert_type(x, np.dtype(f"uint{8 * x.dtype.itemsize}"))
    return bits << 1 != 0


def _number(leading: jax.Array, numbers: jax.Array, type_: PatternType) -> tuple[jax.Array, jax.Array]:
    """Number the integers below the size of the type: the slot of each of the `numbers`, and the number in each slot.

    The leading numbers have the first slots. Among equal numbers, the first one in a stable order represents all of
    them.
    """
    (size,), first = type_.shape, leading.shape[0]
    both = jnp.concatenate([leading, numbers])
    inputs = lax.iota(np.int32, both.shape[0])
    both = jnp.where((both >= 0) & (both < size), both, size)
    if not both.shape[0]:
        return numbers, jnp.full(type_.nse, size, both.dtype)
    ascending, order = lax.sort((both, inputs), num_keys=1, is_stable=True)
    begins = (inputs == 0) | differs([ascending])
    stands = jnp.zeros_like(inputs).at[order].set(order[lax.cummax(jnp.where(begins, inputs, 0))])
    is_new = (stands == inputs) & (inputs >= first) & (both < size)
    slot = jnp.where(is_new, first + lax.cumsum(is_new.astype(inputs.dtype)) - 1, inputs)
    kept = jnp.full(type_.nse, size, both.dtype).at[jnp.where(is_new | (inputs < first), slot, type_.nse)]
    slots = jnp.where((both < size) & (slot[stands] < type_.nse), slot[stands], -1)
    return slots[first:].astype(numbers.dtype), kept.set(both, mode="drop")
