"""Runs of kernels that find the pattern of a result, perhaps with its values: as planned, and in other legal ways."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from programs.host import HostRun
from programs.listing import Column, ListRun
from programs.padding import with_int64, with_padding
from programs.schedules import summary_of, with_grain

from jsparse.compiler.problem import Dense, Problem
from jsparse.compiler.schedule import Plan
from jsparse.compiler.schedule.search.ordered import plan_in_order
from jsparse.primitives.assembly import OutputPattern, plan_assembly
from jsparse.primitives.entries_spec import Entries

__all__ = ["assemblies", "columns_of"]


def assemblies(
    reached: OutputPattern,
    entries: Entries | None,
    factors: Sequence[Sequence[np.ndarray]],
    rng: np.random.Generator,
    level: int,
) -> Iterator[tuple[str, ListRun]]:
    """Named runs that together find all entries of the result: one run with values, one for all terms, or one for each
    term. Only a result with `entries` has a run with values.

    Args:
        factors: the factors of each term, as the primitive takes them.
    """
    order = tuple(rng.permutation(reached.kept).tolist()) if reached.kept else ()
    order = entries.order if entries is not None and rng.random() < 0.5 else order
    if entries is not None and rng.random() < 0.7:
        problem = entries.problem(entries.dtypes([array for of_term in factors for array in of_term]))
        chosen = plan_in_order(problem, reached.scheduler_patterns, order)
        if chosen is not None:
            yield (
                "entries with values",
                _varied(chosen, reached, problem, _named(problem, reached, factors), rng, level),
            )
            return
    chosen = plan_in_order(reached.problem(), reached.scheduler_patterns, order) if reached.kept else None
    if chosen is not None and rng.random() < 0.7:
        yield "entries in order", _varied(chosen, reached, chosen.given, {}, rng, level)
        return
    found = plan_assembly(reached, order)
    for walks, plan in zip(reached.terms, reached.term_plans(), strict=True):
        part = replace(reached, walks=tuple(reached.walks[n] for n in walks), terms=(tuple(range(len(walks))),))
        yield f"entries of a term of {len(found.plans)}", _varied(plan, part, plan.given, {}, rng, level)


def columns_of(run: HostRun, reached: np.ndarray, values: np.ndarray) -> list[Column]:
    """The columns that an ordered run has to give for a result: its entries, with `values` if the run has values."""
    target = [str(v) for v in run.problem.assignment.target.indices]
    dims = [target.index(v) for v in summary_of(run.problem, run.schedule).shape.order]
    coords = [tuple(at) for at in np.argwhere(reached).tolist()]
    coords.sort(key=lambda at: [at[dim] for dim in dims])
    return [(at, values[at] if run.problem.wants_values else 0) for at in coords]


def _varied(
    plan: Plan,
    reached: OutputPattern,
    problem: Problem,
    arrays: dict[str, np.ndarray],
    rng: np.random.Generator,
    level: int,
) -> ListRun:
    """The run of a plan in small chunks, perhaps with wide or padded index arrays."""
    schedule = with_grain(plan.schedule, rng.choice([1, 3]))
    run = ListRun.of(plan, schedule, [walk.pattern for walk in reached.walks], arrays, level)
    if rng.random() < 0.2:
        run = replace(run, problem=with_int64(run.problem, rng))
    return with_padding(run, rng) if rng.random() < 0.3 else run


def _named(problem: Problem, reached: OutputPattern, factors: Sequence[Sequence[np.ndarray]]) -> dict[str, np.ndarray]:
    """The factors by name, in the shape of their storage."""
    accesses = [access for term in problem.terms for access in term.reads]
    found = {}
    for access, array in zip(accesses, (array for of_term in factors for array in of_term), strict=True):
        axes = problem.type_of[access.tensor].axes
        shape = [
            problem.size[access.indices[axis.dim]]
            if isinstance(axis, Dense)
            else reached.walks[axis.pattern].pattern.nse
            for axis in axes
        ]
        found[access.tensor] = array.reshape(shape)
    return found
