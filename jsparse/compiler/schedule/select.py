"""The choice of the cheapest candidate, and its plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, cast

import numpy as np

from jsparse.compiler.problem import Dense, Problem, TensorType
from jsparse.compiler.schedule.candidate import Candidate, candidates
from jsparse.compiler.schedule.cost import CHUNK_WORK, Cost, estimate, extent, moved_dense, sharing
from jsparse.compiler.schedule.machine import CACHED_BYTES, LINE_BYTES, PREFETCH_AHEAD
from jsparse.compiler.schedule.plan import Plan
from jsparse.compiler.schedule.reorder import reordered
from jsparse.compiler.schedule.schedule import Schedule
from jsparse.compiler.schedule.segments import scatters_many, short_levels
from jsparse.compiler.schedule.split import splits
from jsparse.compiler.schedule.stored import Stored
from jsparse.compiler.schedule.trip_counts import TripCounts, trip_counts, walked_levels
from jsparse.errors import NotYetSupportedError
from jsparse.formats import Pattern
from jsparse.notation.assignment import IndexVar

__all__ = ["plan", "plan_as"]


def plan(problem: Problem, patterns: Sequence[Stored], as_stored: bool = False) -> Plan:
    """The cheapest plan for `problem` on these patterns.

    If `as_stored`, the plan walks patterns and dense tensors in the order in which they are stored: its problem is the
    given one.

    Raises NotYetSupportedError if no loop order is concordant with all patterns, because dynamic patterns store shared
    index variables in contradicting orders. Callers check `legality.has_legal_order` first and convert a pattern.
    """
    known = tuple(patterns)
    walked: dict[tuple[IndexVar, ...], TripCounts] = {}
    priced: list[tuple[Cost, int, Candidate]] = []
    for n, c in enumerate(candidates(problem, known, as_stored)):
        if as_stored and (c.written_out or moved_dense(c)):
            continue
        if c.walk not in walked:
            walked[c.walk] = trip_counts(problem, c.walk, known)
        priced.append((estimate(c, known, walked[c.walk]), n, c))
    if not priced:
        raise NotYetSupportedError(
            f"The dynamic patterns of {problem.assignment} store the indices that they share in contradicting orders, "
            f"so that no loops walk all of them as they are stored. Convert one of them with .asformat before, to a "
            f"format whose order of levels agrees with the others."
        )
    best = min(priced, key=lambda entry: entry[:2])
    others = sorted((entry for entry in priced if entry is not best), key=lambda entry: entry[:2])
    return plan_as(best[2], best[0], known, tuple((_name(c), cost) for cost, _, c in others), as_stored)


def _name(candidate: Candidate) -> str:
    how = ", written out" if candidate.written_out else f", panels of {candidate.panel}" if candidate.panel else ""
    how += f", {candidate.jammed} {candidate.copies} at a time" if candidate.jam else ""
    return " ".join(candidate.order) + (f" ({candidate.vector} in lanes{how})" if candidate.vector else "")


def plan_as(
    candidate: Candidate,
    cost: Cost,
    patterns: tuple[Stored, ...],
    rejected: tuple[tuple[str, Cost], ...],
    as_stored: bool = False,
) -> Plan:
    """The plan of one candidate on these patterns. `rejected` is as in `Plan`, `as_stored` as in `plan`."""
    names = candidate.problem.level_variables
    moves = [tuple(range(len(own))) if as_stored else walked_levels(own, candidate.walk) for own in names]
    used, problem = reordered(candidate.problem, patterns, moves)
    problem = _with_lanes_innermost(problem, candidate)
    if candidate.written_out:
        types = (replace(t, constant_indices=_content(p)) for t, p in zip(problem.patterns, used, strict=True))
        problem = replace(problem, patterns=tuple(types))
    merge_leaders = trip_counts(candidate.problem, candidate.walk, patterns).merge_leaders
    schedule = replace(
        _schedule(candidate, problem, cost), merge_leaders=merge_leaders, short=short_levels(problem, used)
    )
    if candidate.scatters and not candidate.panel:
        schedule = replace(schedule, long_sums=scatters_many(problem, used))
    whole = schedule.mode == "owned" and (schedule.parallel,) == schedule.order[:1]
    if whole and used and used[0].nse > 2 * schedule.grain and splits(candidate, problem, used):
        schedule = replace(schedule, mode="split")
    return Plan(candidate.problem, problem, schedule, used, cost, rejected)


def _content(pattern: Stored) -> tuple[tuple[int, ...], ...]:
    """The index arrays of a static pattern."""
    assert isinstance(pattern, Pattern)
    return tuple(tuple(array.tolist()) for array in pattern.arrays)


def _with_lanes_innermost(problem: Problem, candidate: Candidate) -> Problem:
    moved = moved_dense(candidate)
    accesses = {access.tensor: access for access in problem.assignment.accesses}

    def stored(tensor: TensorType) -> TensorType:
        if tensor.name not in moved:
            return tensor
        last = [a for a in tensor.axes if accesses[tensor.name].indices[cast(Dense, a).dim] == candidate.vector]
        return replace(tensor, axes=(*(a for a in tensor.axes if a not in last), *last))

    return replace(problem, tensors=tuple(stored(tensor) for tensor in problem.tensors))


def _schedule(candidate: Candidate, problem: Problem, cost: Cost) -> Schedule:
    lanes = candidate.lanes
    shared = sharing(candidate)
    return Schedule(
        candidate.order,
        lanes,
        candidate.wide,
        candidate.tile if lanes else 0,
        candidate.summed,
        None if shared is None else shared[0],
        "owned" if shared is None else cast(Literal["owned", "reduced"], shared[1]),
        _grain(candidate, cost),
        PREFETCH_AHEAD if not candidate.panel and _gathers_from_memory(candidate, problem, lanes) else 0,
        panel=candidate.panel,
        jammed=candidate.jammed if candidate.jam else None,
        copies=candidate.copies,
    )


def _grain(candidate: Candidate, cost: Cost) -> int:
    """The least number of stored entries (of iterations, in a dense loop) in a chunk that pays for waking a thread."""
    outermost = candidate.order[0] if candidate.order else None
    if outermost in candidate.walk:
        inner = 1 if candidate.sums_all else extent(candidate.problem, candidate.dense)
        return max(1, round(CHUNK_WORK / (1 + inner / 8)))
    turns = extent(candidate.problem, candidate.order[:1])
    return max(1, round(CHUNK_WORK * turns / max(cost.work + cost.iterations + cost.target, 1)))


def _gathers_from_memory(candidate: Candidate, problem: Problem, lanes: int) -> bool:
    """Whether stored coordinates select rows of a dense tensor that is too large for the cache.

    Tiles shorter than a cache line do not count, since a neighbouring tile has mostly loaded the line already.
    """
    if candidate.vector is None or not candidate.walk:
        return False
    items = {tensor.name: np.dtype(tensor.dtype).itemsize for tensor in problem.tensors}
    rows = [f for f in problem.assignment.factors if candidate.vector in f.variables()]
    rows += [f for f in problem.assignment.factors if {*f.variables()} & {*candidate.contracted}]
    rows += [problem.target] if candidate.scatters else []
    return any(
        problem.type_of[f.tensor].positions is None
        and not candidate.entry_vars.isdisjoint(f.variables())
        and (candidate.vector not in f.variables() or lanes * items[f.tensor] >= LINE_BYTES)
        and extent(problem, f.variables()) * items[f.tensor] > CACHED_BYTES
        for f in rows
    )
