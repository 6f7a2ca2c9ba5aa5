"""The lowering of `entries` on CPU: one walk of all patterns, which also finds a dynamic result's pattern."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from jsparse.compiler.runtime.kernel_call import call_of
from jsparse.compiler.schedule import Plan
from jsparse.formats import Pattern
from jsparse.primitives.assembly import assemble_with, ordered_assembly
from jsparse.primitives.entries_spec import Entries, entries_plan
from jsparse.primitives.kernel import call_kernel
from jsparse.primitives.movement import bound_names, static_patterns, value_permutations
from jsparse.settings import config

__all__ = ["execute_entries"]


def execute_entries(*operands: Any, work: Entries) -> list[Any]:
    """Permute values to the storage orders in which their patterns are walked, then call the kernel once."""
    dtypes = work.dtypes(operands)
    chosen = entries_plan(work, dtypes)
    factors, index = work.split(operands)
    moves = value_permutations(work.reached.walks, chosen.patterns, index)
    moved = []
    for arrays, spec, patterns in zip(factors, work.specs, work.reached.terms, strict=True):
        for x, of in zip(arrays, spec.factors, strict=True):
            move = None if of.on is None else moves[patterns[of.on]]
            moved.append(x if move is None else move.apply(x, 0, spec.slot_size(of), back=False))
    if isinstance(work.result, Pattern):
        return [_values_on(work.result, work, chosen, moved, np.dtype(dtypes[0]))]
    found = ordered_assembly(work.reached, chosen)
    return list(assemble_with(work.reached, found, index, work.result, moved, np.dtype(dtypes[0])))


def _values_on(result: Pattern, work: Entries, chosen: Plan, factors: Sequence[Any], dtype: np.dtype) -> jax.Array:
    """The values on a static pattern."""
    walks = work.reached.walks
    call = call_of(chosen.problem, (chosen.schedule,), bound_names(walks, chosen.patterns), config.backend)
    return call_kernel(call, factors, (result.nse,), dtype, (*static_patterns(walks), result))
