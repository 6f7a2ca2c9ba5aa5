"""Choose the cheapest candidate and write it down as a plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Literal, cast

from jsparse.compiler.problem import Axis, Dense, PatternType, Positions, Problem, TensorType
from jsparse.compiler.schedule.candidate import Candidate, candidates
from jsparse.compiler.schedule.cost import Cost, estimate, extent, moved_dense, sharing
from jsparse.compiler.schedule.plan import Plan
from jsparse.compiler.schedule.schedule import Schedule
from jsparse.formats import Pattern
from jsparse.formats.level import Level
from jsparse.notation.assignment import IndexVar

__all__ = ["pattern_type", "plan"]

REGISTER_BYTES = 256  # of one register tile: 8 vectors of 32 bytes, half of AVX2's registers
CHUNK_WORK = 1 << 15  # scalar multiply-adds worth waking a thread for
PREFETCH_AHEAD = 16  # stored entries; gathered rows arrive from memory in about that time
CACHED_BYTES = 1 << 18  # a gathered tensor of this size stays in the second-level cache


def pattern_type(pattern: Pattern) -> PatternType:
    """The levels of a pattern as the compiler walks them: without the dense levels at the end, which are mere axes."""
    count = pattern.ndim - pattern.format.trailing_dense
    levels = (Level(level.kind, n, level.unique) for n, level in enumerate(pattern.format.levels[:count]))
    return PatternType(tuple(levels), pattern.index_dtype.name)


def plan(problem: Problem, patterns: Sequence[Pattern]) -> Plan:
    """The cheapest plan for `problem`, whose patterns are stored as `patterns` say."""
    known = tuple(patterns)
    priced = [(estimate(c, known), n, c) for n, c in enumerate(candidates(problem))]
    best = min(priced, key=lambda entry: entry[:2])
    others = sorted((entry for entry in priced if entry is not best), key=lambda entry: entry[:2])
    return _plan(best[2], best[0], known, tuple((_name(c), cost) for cost, _, c in others))


def _name(candidate: Candidate) -> str:
    return " ".join(candidate.order) + (f" ({candidate.vector} in lanes)" if candidate.vector else "")


def _plan(
    candidate: Candidate, cost: Cost, patterns: tuple[Pattern, ...], rejected: tuple[tuple[str, Cost], ...]
) -> Plan:
    reordered, problem = _reordered(candidate, patterns)
    problem = _with_lanes_innermost(problem, candidate)
    return Plan(candidate.problem, problem, _schedule(candidate, problem), reordered, cost, rejected)


def _reordered(candidate: Candidate, patterns: tuple[Pattern, ...]) -> tuple[tuple[Pattern, ...], Problem]:
    """The problem with its pattern stored in the order in which the candidate walks it."""
    problem = candidate.problem
    stored = tuple(v for names in problem.level_variables for v in names)
    if tuple(dict.fromkeys(stored)) == candidate.walk:
        return patterns, problem
    moved = [stored.index(v) for v in candidate.walk]  # new level n stores what level moved[n] stored
    (pattern,) = patterns
    order = (*(pattern.format.order[n] for n in moved), *pattern.format.order[len(moved) :])
    derived = pattern.with_order(order)
    tensors = tuple(replace(t, axes=tuple(_moved_axis(axis, moved) for axis in t.axes)) for t in problem.tensors)
    return (derived,), replace(problem, tensors=tensors, patterns=(pattern_type(derived),))


def _moved_axis(axis: Axis, moved: list[int]) -> Axis:
    return replace(axis, dims=tuple(axis.dims[n] for n in moved)) if isinstance(axis, Positions) else axis


def _with_lanes_innermost(problem: Problem, candidate: Candidate) -> Problem:
    moved = moved_dense(candidate)
    accesses = {access.tensor: access for access in problem.assignment.accesses}

    def stored(tensor: TensorType) -> TensorType:
        if tensor.name not in moved:
            return tensor
        last = [a for a in tensor.axes if accesses[tensor.name].indices[cast(Dense, a).dim] == candidate.vector]
        return replace(tensor, axes=(*(a for a in tensor.axes if a not in last), *last))

    return replace(problem, tensors=tuple(stored(tensor) for tensor in problem.tensors))


def _schedule(candidate: Candidate, problem: Problem) -> Schedule:
    target = problem.type_of[problem.assignment.target.tensor]
    item = 8 if target.dtype in ("float64", "int64") else 4
    lanes = 0
    if candidate.vector is not None:
        lanes = min(REGISTER_BYTES // item, problem.size[candidate.vector] or 0)
    shared = sharing(candidate)
    inner = prod(extent(problem, (v,)) for v in candidate.dense) if not candidate.sums_all else 1
    return Schedule(
        candidate.order,
        lanes,
        candidate.tile if lanes else 0,
        candidate.summed,
        None if shared is None else shared[0],
        "owned" if shared is None else cast(Literal["owned", "reduced"], shared[1]),
        max(1, round(CHUNK_WORK / (1 + inner / 8))),
        PREFETCH_AHEAD if _gathers_from_memory(candidate, problem, lanes * item, item) else 0,
    )


def _gathers_from_memory(candidate: Candidate, problem: Problem, tile_bytes: int, item: int) -> bool:
    """Whether rows of a dense tensor too large for the cache are read in the order of stored coordinates."""
    if candidate.vector is None or tile_bytes < 64 or not candidate.walk:
        return False
    last: IndexVar = candidate.walk[-1]
    return any(
        problem.type_of[f.tensor].positions is None
        and {last, candidate.vector} <= set(f.variables())
        and extent(problem, f.variables()) * item > CACHED_BYTES
        for f in problem.assignment.factors
    )
