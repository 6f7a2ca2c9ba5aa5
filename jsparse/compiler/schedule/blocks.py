"""Blocks of rows: statements that share panels of a loop, and not its single iterations.

A product with a dense matrix, `T[i, c] * W[c, f]`, reads the whole matrix for each `i`. Where several iterations of the
innermost shared loop run at a time, they read it once. So that loop is split: the statements share the loop over its
panels, and each statement, or run of statements that read each other's stored entries, has its own loop inside. This is
the register and cache blocking of dense products (Goto and van de Geijn, 2008), with the rows that a sparse product has
just computed as its packed panel.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, pairwise

from jsparse.compiler.loops.chain import outer_name
from jsparse.compiler.problem import Problem
from jsparse.compiler.schedule.schedule import Schedule
from jsparse.compiler.schedule.summary import Summary, Transformation
from jsparse.compiler.schedule.transformations.compute_at import ComputeAt
from jsparse.compiler.schedule.transformations.reorder import Reorder
from jsparse.compiler.schedule.transformations.split import Split
from jsparse.compiler.schedule.transformations.unroll_and_jam import UnrollAndJam
from jsparse.notation.assignment import IndexVar

__all__ = ["in_blocks"]

ROWS = 24  # a multiple of the numbers of rows that run at a time


def in_blocks(problem: Problem, schedules: Sequence[Schedule], var: IndexVar) -> tuple[Schedule, ...] | None:
    """The schedules with panels of `var`, the innermost shared loop, where some run several iterations of it at a time.

    All but the last one name the loop that they share with the next one. None if no statement gains, if values of
    stored entries would have to be kept for a panel, or if the loop cannot be split.
    """
    jammed = [any(isinstance(s, UnrollAndJam) and s.loop == var for s in schedule.steps) for schedule in schedules]
    runs = _runs(jammed)
    if not any(jammed) or _keeps_entries(problem, var, runs) or not _is_full(problem, var):
        return None
    outer = outer_name(problem, var)
    found = [_split(schedule, var, outer) for schedule in schedules]
    if any(_reason(problem, n, schedule) for n, schedule in enumerate(found)):
        return None
    shared = [var if here == behind else outer for here, behind in pairwise(runs)]
    return (*(s.then(ComputeAt(loop)) for s, loop in zip(found, shared, strict=False)), found[-1])


def _runs(jammed: Sequence[bool]) -> list[int]:
    """For each statement the number of its run: one that works on several rows at a time is a run by itself."""
    runs = [list(own) for _, own in groupby(enumerate(jammed), lambda entry: entry[0] if entry[1] else -1)]
    return [number for number, run in enumerate(runs) for _ in run]


def _is_full(problem: Problem, var: IndexVar) -> bool:
    """Whether all patterns have every coordinate of a variable, so that a panel's entries are found by arithmetic."""
    levels = zip(problem.level_variables, problem.patterns, strict=True)
    return all(p.levels[n].kind.is_full for names, p in levels for n, v in enumerate(names) if v == var)


def _keeps_entries(problem: Problem, var: IndexVar, runs: Sequence[int]) -> bool:
    """Whether one run reads what another one wrote at stored entries: only rows are kept for a panel."""
    for name in problem.temporaries:
        users = [n for n, s in enumerate(problem.statements) if name in (s.target.tensor, *(a.tensor for a in s.reads))]
        if problem.type_of[name].positions is not None and len({runs[n] for n in users}) > 1:
            return True
    return False


def _split(schedule: Schedule, var: IndexVar, outer: str) -> Schedule:
    """The schedule with panels of one of its outermost loops. Register tiles stand around the rows that run at a time:
    the part of a matrix that is read for one tile stays in the nearest cache for all rows of the panel."""
    order, *rest = schedule.steps
    assert isinstance(order, Reorder)
    at = order.loops.index(var)
    jammed = any(isinstance(step, UnrollAndJam) and step.loop == var for step in rest)
    tiled = [step.loop for step in rest if isinstance(step, Split) and step.loop in order.loops] if jammed else []
    inside = [name for name in order.loops[at + 1 :] if name not in tiled]
    steps: tuple[Transformation, ...] = (Split(var, ROWS), Reorder((*order.loops[:at], outer, *tiled, var, *inside)))
    return Schedule((*steps, *rest), schedule.layout)


def _reason(problem: Problem, number: int, schedule: Schedule) -> str | None:
    """Why the steps of a schedule are illegal; None if they are legal."""
    nest = Summary.canonical(problem, number)
    for step in schedule.steps:
        reason = step.check(nest)
        if reason is not None:
            return reason
        nest = nest.then(step)
    return None
