"""Loop orders that produce the entries of a sparse sum in its result's storage order.

All terms share the loops over the target's outermost index variables, and each term has its own loops inside. There are
two ways. In the first, all loops over variables of the target are shared, and a term adds to a scalar. In the second,
all of these loops but the last are shared, and a term adds to a row in a workspace (Gustavson, 1978). The planner takes
the cheaper way. A way is left out if its loops are not concordant with the patterns, or if a long row of the workspace
has many more elements than there are multiply-adds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice, permutations

from jsparse.base.dataclass import dataclass
from jsparse.compiler.output_kind import Count
from jsparse.compiler.problem import Problem
from jsparse.compiler.schedule.layout import Stored, layout_of, reorder_patterns
from jsparse.compiler.schedule.prices.cost import Cost, grain_of, weight_of_level
from jsparse.compiler.schedule.schedule import Schedule, check_step
from jsparse.compiler.schedule.search.legality import is_concordant
from jsparse.compiler.schedule.search.plan import Plan
from jsparse.compiler.schedule.summary import Summary, Transformation
from jsparse.compiler.schedule.transformations.merge_by import MergeBy
from jsparse.compiler.schedule.transformations.parallelize import Parallelize
from jsparse.compiler.schedule.transformations.prefetch import Prefetch
from jsparse.compiler.schedule.transformations.reorder import Reorder
from jsparse.compiler.schedule.transformations.scatter import ScatterSegment
from jsparse.compiler.schedule.transformations.workspace import MakeWorkspace
from jsparse.compiler.schedule.trip_counts import UNKNOWN, levels_in_walk_order, trip_counts, variables_in_walk_order
from jsparse.compiler.statement import Statement
from jsparse.errors import ScheduleError
from jsparse.notation.assignment import IndexVar

MAX_ORDERS = 120  # orders of a term's own loops that are priced
SHORT_ROW = 1 << 16  # a workspace row of at most this length is always allowed
ROW_WORK = 4  # a longer row may have at most this many elements per multiply-add


@dataclass(frozen=True, slots=True)
class _Order:
    """The loops of one term.

    Attributes:
        own: the variables of the term's loops inside the shared loops.
        cost: the estimated cost.
        merge_leaders: pairs (variable, pattern): the pattern that is walked where several patterns meet.
        scattered: the levels whose segments are scattered into maps.
        walked: pairs of a pattern and its levels in the order of the loops.
    """

    own: tuple[IndexVar, ...]
    cost: float
    merge_leaders: tuple[tuple[IndexVar, int], ...]
    scattered: tuple[str, ...]
    walked: tuple[tuple[int, tuple[int, ...]], ...]


def plan_in_order(
    problem: Problem, patterns: Sequence[Stored], order: Sequence[IndexVar], schedule: Schedule | None = None
) -> Plan | None:
    """Plan a sum of terms, whose result stores its index variables in `order`. Returns None if there is no plan.

    The steps of `schedule` are part of the plan. Raises ScheduleError if one of them is illegal.
    """
    given = Schedule() if schedule is None else schedule
    counts = (len(order) - 1,) if given.found("workspace") is not None else (len(order), len(order) - 1)
    found = [_with_shared(problem, tuple(patterns), tuple(order[:count]), given) for count in counts]
    plans = [plan for plan in found if plan is not None]
    if not plans and schedule is not None:
        raise ScheduleError(f"No loops assemble {problem.target} with the schedule:\n{schedule}\nLeave steps out.")
    return min(plans, key=lambda plan: plan.cost, default=None)


def _with_shared(
    problem: Problem, patterns: tuple[Stored, ...], shared: tuple[IndexVar, ...], given: Schedule
) -> Plan | None:
    rest = [str(v) for v in problem.target.indices if v not in shared]
    fixed = {step.term: step.loops for step in given.steps if isinstance(step, Reorder) and step.term is not None}
    orders = [_best(problem, patterns, term, shared, rest, fixed.get(n)) for n, term in enumerate(problem.terms)]
    chosen = [order for order in orders if order is not None]
    if len(chosen) < len(orders):
        return None
    walked = _common_level_orders(chosen)
    if walked is None:
        return None
    work = sum(order.cost for order in chosen)
    row = sum(problem.size[v] or UNKNOWN for v in rest)
    if row > max(SHORT_ROW, ROW_WORK * work):
        return None
    moves = [walked.get(n, tuple(range(len(names)))) for n, names in enumerate(problem.level_variables)]
    used, stated = reorder_patterns(problem, patterns, moves)
    grain = _grain(problem, patterns, shared, work)
    ahead = (
        problem.cpu.prefetch_entries
        if any(problem.cpu.entry_bytes * p.nse > problem.cpu.second_cache_bytes for p in patterns)
        else 0
    )
    steps = [*_structure(shared + tuple(rest), rest, chosen), *_attributes(shared, chosen, grain, ahead)]
    nest = _apply_steps(Summary.canonical(stated), steps, given)
    cost = Cost(work, work, work, 0.0, 0.0, not shared)
    return Plan(problem, stated, Schedule(nest.steps, layout_of(problem, moves)), used, cost)


def _structure(
    order: tuple[IndexVar, ...], rest: Sequence[IndexVar], chosen: Sequence[_Order]
) -> Iterator[Transformation]:
    """Yield the steps that order the loops, make workspaces, choose merge leaders, and scatter segments into maps."""
    yield Reorder(order)
    yield from (MakeWorkspace(v) for v in rest)
    yield from (Reorder(own.own, n) for n, own in enumerate(chosen))
    for var, n in dict.fromkeys(leader for own in chosen for leader in own.merge_leaders):
        yield MergeBy(var, f"P{n}")
    yield from (ScatterSegment(level) for level in dict.fromkeys(name for own in chosen for name in own.scattered))


def _attributes(
    shared: tuple[IndexVar, ...], chosen: Sequence[_Order], grain: int, ahead: int
) -> Iterator[Transformation]:
    """Yield the steps that divide loops over threads, and that prefetch."""
    if shared:
        yield Parallelize(shared[0], "owned", grain)
    if ahead:
        yield from (Prefetch(var, ahead) for var in dict.fromkeys(v for own in chosen for v in own.own))


def _apply_steps(nest: Summary, steps: Sequence[Transformation], given: Schedule) -> Summary:
    """Apply the steps of `given` to a nest, and also the legal steps of `steps` that decide what `given` leaves open.

    Steps that change the structure of the loops come first, since they build the loops again. Raises ScheduleError if a
    step of `given` is illegal.
    """
    decided = {_decision(step) for step in given.steps}
    asked = [_with_grain(step, steps) for step in given.steps]
    every = [(step, True) for step in asked] + [(step, False) for step in steps if _decision(step) not in decided]
    for step, is_given in sorted(every, key=lambda entry: _rank(entry[0])):
        if is_given:
            check_step(step, nest)
            nest = nest.then(step)
        elif not _is_idle(step, nest) and step.check(nest) is None:
            nest = nest.then(step)
    return nest


def _decision(step: Transformation) -> tuple[object, ...]:
    """A key for the decision that a step makes: two steps with equal keys exclude each other."""
    match step:
        case Reorder(term=term):
            return "reorder", term
        case MergeBy(loop=loop) | Prefetch(loop=loop):
            return step.keyword, loop
        case ScatterSegment(level=level):
            return step.keyword, level
    return (step.keyword,)


def _rank(step: Transformation) -> int:
    order = (Reorder, MakeWorkspace, MergeBy, ScatterSegment, Parallelize, Prefetch)
    if isinstance(step, Reorder):
        return 0 if step.term is None else 4
    return next((2 * n + 1 for n, kind in enumerate(order) if isinstance(step, kind)), 0)


def _with_grain(step: Transformation, steps: Sequence[Transformation]) -> Transformation:
    """Return the step. A `parallelize` step without a grain gets the grain of the `parallelize` step in `steps`."""
    if not isinstance(step, Parallelize) or step.grain:
        return step
    return replace(step, grain=next((s.grain for s in steps if isinstance(s, Parallelize)), 1))


def _is_idle(step: Transformation, nest: Summary) -> bool:
    """Whether the step is a `reorder`, and the loops are in its order already."""
    if not isinstance(step, Reorder):
        return False
    return step.loops == (nest.loops if step.term is None else nest.shape.own[step.term])


def _common_level_orders(orders: Sequence[_Order]) -> dict[int, tuple[int, ...]] | None:
    """For each pattern, its levels in the order in which all terms walk it; None if two terms differ."""
    walked: dict[int, tuple[int, ...]] = {}
    for order in orders:
        for pattern, levels in order.walked:
            if walked.setdefault(pattern, levels) != levels:
                return None
    return walked


def _best(
    problem: Problem,
    patterns: tuple[Stored, ...],
    term: Statement,
    shared: tuple[IndexVar, ...],
    rest: Sequence[IndexVar],
    fixed: tuple[IndexVar, ...] | None,
) -> _Order | None:
    """Find the cheapest order of one term's loops, or take the fixed order; None if no order is concordant."""
    names = [problem.level_variables[n] for n in term.patterns]
    own = tuple(dict.fromkeys(v for v in (*rest, *(v for of in names for v in of)) if v not in shared))
    if any(of.count(v) > 1 for of in names for v in shared):
        return None
    part = replace(
        problem,
        patterns=tuple(problem.patterns[n] for n in term.patterns),
        walks=tuple(problem.walks[n] for n in term.patterns),
        statements=(replace(term, value=None, condition=None),),
        tensors=problem.tensors[:1],
        ordered=False,
        output=Count(),
    )
    known = tuple(patterns[n] for n in term.patterns)
    found: list[_Order] = []
    for order in islice(permutations(own), MAX_ORDERS) if fixed is None else [fixed]:
        walk = (*shared, *order)
        if all(is_concordant(of, walk, pattern) for of, pattern in zip(names, known, strict=True)):
            levels = [levels_in_walk_order(of, walk) for of in names]
            for merged in dict.fromkeys((shared, shared[:-1] if len(problem.terms) == 1 else shared)):
                counted = trip_counts(part, walk, known, merged)
                cost = problem.cpu.merge * sum(counted.iterations) + (counted.entries[-1] if counted.entries else 1.0)
                merge_leaders = tuple((v, term.patterns[n]) for v, n in counted.merge_leaders if v not in merged)
                scattered = tuple(
                    f"P{term.patterns[n]}.{level}"
                    for n, level in counted.scattered
                    if variables_in_walk_order(names[n], walk)[level] not in merged
                )
                walked = tuple(zip(term.patterns, levels, strict=True))
                found.append(_Order(order, cost, merge_leaders, scattered, walked))
    return min(found, key=lambda order: order.cost, default=None)


def _grain(problem: Problem, patterns: tuple[Stored, ...], shared: tuple[IndexVar, ...], work: float) -> int:
    """Return the least number of stored entries in a chunk for which the work pays for waking a thread."""
    if not shared:
        return 1
    met = [
        weight_of_level(pattern, names.index(shared[0]), problem.size[shared[0]])
        for pattern, names in zip(patterns, problem.level_variables, strict=True)
        if shared[0] in names
    ]
    return grain_of(sum(met) or problem.size[shared[0]] or UNKNOWN, work, problem.cpu.chunk_work)
