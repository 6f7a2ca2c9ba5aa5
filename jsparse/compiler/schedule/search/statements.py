"""Schedules of programs of several statements, which share the storage of tensors and, where possible, loops.

This module also decides how dense tensors are stored, because the storage limits which index can run in lanes. In a
layer with sparse weights and the batch in front, `T[b, o] = X[b, i] * W[o, i]` and `Y[b, o] = max(T[b, o], 0)`, loops
over the entries of W can run b in lanes only if all tensors store b innermost. The caller transposes operands and
results, as for a single product. Transposes between two kernels cost nothing, because XLA stores the tensor between
them in the other layout.

*Narrow results are rounded once.* A kernel that adds to a float16 or bfloat16 target in memory would round at each
addition: a sum of ones in bfloat16 stops at 256. So the kernel adds to a target with the dtype of arithmetic instead,
which is narrowed after the kernel.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import count, islice

from jsparse.base.memo import memoize
from jsparse.compiler.dtypes import arithmetic_dtype
from jsparse.compiler.loops.chain import outer_name
from jsparse.compiler.loops.nest import assignments
from jsparse.compiler.problem import Problem, TensorType
from jsparse.compiler.scalar import replace_accesses
from jsparse.compiler.schedule.layout import AnyPattern, with_innermost
from jsparse.compiler.schedule.prices.cost import grain_of, weight_of_level
from jsparse.compiler.schedule.prices.gathers import extent
from jsparse.compiler.schedule.schedule import Schedule, build_loops
from jsparse.compiler.schedule.search.cheapest import plan
from jsparse.compiler.schedule.search.plan import Plan
from jsparse.compiler.schedule.search.shared_loops import find_shared_loops, is_sum
from jsparse.compiler.schedule.search.shared_panels import in_blocks, is_dense_sum
from jsparse.compiler.schedule.transformations.compute_at import ComputeAt
from jsparse.compiler.schedule.transformations.parallelize import Parallelize, Race
from jsparse.compiler.schedule.transformations.specialize import Specialize
from jsparse.compiler.schedule.transformations.unroll_and_jam import UnrollAndJam
from jsparse.compiler.schedule.transformations.vectorize import Vectorize
from jsparse.compiler.schedule.transformations.widen import Widen
from jsparse.compiler.schedule.trip_counts import UNKNOWN
from jsparse.compiler.statement import Statement
from jsparse.notation.assignment import Access, IndexVar
from jsparse.notation.einsum import operand_name

COPIED = 4
"""The least work of a chunk for each element of its copies, because copies are cleared and added to other copies."""

MOST_COST = 2.0
"""The most that shared loops may cost, relative to loops of each statement by itself. The costs leave out the arrays
that shared loops need not write and read; in most products these cost less than the loops do."""

MOST_COST_MOVED = 1.1
"""The limit in place of `MOST_COST` if tensors are transposed for shared loops. A product by itself may run in panels,
whose packed rows save more than a separate function of the result costs: 1.4 at 80 % zeros, 1.0 at 95 %.
"""


def plan_statements(problem: Problem, patterns: Sequence[AnyPattern]) -> tuple[Schedule, ...]:
    """Find the cheapest schedule of each statement. Patterns and dense tensors keep their storage orders.

    If all statements can share loops (`shared_loops.py`), they share these loops, or panels of the innermost shared
    loop (`shared_panels.py`).
    """
    shared = find_shared_loops(problem)
    numbers = range(len(problem.statements))

    def plan_alone(number: int, outer: tuple[IndexVar, ...]) -> Plan:
        stored = [patterns[n] for n in problem.statements[number].patterns]
        return plan(problem.alone(number), stored, as_stored=True, outer=outer)

    plans = [plan_alone(n, shared) for n in numbers]
    schedules = [_one_by_one(_schedule(problem, n, plans[n], shared), shared[:-1]) for n in numbers]
    if not shared:
        return tuple(schedules)
    rows_inside = {n: plan_alone(n, ()) for n in numbers if is_dense_sum(problem, n, shared[-1])}
    alone = {n: _one_by_one(_schedule(problem, n, plan), shared[:-1]) for n, plan in rows_inside.items()}
    blocks = in_blocks(problem, patterns, schedules, shared, alone)
    if blocks is None:
        schedules = [_one_by_one(schedule, shared) for schedule in schedules]
    joined = blocks or (*(schedule.then(ComputeAt(shared[-1])) for schedule in schedules[:-1]), schedules[-1])
    divided = outer_name(problem, shared[0]) if blocks and len(shared) == 1 else shared[0]
    chosen = [rows_inside.get(n, plan) if blocks else plan for n, plan in enumerate(plans)]
    grain = _grain(problem, patterns, shared[0], chosen, bool(blocks))
    race: Race = "reduced" if any(is_sum(problem, n, shared[0]) for n in numbers) else "owned"
    return (*joined[:-1], joined[-1].then(Parallelize(divided, race, grain)))


def shares_cheaply(problem: Problem, patterns: Sequence[AnyPattern]) -> bool:
    """Whether shared loops cost little more than the loops that each statement prefers; true if no loops are shared."""
    return _price_of_sharing(problem, patterns) <= MOST_COST


def with_lanes_innermost(problem: Problem, patterns: Sequence[AnyPattern]) -> Problem:
    """Store one index variable innermost in all dense tensors, if statements share loops cheaply only in that storage.
    Else return the problem unchanged."""
    if shares_cheaply(problem, patterns):
        return problem
    dense = [tensor.name for tensor in problem.tensors if tensor.positions is None]
    # The index variables that statements would run in lanes if dense tensors stored them innermost.
    vectors = dict[IndexVar, None]()
    for number, statement in enumerate(problem.statements):
        if statement.patterns:
            alone = plan(problem.alone(number), [patterns[n] for n in statement.patterns])
            if any(t.axes != problem.type_of[t.name].axes for t in alone.problem.tensors if t.positions is None):
                vectors |= {s.loop: None for s in alone.schedule.steps if isinstance(s, Vectorize) and not s.lanes}
    for var in vectors:
        moved = with_innermost(problem, dense, var)
        if find_shared_loops(moved) and _price_of_sharing(moved, patterns) <= MOST_COST_MOVED:
            return moved
    return problem


def _price_of_sharing(problem: Problem, patterns: Sequence[AnyPattern]) -> float:
    """Return the cost of all statements in shared loops, relative to their cost if each has the loops it prefers; 0 if
    no loops are shared.

    In shared loops dense tensors stay as they are stored, so lanes may have to gather or scatter.
    """
    shared, together, apart = find_shared_loops(problem), 0.0, 0.0
    for number, statement in enumerate(problem.statements) if shared else ():
        stored, single = tuple(patterns[n] for n in statement.patterns), problem.alone(number)
        together += _price(single, stored, shared)
        apart += min(_price(single, stored, None), _price(single, stored, ()))
    return together / max(apart, 1.0)


@memoize(maxsize=4096)
def _price(problem: Problem, patterns: tuple[AnyPattern, ...], shared: tuple[IndexVar, ...] | None) -> float:
    """Price one statement inside of the loops `shared`. With None, its tensors may be stored in other orders, too."""
    return plan(problem, patterns, as_stored=shared is not None, outer=shared or ()).cost.total


def _schedule(problem: Problem, number: int, plan: Plan, shared: Sequence[IndexVar] = ()) -> Schedule:
    """Select the steps of a plan that change the loops of its statement.

    Steps that fold the sums at several coordinates of a shared loop together are left out, because statements share
    single iterations of the loop.
    """
    steps = (step for step in plan.schedule.steps if not isinstance(step, Parallelize | Specialize | Widen))
    steps = (step for step in steps if not (isinstance(step, Vectorize) and step.lanes and step.loop in shared))
    return Schedule(tuple(step.renumber(problem.statements[number].patterns) for step in steps))


def _one_by_one(schedule: Schedule, shared: Sequence[IndexVar]) -> Schedule:
    """Remove the steps that jam loops in `shared`, because statements share single iterations of these loops."""
    steps = (step for step in schedule.steps if not (isinstance(step, UnrollAndJam) and step.loop in shared))
    return Schedule(tuple(steps), schedule.layout)


def _grain(
    problem: Problem, patterns: Sequence[AnyPattern], var: IndexVar, plans: Sequence[Plan], in_blocks: bool
) -> int:
    """Return the least number of stored entries in a chunk that pays for waking a thread and for copies of sums. For a
    dense loop or a loop over panels, return the number of iterations instead."""
    work = sum(plan.cost.total for plan in plans)
    sums = [s.target for n, s in enumerate(problem.statements) if is_sum(problem, n, var)]
    copied = sum(extent(problem, target.variables()) for target in sums)
    size, least = problem.size[var], max(problem.cpu.chunk_work, COPIED * copied)
    walked = [(p, names) for p, names in zip(patterns, problem.level_variables, strict=True) if var in names]
    if in_blocks or not walked:
        return grain_of(size or UNKNOWN, work, least)
    most = max(weight_of_level(p, names.index(var), size) for p, names in walked)
    return grain_of(max(p.nse for p, _ in walked), work, least, most)


def sum_of(plans: Sequence[Plan]) -> tuple[Problem, tuple[Schedule, ...]] | None:
    """Join the plans of products to a problem that adds the products up, with the schedule of each.

    Index variables of one name have one size. Results of different shapes have the same number of elements.

    Returns None if the plans do not store all results row by row, or all in one other order, or if they divide an index
    variable differently.
    """
    problems = [plan.problem for plan in plans]
    targets, sizes = [problem.tensors[0] for problem in problems], dict(problems[0].sizes)
    in_rows = all(t.dense_dims == tuple(range(len(t.axes))) for t in targets)
    if not in_rows and len({(problem.tensors[0].axes, problem.target.indices) for problem in problems}) > 1:
        return None
    if any(sizes.setdefault(v, n) != n for problem in problems for v, n in problem.sizes):
        return None
    target = operand_name(sum(len(problem.operands) for problem in problems))
    statements, operands, schedules = list[Statement](), list[TensorType](), list[Schedule]()
    results, numbers, patterns = list[TensorType](), count(), count()
    for n, (problem, product) in enumerate(zip(problems, plans, strict=True)):
        result, *reads = problem.tensors
        result = replace(result, name=f"{target}.{n}" if n else target, view_of=target if n else "")
        names = {tensor.name: operand_name(next(numbers)) for tensor in reads}
        places, statement = tuple(islice(patterns, len(problem.patterns))), problem.statement
        accesses = {access: Access(names[access.tensor], access.indices) for access in statement.reads}
        assert statement.value is not None
        statements.append(
            replace(
                statement,
                target=Access(result.name, statement.target.indices),
                value=replace_accesses(statement.value, accesses),
                patterns=tuple(places[n] for n in statement.patterns),
            )
        )
        results.append(result)
        operands += [replace(t.renumber(dict(enumerate(places))), name=names[t.name]) for t in reads]
        schedules.append(Schedule(tuple(step.renumber(places, names) for step in product.schedule.steps)))
    joint = Problem(
        tuple(statements),
        (*results, *operands),
        tuple(pattern for problem in problems for pattern in problem.patterns),
        tuple(sizes.items()),
        tuple(walk for problem in problems for walk in problem.walks),
        derived=tuple(dict.fromkeys(derived for problem in problems for derived in problem.derived)),
        cpu=problems[0].cpu,
    )
    return joint, tuple(schedules)


def wide_accumulation_plan(problem: Problem, patterns: Sequence[AnyPattern], schedule: Schedule | None = None) -> Plan:
    """Find the cheapest plan of one statement that rounds a narrow float result once, with the steps of `schedule`.

    If the cheapest plan would accumulate a narrow float in memory, the target gets the dtype of arithmetic, and the
    cheapest plan for that target is returned. The caller then narrows the result.
    """
    chosen = plan(problem, patterns, schedule=schedule)
    narrow = narrow_sums(chosen.problem, chosen.schedule)
    return plan(with_unrounded(problem, narrow), patterns, schedule=schedule) if narrow else chosen


def wide_accumulation_schedules(
    problem: Problem, patterns: Sequence[AnyPattern]
) -> tuple[Problem, tuple[Schedule, ...]]:
    """Find the cheapest schedules of a program of statements, and the problem to which they apply. In that problem,
    narrow results that are summed in memory have the dtype of arithmetic. The caller then narrows these results."""
    schedules = plan_statements(problem, patterns)
    while narrow := narrow_sums(problem, *schedules):
        # Wider targets may have other cheapest schedules, which may add to another target in memory.
        problem = with_unrounded(problem, narrow)
        schedules = plan_statements(problem, patterns)
    return problem, schedules


def narrow_sums(problem: Problem, *schedules: Schedule) -> frozenset[str]:
    """Find the targets of a narrow float dtype that the schedules round before their sums are complete."""
    narrow = frozenset(t.name for t in problem.results if arithmetic_dtype(t.dtype) != t.dtype)
    if not narrow:
        return narrow
    parallel = [schedule.found("parallelize") for schedule in schedules]
    if any(step is not None and step.race == "split" for step in parallel):  # carry-outs are added to the target
        return narrow
    assigned = assignments(build_loops(problem, *schedules).body)
    return narrow.intersection(a.target.tensor for a in assigned if a.accumulate)


def with_unrounded(problem: Problem, names: Collection[str]) -> Problem:
    """Give the tensors `names` the dtype of arithmetic. Returns the new problem."""
    return replace(
        problem,
        tensors=tuple(replace(t, dtype=arithmetic_dtype(t.dtype)) if t.name in names else t for t in problem.tensors),
    )
