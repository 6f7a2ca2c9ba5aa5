"""Random fusions of programs of several statements: some of the statements share loops."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from programs.statements import RandomStatements

from jsparse.compiler.loops.chain import outer_name
from jsparse.compiler.problem import Problem
from jsparse.compiler.schedule import Schedule, build_loops
from jsparse.compiler.schedule.search.cheapest import plan
from jsparse.compiler.schedule.summary import Summary
from jsparse.compiler.schedule.transformations.compute_at import ComputeAt
from jsparse.compiler.schedule.transformations.reorder import Reorder
from jsparse.compiler.schedule.transformations.split import Split
from jsparse.compiler.schedule.transformations.unroll_and_jam import UnrollAndJam
from jsparse.compiler.schedule.transformations.vectorize import Vectorize
from jsparse.errors import JsparseError

__all__ = ["random_fusions"]


def random_fusions(program: RandomStatements, count: int) -> Iterator[tuple[Schedule, ...]]:
    """Yield at most `count` schedules in which statements share loops."""
    problem, rng = program.problem, np.random.default_rng((*program.seed, 5))
    for _ in range(count if len(problem.statements) > 1 else 0):
        found = _drawn(program, rng)
        if found is not None and _is_legal(problem, found):
            yield found


def _drawn(program: RandomStatements, rng: np.random.Generator) -> tuple[Schedule, ...] | None:
    """Schedules in which a run of statements shares loops over some of their variables, or over panels of the last."""
    problem = program.problem
    first = int(rng.integers(len(problem.statements) - 1))
    stop = int(rng.integers(first + 2, len(problem.statements) + 1))
    sets = [problem.variables_of(statement) for statement in problem.statements[first:stop]]
    common = [v for v, _ in problem.sizes if all(v in own for own in sets)]
    if not common:
        return None
    shared = tuple(rng.permutation(common).tolist()[: int(rng.integers(1, 3))])
    schedules: list[Schedule] = []
    for number in range(len(problem.statements)):
        inside = first <= number < stop
        schedule = _planned(program, number, shared if inside else ())
        if schedule is None:
            return None
        if rng.random() < 0.6:
            schedule = _in_lanes(problem, number, schedule)
        schedules.append(schedule)
    loops = [shared[-1]] * len(schedules)
    if rng.random() < 0.4:
        size = int(rng.integers(1, 4))
        schedules[first:stop] = [_in_panels(problem, s, shared[-1], size, rng) for s in schedules[first:stop]]
        loops = [outer_name(problem, shared[-1]) if rng.random() < 0.6 else loop for loop in loops]
    joined = range(first, stop - 1)
    return tuple(s.then(ComputeAt(loops[n])) if n in joined else s for n, s in enumerate(schedules))


def _in_panels(problem: Problem, schedule: Schedule, var: str, size: int, rng: np.random.Generator) -> Schedule:
    """The schedule with panels of one of its outer loops, and perhaps several iterations at a time in a panel."""
    order, *rest = schedule.steps
    assert isinstance(order, Reorder)
    at = order.loops.index(var)
    around = Reorder((*order.loops[:at], outer_name(problem, var), *order.loops[at:]))
    jam = [UnrollAndJam(var, int(rng.integers(2, 4)))] if rng.random() < 0.4 else []
    return Schedule((Split(var, size), around, *rest, *jam))


def _planned(program: RandomStatements, number: int, outer: tuple[str, ...]) -> Schedule | None:
    own = program.problem.statements[number].patterns
    try:
        found = plan(program.problem.alone(number), [program.patterns[n] for n in own], as_stored=True, outer=outer)
    except JsparseError:
        return None
    return Schedule(tuple(step.renumber(own) for step in found.schedule.steps))


def _in_lanes(problem: Problem, number: int, schedule: Schedule) -> Schedule:
    """The schedule with two positions of the innermost loop at a time, if it walks stored entries."""
    nest = Summary.canonical(problem, number)
    for step in schedule.steps:
        nest = nest.then(step)
    loops = nest.precompute_loops or nest.loops
    step = Vectorize(loops[-1], 2) if loops else None
    return schedule if step is None or step.check(nest) is not None else schedule.then(step)


def _is_legal(problem: Problem, schedules: tuple[Schedule, ...]) -> bool:
    try:
        build_loops(problem, *schedules)
    except JsparseError:
        return False
    return True
