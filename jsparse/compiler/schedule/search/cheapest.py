"""The choice of the cheapest candidate, and its plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import inf, prod
from typing import TypeAlias

from jsparse.compiler.problem import Problem
from jsparse.compiler.schedule.layout import AnyPattern, layout_of, names_of, reorder_patterns, with_innermost
from jsparse.compiler.schedule.limits import WRITTEN_OUT
from jsparse.compiler.schedule.prices.cost import Cost, Prices
from jsparse.compiler.schedule.prices.gathers import find_patterns_left_as_stored
from jsparse.compiler.schedule.schedule import Schedule, check_step
from jsparse.compiler.schedule.search.candidates import candidates, default_lanes
from jsparse.compiler.schedule.search.finalize import finalize
from jsparse.compiler.schedule.search.plan import Candidates, Plan
from jsparse.compiler.schedule.search.row_blocks import (
    RowBlocks,
    find_blocks_in_layout,
    in_blocks,
    paying_blocks,
    with_block_loop,
)
from jsparse.compiler.schedule.summary import Summary
from jsparse.compiler.schedule.transformations.split import Split
from jsparse.compiler.schedule.transformations.vectorize import Vectorize
from jsparse.compiler.schedule.trip_counts import TripCounts, levels_in_walk_order, trip_counts
from jsparse.errors import NotYetSupportedError, ScheduleError
from jsparse.formats import Pattern
from jsparse.notation.assignment import IndexVar

NOTHING = Schedule()

Names: TypeAlias = tuple[IndexVar, ...]
Priced: TypeAlias = tuple[Cost, int, Summary]
"""The price of a candidate, its index in the search, and the candidate."""


def plan(
    problem: Problem,
    patterns: Sequence[AnyPattern],
    as_stored: bool = False,
    schedule: Schedule | None = None,
    outer: Names = (),
) -> Plan:
    """Choose the cheapest plan for `problem` on these patterns.

    Args:
        as_stored: whether the plan walks patterns and dense tensors in the order in which they are stored, so that its
            problem is the given problem.
        schedule: steps that the plan has to have; the search completes them.
        outer: the variables of the outermost loops, which other statements share. The plan does not divide these loops
            over threads.

    Raises NotYetSupportedError if no loop order is concordant with all patterns, because dynamic patterns store shared
    index variables in contradicting orders. Callers check `legality.has_legal_order` first and convert a pattern.
    Raises ScheduleError if a step of `schedule` is illegal.
    """
    stored = tuple(patterns)
    if schedule is not None and schedule is not NOTHING:
        return _as_asked(problem, stored, as_stored, schedule)
    prices = Prices(stored)
    cost, _, chosen = _price_candidates(problem, prices, as_stored, outer=outer, cheapest_only=True)[0]
    # The search has left out candidates; all of them are priced only if someone asks for `Plan.alternatives`.
    rejected = partial(_price_rejected, problem, stored, as_stored, outer)
    # Blocks of rows add one loop to the chosen nest, and keep the order of its other loops.
    blocks = None if as_stored or outer else paying_blocks(chosen, stored)
    if blocks is None:
        return plan_as(chosen, cost, stored, rejected, as_stored, prices.trip_counts(chosen), not outer)
    divided, used = in_blocks(problem, stored, blocks)
    return _restate_plan(plan_as(with_block_loop(chosen, divided, blocks), cost, used, rejected), problem, blocks)


def cheapest_schedules(problem: Problem, patterns: Sequence[AnyPattern], most: int) -> list[Schedule]:
    """Return the schedules of the `most` cheapest candidates, cheapest first, each with all of its steps."""
    stored = tuple(patterns)
    priced = _price_candidates(problem, Prices(stored), as_stored=False)[:most]
    return [plan_as(candidate, cost, stored).schedule for cost, _, candidate in priced]


def _as_asked(problem: Problem, patterns: tuple[AnyPattern, ...], as_stored: bool, schedule: Schedule) -> Plan:
    """Return the cheapest plan that has the steps and the layout of the given schedule."""
    schedule.layout.check(problem)
    blocks, layout = find_blocks_in_layout(schedule.layout, problem, patterns)
    asked = Schedule(schedule.steps, layout)
    if blocks is None:
        return _cheapest_legal(problem, patterns, as_stored, asked)
    divided, used = in_blocks(problem, patterns, blocks)
    return _restate_plan(_cheapest_legal(divided, used, as_stored, asked), problem, blocks)


def _restate_plan(divided: Plan, problem: Problem, blocks: RowBlocks) -> Plan:
    """Return a plan of the problem with one more index variable, the number of a row block, as a plan of `problem`.

    In the result, the layout names the row blocks by text such as `o[p]/512`.
    """
    layout = blocks.name_blocks_of(divided.schedule.layout, names_of(problem, blocks.pattern)[0])
    return replace(divided, given=problem, schedule=Schedule(divided.schedule.steps, layout), blocks=blocks)


def _price_candidates(
    problem: Problem,
    prices: Prices,
    as_stored: bool,
    asked: Schedule = NOTHING,
    outer: Names = (),
    cheapest_only: bool = False,
) -> list[Priced]:
    """Return the candidates that have the steps and the layout of the schedule `asked`, cheapest first.

    With `cheapest_only`, candidates that cannot be the cheapest one may be left out.

    Raises ScheduleError if no candidate agrees with a given schedule, and NotYetSupportedError if there is no candidate
    even without a schedule.
    """
    start = summarize_schedule(problem, asked, not as_stored)
    orders = [asked.layout.order_of(problem, n) for n in range(len(problem.patterns))] if asked.layout.orders else ()
    priced: list[Priced] = []
    best = inf

    # Branch and bound: `Prices.least` is a lower bound of all candidates with the probe's order and lanes. Equal bounds
    # stay open, because candidates with equal totals are compared by the parts of their costs, and then by their
    # numbers.
    def is_open(probe: Summary) -> bool:
        return best == inf or prices.least(probe) <= best

    bounded = is_open if cheapest_only and not outer else None
    every = candidates(problem, prices.patterns, as_stored, start, orders, outer, bounded)
    for n, c in enumerate(every):
        if as_stored and c.tensors_to_transpose:  # its lanes need a dense tensor in another storage order
            continue
        cost = prices.of(c)
        best = min(best, cost.total)
        priced.append((cost, n, c))
    if not priced and asked != NOTHING:
        raise ScheduleError(
            f"No loops over {problem.assignment} agree with the schedule:\n{asked}\nA dynamic pattern can only be "
            "walked in the orders in which it is stored. Leave out the order of the loops, or convert an operand with "
            ".asformat."
        )
    if not priced:
        raise NotYetSupportedError(
            f"The dynamic patterns of {problem.assignment} store the indices that they share in contradicting orders, "
            "so no loops can walk all of them as they are stored. Convert one of them with .asformat first, to a "
            "format whose order of levels agrees with the others."
        )
    priced.sort(key=lambda entry: entry[:2])
    return priced


def _price_rejected(problem: Problem, patterns: tuple[AnyPattern, ...], as_stored: bool, outer: Names) -> Candidates:
    """Return the name and the cost of each candidate but the cheapest one."""
    return _name_candidates(_price_candidates(problem, Prices(patterns), as_stored, outer=outer)[1:])


def _name_candidates(priced: Sequence[Priced]) -> Candidates:
    return tuple((candidate_name(candidate), cost) for cost, _, candidate in priced)


def _cheapest_legal(problem: Problem, patterns: tuple[AnyPattern, ...], as_stored: bool, asked: Schedule) -> Plan:
    """Return the plan of the cheapest candidate whose steps are legal in the storage orders of its plan.

    Raises ScheduleError if every candidate has an illegal step.
    """
    # During the search, levels of transposed indices are unknown (`Walked.level` is None), and steps on them pass. Here
    # the storage orders are chosen, so every step is checked again. If all plans fail, the cheapest one's error counts.
    priced, errors = _price_candidates(problem, Prices(patterns), as_stored, asked), list[ScheduleError]()
    for n, (cost, _, candidate) in enumerate(priced):
        rejected = partial(_name_candidates, (*priced[:n], *priced[n + 1 :]))
        chosen = plan_as(candidate, cost, patterns, rejected, as_stored)
        try:
            summarize_schedule(chosen.problem, chosen.schedule)
        except ScheduleError as error:
            errors.append(error)
        else:
            return chosen
    raise errors[0]


def summarize_schedule(problem: Problem, schedule: Schedule, concordant: bool = False) -> Summary:
    """Apply the steps of a schedule to the canonical nest, and return the summary of the new nest.

    If a step runs a dense loop in lanes that no earlier step has split, the loop is first split into register tiles.
    Raises ScheduleError for an illegal step.
    """
    nest = Summary.canonical(problem, concordant=concordant)
    for step in schedule.steps:
        if isinstance(step, Vectorize) and not step.lanes and step.loop in nest.loops and step.loop not in nest.splits:
            tiles = Split(step.loop, default_lanes(nest, step.loop))
            check_step(tiles, nest)
            nest = nest.then(tiles)
        check_step(step, nest)
        nest = nest.then(step)
    return nest


def candidate_name(nest: Summary) -> str:
    """Return a candidate's name: the order of its loops, its variable in lanes, and how the loops are transformed."""
    how = ", written out" if nest.is_unrolled else f", panels of {nest.panel}" if nest.panel else ""
    jam = nest.first("unroll_and_jam")
    how += "" if jam is None else f", {jam.loop} {jam.copies} at a time"
    return " ".join(nest.order) + (f" ({nest.vector} in lanes{how})" if nest.vector else "")


def plan_as(
    candidate: Summary,
    cost: Cost,
    patterns: tuple[AnyPattern, ...],
    find_rejected: Callable[[], Candidates] = tuple,
    as_stored: bool = False,
    counts: TripCounts | None = None,
    alone: bool = True,
) -> Plan:
    """The plan of one candidate on these patterns.

    Args:
        find_rejected: a function that returns the names and costs of the other candidates.
        as_stored: whether loops walk patterns and dense tensors in the orders in which they are stored.
        counts: the trip counts of the candidate, if they are known.
        alone: whether no other statement shares the candidate's outer loops.
    """
    original = candidate.problem
    looked_up = {} if as_stored else find_patterns_left_as_stored(candidate, tuple(patterns))
    # Patterns that are looked up stay as they are stored; the others are walked in the candidate's order.
    moves = [
        tuple(range(len(names))) if as_stored or n in looked_up else levels_in_walk_order(names, candidate.walk)
        for n, names in enumerate(original.level_variables)
    ]
    used, problem = reorder_patterns(original, patterns, moves)
    if candidate.vector is not None:
        problem = with_innermost(problem, candidate.tensors_to_transpose, candidate.vector)
    problem = with_constants(problem, used, candidate)
    counts = counts or trip_counts(original, candidate.walk, patterns)
    if looked_up:  # another pattern leads their variables, unless a third one does so already
        leaders = dict(counts.merge_leaders)
        for n, leader in looked_up.items():
            leaders |= {v: leader for v in original.level_variables[n] if leaders.get(v, n) == n}
        scattered = tuple((n, level) for n, level in counts.scattered if n not in looked_up)
        counts = replace(counts, merge_leaders=tuple(leaders.items()), scattered=scattered)
    nest = finalize(candidate.on(problem), cost, used, counts, alone)
    return Plan(original, problem, Schedule(nest.steps, layout_of(original, moves)), used, cost, find_rejected)


def with_constants(problem: Problem, patterns: Sequence[AnyPattern], nest: Summary) -> Problem:
    """Return the problem with constant index arrays in the patterns to which the nest is specialized.

    Raises ScheduleError if one of these patterns is dynamic, or if too many iterations would be written out. A gap in a
    dense level counts as an iteration, like an entry. The numbers of iterations of nested loops are multiplied.
    """
    dense = {step.loop for step in nest.steps_with("unroll")} - nest.pattern_vars
    copies, types = prod(problem.size[var] or 0 for var in dense), list(problem.patterns)
    for n in sorted({step.pattern for step in nest.steps_with("specialize") if step.to == "pattern"}):
        pattern = patterns[n]
        # A dynamic pattern has no known entries: it exceeds the limit, so that the error names it.
        copies *= max(1, *pattern.level_sizes) if isinstance(pattern, Pattern) else WRITTEN_OUT + 1
        if copies > WRITTEN_OUT:
            raise ScheduleError(
                f"Expected static patterns of at most {WRITTEN_OUT} positions for 'specialize pattern P{n}' in "
                f"{problem.assignment}, all loops that are written out together, but got {copies:,} with {pattern!r}. "
                "Leave the step out."
            )
        assert isinstance(pattern, Pattern)
        types[n] = replace(types[n], constant_indices=tuple(tuple(array.tolist()) for array in pattern.arrays))
    return problem if tuple(types) == problem.patterns else replace(problem, patterns=tuple(types))
