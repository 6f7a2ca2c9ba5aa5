"""Symbolic phases that run on the host now, for patterns whose index arrays are known."""

from __future__ import annotations

import numpy as np

from jsparse.compiler.runtime.assembly_call import column_problem
from jsparse.compiler.runtime.kernel_call import chunk_counts, run_recipe
from jsparse.compiler.runtime.recipe import write_recipe
from jsparse.compiler.schedule import Plan
from jsparse.formats import Pattern

__all__ = ["assembled_columns"]


def assembled_columns(plan: Plan, index_dtype: str, backend: str) -> list[np.ndarray]:
    """The coordinates that a plan over static patterns reaches, one array for each dimension of the target."""
    counts = chunk_counts(plan.problem, (plan.schedule,), _index(plan), backend)
    total = int(counts.sum())
    rows = np.empty((len(plan.problem.target.indices), total), index_dtype)
    if total:
        recipe = write_recipe(column_problem(plan.problem, index_dtype), (plan.schedule,), backend)
        run_recipe(recipe, [*_index(plan), np.cumsum(counts) - counts, rows])
    return list(rows)


def _index(plan: Plan) -> list[np.ndarray]:
    return [array for used in plan.patterns if isinstance(used, Pattern) for array in used.arrays]
