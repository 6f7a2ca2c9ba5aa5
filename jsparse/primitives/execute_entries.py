"""How `entries` runs on CPU: one walk of all patterns, which finds the result's pattern as well if it is dynamic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.compiler.runtime.kernel_call import OPERAND, call_of
from jsparse.compiler.runtime.symbolic import chunk_counts
from jsparse.compiler.schedule import Plan
from jsparse.formats import Pattern
from jsparse.primitives.assembly import in_order, list_places
from jsparse.primitives.entries_spec import Entries, entries_plan
from jsparse.primitives.kernel import call_kernel
from jsparse.primitives.movement import bound_names, movements, static_patterns
from jsparse.settings import config

__all__ = ["execute_entries"]


def execute_entries(*operands: Any, work: Entries) -> list[Any]:
    """Values to the order in which their patterns are walked, then one call."""
    dtypes = work.dtypes(operands)
    chosen = entries_plan(work, dtypes)
    factors, index = work.split(operands)
    moves = movements(work.reached.walks, chosen.patterns, index)
    moved = []
    for arrays, spec, patterns in zip(factors, work.specs, work.reached.terms, strict=True):
        for x, of in zip(arrays, spec.factors, strict=True):
            move = None if of.on is None else moves[patterns[of.on]]
            moved.append(x if move is None else move.apply(x, 0, spec.slot_size(of), back=False))
    if isinstance(work.result, Pattern):
        return [_known_places(work, chosen, moved, work.result, np.dtype(dtypes[0]))]
    found = in_order(work.reached, chosen)
    return list(list_places(work.reached, found, index, work.result, moved, np.dtype(dtypes[0])))


def _known_places(work: Entries, chosen: Plan, factors: Sequence[Any], result: Pattern, dtype: np.dtype) -> jax.Array:
    """The values only, of patterns that are all known: so is where the values of each chunk begin."""
    walks, counts = work.reached.walks, chunk_counts(chosen, config.backend)
    starts = jnp.asarray(np.cumsum(counts) - counts, np.int32)
    call = call_of(chosen.problem, chosen.schedule, (*bound_names(walks, chosen.patterns), OPERAND), config.backend)
    held = (*static_patterns(walks), result)
    return call_kernel(call, (*factors, starts), (result.nse,), dtype, held)
