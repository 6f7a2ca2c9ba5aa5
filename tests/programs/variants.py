"""Other ways to run a problem than the one that is chosen: every candidate and every schedule must give the same."""

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

WRITTEN_OUT = 40  # stored entries whose loops are written out; more only take longer


def some_plan(problem: Problem, patterns: Sequence[Pattern], rng: np.random.Generator) -> Plan:
    """The plan of a random candidate, in vector lanes more often than not if there is one."""
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
    """The plan of a candidate, into an unrounded target where it has to be, and whether it may split segments."""
    plan = plan_as(chosen, estimate(chosen, known), known, ())
    if not accumulates_wide(plan):
        chosen = replace(chosen, problem=unrounded_target(chosen.problem))
        plan = plan_as(chosen, estimate(chosen, known), known, ())
    return plan, splits_whole(chosen, plan)


def splits_whole(chosen: Candidate, plan: Plan) -> bool:
    """Whether the plan of a candidate can be run with long segments cut."""
    schedule = plan.schedule
    outermost = schedule.mode == "owned" and (schedule.parallel,) == schedule.order[:1]
    target = plan.problem.tensors[0].dtype  # a narrow float is not added to
    return outermost and unrounded(target) == target and splits(chosen, plan.problem, plan.patterns)


def with_other_leaders(plan: Plan, rng: np.random.Generator) -> Schedule:
    """The plan's schedule with any pattern in the lead where several meet; one that is not sparse there cannot lead."""
    met = {
        var: [n for n, names in enumerate(plan.problem.level_variables) if var in names]
        for var, _ in plan.schedule.merge_leaders
    }
    return replace(plan.schedule, merge_leaders=tuple((var, int(rng.choice(numbers))) for var, numbers in met.items()))


def fine_grained(schedule: Schedule, rng: np.random.Generator) -> Schedule:
    """The schedule with chunks and tiles so small that small problems have many, and with prefetching."""
    if not schedule.lanes:
        return replace(schedule, grain=int(rng.choice([1, 3])))
    lanes = min(schedule.lanes, int(rng.choice([2, 3, 4, schedule.lanes])))
    ahead = 0 if schedule.panel else int(rng.choice([0, 1, 5]))
    wide = int(rng.choice([0, lanes + 1])) if schedule.parallel == schedule.order[-1] and not schedule.panel else 0
    return replace(schedule, grain=int(rng.choice([1, 3])), lanes=lanes, wide=wide, prefetch=ahead)


def batched(spec: Spec, rng: np.random.Generator) -> Spec:
    """What `vmap` makes of it: some factors get an axis more, and so does the result."""
    name, size = "batch'", int(rng.choice([1, 2, 3]))
    chosen = rng.random(len(spec.factors)) < 0.6
    chosen[int(rng.integers(len(chosen)))] = True
    factors = tuple(
        _inserted(term, name, rng) if taken else term for term, taken in zip(spec.factors, chosen, strict=True)
    )
    result = _inserted(spec.result, name, rng)
    return replace(spec, factors=factors, result=result, sizes=(*spec.sizes, (name, size)))


def _inserted(term: Term, name: str, rng: np.random.Generator) -> Term:
    """With an index more, before or behind the positions."""
    if term.on is not None and rng.random() < 0.4:
        return replace(term, behind=(*term.behind, name))
    at = int(rng.integers(len(term.before) + 1))
    return replace(term, before=(*term.before[:at], name, *term.before[at:]))


def with_unknown_size(problem: Problem, rng: np.random.Generator) -> Problem:
    """The problem with one size left to the run time, where a dense array in its own layout tells it."""
    told, mute = set[str](), set[str]()
    for access in problem.assignment.accesses:
        type_ = problem.type_of[access.tensor]
        into = told if all(isinstance(axis, Dense) for axis in type_.axes) else mute
        into.update(access.variables())
    unknown = sorted(told - mute - {v for names in problem.level_variables for v in names})
    if not unknown:
        return problem
    var = unknown[int(rng.integers(len(unknown)))]
    return replace(problem, sizes=tuple((v, None if v == var else size) for v, size in problem.sizes))
