"""Loop orders that produce the entries of a sparse sum in its result's storage order.

All terms share the loops over the target's outermost index variables, and each term has its own loops inside. There are
two ways. In the first, all loops over variables of the target are shared, and a term adds to a scalar. In the second,
all of these loops but the last are shared, and a term adds to a row in a workspace (Gustavson, 1978). The planner takes
the cheaper way. A way is left out if its loops are not concordant with the patterns, or if a long row of the workspace
has many more elements than there are multiply-adds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice, permutations

from jsparse.base.dataclass import dataclass
from jsparse.compiler.output_kind import Count
from jsparse.compiler.problem import Problem
from jsparse.compiler.schedule.layout import AnyPattern, layout_of, reorder_patterns
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
        loops: the variables of the term's loops inside the shared loops.
        cost: the estimated cost.
        merge_leaders: pairs (variable, pattern): the pattern that is walked where several patterns meet.
        scattered: the levels whose segments are scattered into maps.
        walked: pairs of a pattern and its levels in the order of the loops.
    """

    loops: tuple[IndexVar, ...]
    cost: float
    merge_leaders: tuple[tuple[IndexVar, int], ...]
    scattered: tuple[str, ...]
    walked: tuple[tuple[int, tuple[int, ...]], ...]


def plan_in_order(
    problem: Problem, patterns: Sequence[AnyPattern], order: Sequence[IndexVar], schedule: Schedule | None = None
) -> Plan | None:
    """Plan a sum of terms, whose result stores its index variables in `order`. Returns None if there is no plan.

    The steps of `schedule` are part of the plan. Raises ScheduleError if one of them is illegal.
    """
    asked = Schedule() if schedule is None else schedule
    counts = (len(order) - 1,) if asked.found("workspace") is not None else (len(order), len(order) - 1)
    ways = [_with_shared(problem, tuple(patterns), tuple(order[:count]), asked) for count in counts]
    plans = [plan for plan in ways if plan is not None]
    if not plans and schedule is not None:
        raise ScheduleError(
            f"No loops can assemble {problem.target} with the schedule:\n{schedule}\nLeave out some of its steps."
        )
    return min(plans, key=lambda plan: plan.cost, default=None)


def _with_shared(
    problem: Problem, patterns: tuple[AnyPattern, ...], shared: tuple[IndexVar, ...], asked: Schedule
) -> Plan | None:
    """Plan a sum whose terms share the loops `shared`. A term adds to a row over the other variables of the target."""
    cpu, row = problem.cpu, [str(v) for v in problem.target.indices if v not in shared]
    fixed = {step.term: step.loops for step in asked.steps if isinstance(step, Reorder) and step.term is not None}
    every = [_best(problem, patterns, term, shared, row, fixed.get(n)) for n, term in enumerate(problem.terms)]
    orders = [order for order in every if order is not None]
    walked: dict[int, tuple[int, ...]] = {}
    # Each pattern is stored in one order, so all terms have to walk it in the same order.
    agree = all(walked.setdefault(n, levels) == levels for order in orders for n, levels in order.walked)
    work = sum(order.cost for order in orders)
    length = sum(problem.size[v] or UNKNOWN for v in row)
    if len(orders) < len(every) or not agree or length > max(SHORT_ROW, ROW_WORK * work):
        return None
    moves = [walked.get(n, tuple(range(len(names)))) for n, names in enumerate(problem.level_variables)]
    used, stated = reorder_patterns(problem, patterns, moves)
    # A row is a sparse workspace: Gustavson's accumulator (Gustavson, 1978; Kjolstad et al., 2019).
    steps: list[Transformation] = [Reorder((*shared, *row)), *(MakeWorkspace(v) for v in row)]
    steps += [Reorder(order.loops, n) for n, order in enumerate(orders)]
    leaders = dict.fromkeys(leader for order in orders for leader in order.merge_leaders)
    steps += [MergeBy(var, f"P{n}") for var, n in leaders]
    steps += [ScatterSegment(name) for name in dict.fromkeys(name for order in orders for name in order.scattered)]
    if shared:
        steps.append(Parallelize(shared[0], "owned", _grain(problem, patterns, shared[0], work)))
    if any(cpu.entry_bytes * pattern.nse > cpu.second_cache_bytes for pattern in patterns):
        steps += [Prefetch(v, cpu.prefetch_entries) for v in dict.fromkeys(v for order in orders for v in order.loops)]
    nest = _apply_steps(Summary.canonical(stated), steps, asked)
    cost = Cost(work, work, work, 0.0, 0.0, not shared)
    return Plan(problem, stated, Schedule(nest.steps, layout_of(problem, moves)), used, cost)


def _apply_steps(nest: Summary, steps: Sequence[Transformation], asked: Schedule) -> Summary:
    """Apply the steps of `asked` to a nest, and also the legal steps of `steps` that decide what `asked` leaves open.

    Steps that change the structure of the loops come first, because they build the loops again. Raises ScheduleError if
    a step of `asked` is illegal.
    """
    decided = {_decision(step) for step in asked.steps}
    grain = next((step.grain for step in steps if isinstance(step, Parallelize)), 1)
    every = [(step, True) for step in asked.steps]
    every += [(step, False) for step in steps if _decision(step) not in decided]
    for step, is_asked in sorted(every, key=lambda entry: _rank(entry[0])):
        if is_asked:
            step = replace(step, grain=grain) if isinstance(step, Parallelize) and not step.grain else step
            check_step(step, nest)
        elif step.check(nest) is not None:
            continue
        elif isinstance(step, Reorder):
            loops = nest.loops if step.term is None else nest.shape.own[step.term]
            if step.loops == loops:
                continue
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
    """The place of a step among others: the loops are ordered, then those of each term below a workspace."""
    if isinstance(step, Reorder):
        return 0 if step.term is None else 2
    kinds = (MakeWorkspace, Reorder, MergeBy, ScatterSegment, Parallelize, Prefetch)
    return next((n for n, kind in enumerate(kinds, 1) if isinstance(step, kind)), 0)


def _best(
    problem: Problem,
    patterns: tuple[AnyPattern, ...],
    term: Statement,
    shared: tuple[IndexVar, ...],
    row: Sequence[IndexVar],
    fixed: tuple[IndexVar, ...] | None,
) -> _Order | None:
    """Find the cheapest order of one term's loops, or take the fixed order; None if no order is concordant."""
    names = [problem.level_variables[n] for n in term.patterns]
    inner = tuple(dict.fromkeys(v for v in (*row, *(v for of_one in names for v in of_one)) if v not in shared))
    if any(of_one.count(v) > 1 for of_one in names for v in shared):
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
    stored = tuple(patterns[n] for n in term.patterns)
    orders: list[_Order] = []
    # Patterns are merged at the shared loops. With a single term, the last of these loops may also walk one level, and
    # look up its coordinates in the others.
    ways = dict.fromkeys((shared, shared[:-1] if len(problem.terms) == 1 else shared))
    for loops in islice(permutations(inner), MAX_ORDERS) if fixed is None else [fixed]:
        walk = (*shared, *loops)
        if not all(is_concordant(of_one, walk, pattern) for of_one, pattern in zip(names, stored, strict=True)):
            continue
        walked = tuple((n, levels_in_walk_order(of_one, walk)) for n, of_one in zip(term.patterns, names, strict=True))
        for merged in ways:
            counts = trip_counts(part, walk, stored, merged)
            cost = problem.cpu.merge * sum(counts.iterations) + counts.entries_above(0)
            merge_leaders = tuple((v, term.patterns[n]) for v, n in counts.merge_leaders if v not in merged)
            mapped = ((n, level, variables_in_walk_order(names[n], walk)[level]) for n, level in counts.scattered)
            scattered = tuple(f"P{term.patterns[n]}.{level}" for n, level, var in mapped if var not in merged)
            orders.append(_Order(loops, cost, merge_leaders, scattered, walked))
    return min(orders, key=lambda order: order.cost, default=None)


def _grain(problem: Problem, patterns: tuple[AnyPattern, ...], var: IndexVar, work: float) -> int:
    """Return the least number of stored entries in a chunk for which the work pays for waking a thread."""
    size, walked = problem.size[var], zip(patterns, problem.level_variables, strict=True)
    weight = sum(weight_of_level(pattern, names.index(var), size) for pattern, names in walked if var in names)
    return grain_of(weight or size or UNKNOWN, work, problem.cpu.chunk_work)
