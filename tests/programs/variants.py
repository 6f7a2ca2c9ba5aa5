"""Other candidates and schedules of a problem than the chosen one: all must give the same result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from jsparse import Pattern
from jsparse.compiler.dtypes import unrounded
from jsparse.compiler.problem import Dense, Problem
from jsparse.compiler.schedule import Plan, Schedule, candidate
from jsparse.compiler.schedule.candidate import Candidate, candidates
from jsparse.compiler.schedule.cost import estimate
from jsparse.compiler.schedule.select import plan_as
from jsparse.compiler.schedule.split import splits
from jsparse.compiler.wide_accumulation import accumulates_wide, unrounded_target
from jsparse.primitives.spec import Spec, Term

__all__ = ["batched", "fine_grained", "planned", "some_plan", "with_other_leaders", "with_unknown_size"]

WRITTEN_OUT = 40  # the most stored entries whose loops are written out, to save time


def some_plan(problem: Problem, patterns: Sequence[Pattern], rng: np.random.Generator) -> Plan:
    """The plan of a random candidate, mostly one with vector lanes."""
    known = tuple(patterns)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(candidate, "WRITTEN_TURNS", 1)
        patch.setattr(candidate, "WRITTEN_OUT", WRITTEN_OUT)
        patch.setattr(candidate, "PANEL_TILES", 1)
        patch.setattr(candidate, "PANELS", (1, 2, 5))
        found = list(candidates(problem, known))
    rare = [[c for c in found if c.written_out], [c for c in found if c.panel], [c for c in found if c.jam]]
    for those in rare:
        if those and rng.random() < 0.3:
            found = those
    vectorized = [c for c in found if c.vector is not None]
    found = vectorized if vectorized and rng.random() < 0.7 else found
    chosen = found[int(rng.integers(len(found)))]
    plan, can_split = planned(chosen, known)
    if can_split and rng.random() < 0.5:
        return replace(plan, schedule=replace(plan.schedule, mode="split"))
    return plan


def planned(chosen: Candidate, known: tuple[Pattern, ...]) -> tuple[Plan, bool]:
    """The plan of a candidate, with an unrounded target where it needs one, and whether it may split segments."""
    plan = plan_as(chosen, estimate(chosen, known), known, ())
    if not accumulates_wide(plan):
        chosen = replace(chosen, problem=unrounded_target(chosen.problem))
        plan = plan_as(chosen, estimate(chosen, known), known, ())
    return plan, splits_whole(chosen, plan)


def splits_whole(chosen: Candidate, plan: Plan) -> bool:
    """Whether chunks may split long segments in the plan of a candidate."""
    schedule = plan.schedule
    outermost = schedule.mode == "owned" and (schedule.parallel,) == schedule.order[:1]
    target = plan.problem.tensors[0].dtype  # carry-outs are not added to narrow floats
    return outermost and unrounded(target) == target and splits(chosen, plan.problem, plan.patterns)


def with_other_leaders(plan: Plan, rng: np.random.Generator) -> Schedule:
    """The plan's schedule with random patterns as merge leaders. Only a pattern that is sparse there can lead."""
    met = {
        var: [n for n, names in enumerate(plan.problem.level_variables) if var in names]
        for var, _ in plan.schedule.merge_leaders
    }
    return replace(plan.schedule, merge_leaders=tuple((var, int(rng.choice(numbers))) for var, numbers in met.items()))


def fine_grained(schedule: Schedule, rng: np.random.Generator) -> Schedule:
    """The schedule with such small chunks and tiles that small problems have many, and with prefetching."""
    if not schedule.lanes:
        return replace(schedule, grain=int(rng.choice([1, 3])))
    lanes = min(schedule.lanes, int(rng.choice([2, 3, 4, schedule.lanes])))
    ahead = 0 if schedule.panel else int(rng.choice([0, 1, 5]))
    wide = int(rng.choice([0, lanes + 1])) if schedule.parallel == schedule.order[-1] and not schedule.panel else 0
    return replace(schedule, grain=int(rng.choice([1, 3])), lanes=lanes, wide=wide, prefetch=ahead)


def batched(spec: Spec, rng: np.random.Generator) -> Spec:
    """The spec as `vmap` makes it: some factors and the result get one more axis."""
    name, size = "batch'", int(rng.choice([1, 2, 3]))
    chosen = rng.random(len(spec.factors)) < 0.6
    chosen[int(rng.integers(len(chosen)))] = True
    factors = tuple(
        _inserted(term, name, rng) if taken else term for term, taken in zip(spec.factors, chosen, strict=True)
    )
    result = _inserted(spec.result, name, rng)
    return replace(spec, factors=factors, result=result, sizes=(*spec.sizes, (name, size)))


def _inserted(term: Term, name: str, rng: np.random.Generator) -> Term:
    """The term with one more index, before or after the positions."""
    if term.on is not None and rng.random() < 0.4:
        return replace(term, behind=(*term.behind, name))
    at = int(rng.integers(len(term.before) + 1))
    return replace(term, before=(*term.before[:at], name, *term.before[at:]))


def with_unknown_size(problem: Problem, rng: np.random.Generator) -> Problem:
    """The problem with one size unknown until run time, if only the shapes of dense arrays have it."""
    given, missing = set[str](), set[str]()
    for access in problem.assignment.accesses:
        type_ = problem.type_of[access.tensor]
        into = given if all(isinstance(axis, Dense) for axis in type_.axes) else missing
        into.update(access.variables())
    unknown = sorted(given - missing - {v for names in problem.level_variables for v in names})
    if not unknown:
        return problem
    var = unknown[int(rng.integers(len(unknown)))]
    return replace(problem, sizes=tuple((v, None if v == var else size) for v, size in problem.sizes))
