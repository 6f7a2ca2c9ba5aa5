"""Other candidates and schedules of a problem than the chosen one: all must give the same result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from programs.schedules import changed, summary_of, with_grain, without

from jsparse import Pattern
from jsparse.compiler.cpu_model import CPU
from jsparse.compiler.dtypes import arithmetic_dtype
from jsparse.compiler.problem import Dense, Problem
from jsparse.compiler.schedule import Plan, Schedule
from jsparse.compiler.schedule.prices.cost import Prices
from jsparse.compiler.schedule.search.candidates import candidates
from jsparse.compiler.schedule.search.cheapest import plan_as
from jsparse.compiler.schedule.search.statements import narrow_sums, with_unrounded
from jsparse.compiler.schedule.summary import Summary, Transformation
from jsparse.compiler.schedule.transformations.merge_by import MergeBy
from jsparse.compiler.schedule.transformations.prefetch import Prefetch
from jsparse.compiler.schedule.transformations.scatter import ScatterSegment
from jsparse.compiler.schedule.transformations.specialize import Specialize
from jsparse.compiler.schedule.transformations.split import Split
from jsparse.compiler.schedule.transformations.unroll import Unroll
from jsparse.compiler.schedule.trip_counts import variables_in_walk_order
from jsparse.primitives.spec import ArrayAccess, Spec

__all__ = ["batched", "can_split", "fine_grained", "planned", "some_plan", "with_other_leaders", "with_unknown_size"]

WRITTEN_OUT = 40  # the most iterations that are written out, to save time


def some_plan(problem: Problem, patterns: Sequence[Pattern], rng: np.random.Generator) -> Plan:
    """The plan of a random candidate, mostly one with vector lanes."""
    known = tuple(patterns)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(vars(CPU), "inner_tiles", 1)
        patch.setitem(vars(CPU), "panel_rows", (1, 2, 5))
        found = list(candidates(problem, known))
    small = known and max(max(1, *pattern.level_sizes) for pattern in known) ** len(known) <= WRITTEN_OUT
    written = [c for c in map(_written_out, found) if c is not None] if small else []
    rare = [
        written,
        [c for c in found if c.tiles_outermost],
        [c for c in found if c.panel],
        [c for c in found if c.copies > 1],
    ]
    for those in rare:
        if those and rng.random() < 0.3:
            found = those
    vectorized = [c for c in found if c.vector is not None]
    found = vectorized if vectorized and rng.random() < 0.7 else found
    plan = planned(found[int(rng.integers(len(found)))], known)
    split = changed(plan.schedule, "parallelize", race="split")
    return replace(plan, schedule=split) if can_split(plan) and rng.random() < 0.5 else plan


def _written_out(candidate: Summary) -> Summary | None:
    """The candidate with all loops over patterns written out; None if that is illegal, or if they are stored anew."""
    names, loops = candidate.problem.level_variables, [v for v in candidate.walk if v in candidate.loops]
    if any(variables_in_walk_order(own, candidate.walk) != own for own in names):
        return None
    for step in (*(Specialize("pattern", f"P{n}") for n in range(len(names))), *map(Unroll, loops)):
        if step.check(candidate) is not None:
            return None
        candidate = candidate.then(step)
    return candidate


def planned(chosen: Summary, known: tuple[Pattern, ...]) -> Plan:
    """The plan of a candidate, with an unrounded target where it needs one."""
    plan = plan_as(chosen, Prices(known).of(chosen), known)
    narrow = narrow_sums(plan.problem, plan.schedule)
    if not narrow:
        return plan
    chosen = chosen.on(with_unrounded(chosen.problem, narrow))
    return plan_as(chosen, Prices(known).of(chosen), known)


def can_split(plan: Plan) -> bool:
    """Whether chunks of a plan may divide long segments, and its target is not narrow."""
    target = plan.problem.tensors[0].dtype
    step = plan.schedule.found("parallelize")
    if step is None or step.race != "owned" or arithmetic_dtype(target) != target:
        return False
    nest = summary_of(plan.problem, without(plan.schedule, "parallelize"))
    return replace(step, race="split").check(nest) is None


def with_other_leaders(plan: Plan, rng: np.random.Generator) -> Schedule:
    """The plan's schedule with random patterns as merge leaders, and random segments in maps. Only a pattern that is
    sparse there can lead."""
    steps, nest = [], Summary.canonical(plan.problem)
    for step in without(plan.schedule, "scatter").steps:
        if isinstance(step, MergeBy):
            met = [n for n, names in enumerate(plan.problem.level_variables) if step.loop in names]
            other = replace(step, leader=f"P{rng.choice(met)}")
            step = step if other.check(nest) else other
        steps.append(step)
        nest = nest.then(step)
    levels = (
        () if plan.problem.is_assembly else [(n, k) for n, of in enumerate(plan.problem.walks) for k in range(len(of))]
    )
    for pattern, level in levels:
        scatter = ScatterSegment(f"P{pattern}.{level}")
        if rng.random() < 0.5 and scatter.check(nest) is None:
            steps.append(scatter)
            nest = nest.then(scatter)
    return Schedule(tuple(steps), plan.schedule.layout)


def fine_grained(problem: Problem, schedule: Schedule, rng: np.random.Generator) -> Schedule:
    """The schedule with such small chunks and tiles that small problems have many, and with prefetching."""
    schedule = with_grain(schedule, rng.choice([1, 3]))
    nest = summary_of(problem, schedule)
    if nest.vector is None:
        return schedule
    lanes = min(nest.lanes, int(rng.choice([2, 3, 4, nest.lanes])))
    steps = [
        replace(step, size=lanes) if isinstance(step, Split) and step.loop == nest.vector else step
        for step in without(schedule, "prefetch").steps
        if not (isinstance(step, Specialize) and step.to == "threads")
    ]
    extra: list[Transformation] = []
    if nest.tiles_outermost and rng.random() < 0.5:
        tiles = next(name for name, var in nest.outer.items() if var == nest.vector)
        extra.append(Specialize("threads", tiles, lanes + 1))
    ahead = int(rng.choice([0, 1, 5]))
    extra += [Prefetch(v, ahead) for v in nest.entry_vars if ahead and not nest.panel]
    found = summary_of(problem, Schedule(tuple(steps)))
    for step in extra:
        found = found.then(step) if step.check(found) is None else found
    return Schedule(found.steps, schedule.layout)


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


def _inserted(term: ArrayAccess, name: str, rng: np.random.Generator) -> ArrayAccess:
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
