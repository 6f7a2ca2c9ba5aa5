"""The CPU lowering of a spec: reorder operands into the plan's storage order, call the kernel, reorder the result."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import numpy as np

from jsparse.base.memo import remembered
from jsparse.compiler.backends.table import DEFAULT
from jsparse.compiler.dtypes import is_complex
from jsparse.compiler.problem import Dense, TensorType
from jsparse.compiler.runtime.kernel_call import KernelCall, call_of
from jsparse.compiler.schedule import Plan
from jsparse.compiler.timing import stage
from jsparse.compiler.wide_accumulation import wide_accumulation_plan
from jsparse.primitives.flatten import with_operands
from jsparse.primitives.kernel import call_kernel
from jsparse.primitives.movement import bound_names, static_patterns, value_permutations
from jsparse.primitives.overflow import overflowed, poisoned
from jsparse.primitives.parts import complex_as_real
from jsparse.primitives.spec import Spec, Term, problem_of
from jsparse.primitives.storage import stored_in
from jsparse.settings import config

__all__ = ["execute", "make_plan"]


@remembered(maxsize=256)
def make_plan(spec: Spec, dtypes: tuple[str, ...], backend: str = DEFAULT) -> tuple[Plan, KernelCall]:
    """The plan for `spec` and its call, by a backend's kernel; `dtypes` are those of the result and of the factors."""
    with stage("schedule"):
        chosen = wide_accumulation_plan(problem_of(spec, dtypes), spec.stored, spec.schedule)
    names = bound_names(spec.walks, chosen.patterns, chosen.blocks)
    return chosen, call_of(chosen.problem, (chosen.schedule,), names, backend)


def execute(*operands: Any, spec: Spec) -> jax.Array:
    """Compute a spec: permute values and transpose dense arrays, call the kernel, then undo both for the result."""
    spec, operands = with_operands(spec, operands)
    factors, index = spec.split(operands)
    dtype = spec.dtype_of(factors)
    if is_complex(dtype) or any(is_complex(x.dtype) for x in factors):
        arrays = operands[len(factors) :]
        return complex_as_real(
            factors, dtype, lambda x, real: execute(*x, *arrays, spec=replace(spec, dtype=real.name))
        )
    chosen, call = make_plan(spec, (dtype.name, *(np.dtype(x.dtype).name for x in factors)), config.backend)
    moves = value_permutations(spec.walks, chosen.patterns, index)

    def moved(x: Any, term: Term, back: bool) -> Any:
        return moves[term.on or 0].apply(x, len(term.before), spec.slot_size(term), back)

    result, *tensors = chosen.problem.tensors
    stored = [
        stored_in(x, _order(tensor)) if term.on is None else moved(x, term, back=False)
        for x, term, tensor in zip(factors, spec.factors, tensors, strict=True)
    ]
    shape = spec.shape(spec.result)
    order = _order(result) if spec.result.on is None else tuple(range(len(shape)))
    arrays = (*stored, *(array for move in moves for array in move.arrays))
    stored_shape = tuple(shape[n] for n in order)
    keepalive, invalid = static_patterns(spec.walks), overflowed(spec, dtype, index)
    out = call_kernel(call, arrays, stored_shape, result.dtype, keepalive, invalid).astype(dtype)
    out = stored_in(out, _inverse(order)) if spec.result.on is None else moved(out, spec.result, back=True)
    return poisoned(out, spec, index)


def _inverse(order: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(order.index(n) for n in range(len(order)))


def _order(tensor: TensorType) -> tuple[int, ...]:
    return tuple(axis.dim for axis in tensor.axes if isinstance(axis, Dense))
