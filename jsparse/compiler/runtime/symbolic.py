"""Symbolic phases that run on the host now, for patterns whose index arrays are known."""

from __future__ import annotations

import numpy as np

from jsparse.compiler.lower.chunks import MAX_CHUNKS
from jsparse.compiler.runtime.assembly_call import column_problem, counting_problem
from jsparse.compiler.runtime.kernel_call import run_recipe
from jsparse.compiler.runtime.recipe import write_recipe
from jsparse.compiler.schedule import Plan
from jsparse.formats import Pattern

__all__ = ["assembled_columns", "chunk_counts"]


def chunk_counts(plan: Plan, backend: str) -> np.ndarray:
    """The number of columns that each chunk of the outermost loop reaches, an int64 array of shape (MAX_CHUNKS,).

    All patterns are static.
    """
    counts = np.zeros(MAX_CHUNKS, np.int64)
    run_recipe(write_recipe(counting_problem(plan.problem), (plan.schedule,), backend), [*_index(plan), counts])
    return counts


def assembled_columns(plan: Plan, index_dtype: str, backend: str) -> list[np.ndarray]:
    """The coordinates that a plan over static patterns reaches, one array for each dimension of the target."""
    counts = chunk_counts(plan, backend)
    total = int(counts.sum())
    rows = np.empty((len(plan.problem.target.indices), total), index_dtype)
    if total:
        recipe = write_recipe(column_problem(plan.problem, index_dtype), (plan.schedule,), backend)
        run_recipe(recipe, [*_index(plan), np.cumsum(counts) - counts, rows])
    return list(rows)


def _index(plan: Plan) -> list[np.ndarray]:
    return [array for used in plan.patterns if isinstance(used, Pattern) for array in used.arrays]
