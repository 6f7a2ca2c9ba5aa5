"""The lowering of `permute_values` on CPU: a kernel that gathers."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import jax
import numpy as np

from jsparse.compiler.problem import Dense, Problem, TensorType, problem_of_product
from jsparse.compiler.runtime.bound_arrays import permutation_name
from jsparse.compiler.runtime.kernel_call import KernelCall, call_of
from jsparse.compiler.schedule.schedule import Schedule
from jsparse.formats import Pattern, Relayout
from jsparse.notation import Access, Assignment
from jsparse.primitives.kernel import call_kernel
from jsparse.settings import config

GRAIN = 1 << 14  # slots in a chunk; with fewer, waking a thread costs more than it saves


@lru_cache(maxsize=256)
def _problem(dtype: str, index_dtype: str, outer: int, inner: int) -> tuple[Problem, Schedule]:
    """Return the problem `R[b, q, t] = V[b, G[q], t]` and its schedule. An index b or t of size 1 is left out.

    The number of slots is not part of the problem, so patterns of all sizes share one kernel.
    """
    before = ("b",) if outer != 1 else ()
    behind = ("t",) if inner != 1 else ()
    access = Access("R", (*before, "q", *behind))
    source = Access("V", (*before, Access("G", ("q",)), *behind))
    axes = tuple(Dense(n) for n in range(len(access.indices)))
    tensors = (TensorType("R", dtype, axes), TensorType("V", dtype, axes), TensorType("G", index_dtype, (Dense(0),)))
    sizes = (*(("b", outer) for _ in before), ("q", None), *(("t", inner) for _ in behind))
    problem = problem_of_product(Assignment(access, (source,)), tensors, (), sizes)
    loops = (*before, "q", *behind)
    return problem, Schedule().reorder(loops).parallelize(loops[0], grain=1 if before else GRAIN)


def _call(values: Any, index_dtype: np.dtype, axis: int, names: tuple[str, ...]) -> KernelCall:
    """Return the call that gathers along an axis, by a static index of that name or by an operand."""
    outer, inner = prod(values.shape[:axis]), prod(values.shape[axis + 1 :])
    # Elements are copied bit by bit. Elements of complex128 are copied in two parts.
    dtype = np.dtype(np.float64 if values.dtype == np.complex128 else values.dtype)
    copied = dtype.name if dtype.name in ("float32", "float64") else f"int{8 * dtype.itemsize}"
    problem, schedule = _problem(copied, index_dtype.name, outer, inner)
    return call_of(problem, (schedule,), names, config.generator)


def gather_slots(values: Any, index: Any, axis: int) -> jax.Array:
    """Compute `out[q] = values[index[q]]` along `axis`, and 0 where the index is out of range.

    Only lowerings call this function.
    """
    return _run_gather(_call(values, np.dtype(index.dtype), axis, ()), values, (index,), index.shape[0], axis, ())


def _run_gather(
    call: KernelCall, values: Any, index: tuple[Any, ...], slots: int, axis: int, keepalive: tuple[Pattern, ...]
) -> jax.Array:
    """Run a gathering kernel on values with any number of axes before and after the slots."""
    if values.dtype == np.complex128:  # no kernel moves 16 bytes at a time
        parts = (_run_gather(call, x, index, slots, axis, keepalive) for x in (values.real, values.imag))
        return jax.lax.complex(*parts)
    outer, inner = prod(values.shape[:axis]), prod(values.shape[axis + 1 :])

    def flat(count: int) -> tuple[int, ...]:
        return (*((outer,) if outer != 1 else ()), count, *((inner,) if inner != 1 else ()))

    moved = call_kernel(call, (values.reshape(flat(values.shape[axis])), *index), flat(slots), values.dtype, keepalive)
    return moved.reshape(*values.shape[:axis], slots, *values.shape[axis + 1 :])


def execute_permutation(values: Any, *, relayout: Relayout, inverse: bool, axis: int) -> jax.Array:
    """Compute `permute_values` by a kernel that gathers."""
    slots = (relayout.source if inverse else relayout.target).nse
    index_dtype = (relayout.scatter if inverse else relayout.gather).dtype
    call = _call(values, index_dtype, axis, (permutation_name(relayout, inverse),))
    return _run_gather(call, values, (), slots, axis, (relayout.source,))
