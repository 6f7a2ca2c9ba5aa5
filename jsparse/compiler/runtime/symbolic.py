"""Patterns found now, on the host: where index arrays are known, before a program exists."""

from __future__ import annotations

import numpy as np

from jsparse.compiler.lower.chunks import MAX_CHUNKS
from jsparse.compiler.runtime.assembly_call import counting, listing
from jsparse.compiler.runtime.kernel_call import run_recipe
from jsparse.compiler.runtime.recipe import write_recipe
from jsparse.compiler.schedule import Plan
from jsparse.formats import Pattern

__all__ = ["assembled_columns", "chunk_counts"]


def chunk_counts(plan: Plan) -> np.ndarray:
    """(MAX_CHUNKS,) int64: how many columns each chunk of the outermost loop reaches; all patterns are known."""
    counts = np.zeros(MAX_CHUNKS, np.int64)
    run_recipe(write_recipe(counting(plan.problem), plan.schedule), [*_index(plan), counts])
    return counts


def assembled_columns(plan: Plan, index_dtype: str) -> list[np.ndarray]:
    """The coordinates that a plan over known patterns reaches, one array for each dimension of the target."""
    counts = chunk_counts(plan)
    total = int(counts.sum())
    rows = np.empty((len(plan.problem.assignment.target.indices), total), index_dtype)
    if total:
        recipe = write_recipe(listing(plan.problem, index_dtype), plan.schedule)
        run_recipe(recipe, [*_index(plan), np.cumsum(counts) - counts, rows])
    return list(rows)


def _index(plan: Plan) -> list[np.ndarray]:
    return [array for used in plan.patterns if isinstance(used, Pattern) for array in used.arrays]
