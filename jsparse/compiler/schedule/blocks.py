"""Blocks of rows: statements that share panels of a loop, and not its single iterations.

Each statement, or run of statements, has its own loop over a panel's rows. That pays where

- a statement multiplies by a dense matrix, `T[i, c] * W[c, f]`. It reads the whole matrix for each `i`, or once for
  several of them that run at a time. This is the register and cache blocking of dense products (Goto and van de Geijn,
  2008), with the rows that a sparse product has just computed as its packed panel;
- neighbouring rows select nearly the same rows of several dense tensors, as in a band, and the nearest cache has room
  for those of one tensor, but not of all. The gradient of attention reads keys and values and writes their cotangents.
  Where a whole panel is done with one of them before the next one, the cache holds what the panel's rows share.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from jsparse.compiler.loops.chain import outer_name
from jsparse.compiler.problem import Problem
from jsparse.compiler.schedule.gathers import extent, itemsize
from jsparse.compiler.schedule.locality import mostly_read_before
from jsparse.compiler.schedule.machine import NEAREST_BYTES
from jsparse.compiler.schedule.schedule import Schedule
from jsparse.compiler.schedule.stored import Stored
from jsparse.compiler.schedule.summary import Summary, Transformation
from jsparse.compiler.schedule.transformations.compute_at import ComputeAt
from jsparse.compiler.schedule.transformations.reorder import Reorder
from jsparse.compiler.schedule.transformations.split import Split
from jsparse.compiler.schedule.transformations.unroll_and_jam import UnrollAndJam
from jsparse.notation.assignment import IndexVar

__all__ = ["in_blocks"]

ROWS = 24  # a multiple of the numbers of rows that run at a time


def in_blocks(
    problem: Problem, patterns: Sequence[Stored], schedules: Sequence[Schedule], shared: Sequence[IndexVar]
) -> tuple[Schedule, ...] | None:
    """The schedules with panels of the innermost shared loop, where that pays.

    All but the last one name the loop that they share with the next one. None if no statement gains, or if the loop
    cannot be split.
    """
    var = shared[-1]
    jammed = [any(isinstance(s, UnrollAndJam) and s.loop == var for s in schedule.steps) for schedule in schedules]
    selected = _selected(problem, shared) if _share_rows(problem, patterns, shared) else [{} for _ in schedules]
    if not (any(jammed) or any(selected)) or not _is_full(problem, var):
        return None
    runs = _runs(jammed, [frozenset(rows) for rows in selected])
    outer = outer_name(problem, var)
    found = [_split(schedule, var, outer) for schedule in schedules]
    if any(_reason(problem, n, schedule) for n, schedule in enumerate(found)):
        return None
    loops = [var if here == behind else outer for here, behind in pairwise(runs)]
    return (*(s.then(ComputeAt(loop)) for s, loop in zip(found, loops, strict=False)), found[-1])


def _selected(problem: Problem, shared: Sequence[IndexVar]) -> list[dict[str, int]]:
    """For each statement the dense tensors whose rows it reads or writes as a row's stored entries select them, and the
    bytes of such a row."""
    found: list[dict[str, int]] = []
    for statement in problem.statements:
        stored = {v for n in statement.patterns for v in problem.level_variables[n] if v not in shared}
        dense = [a for a in (statement.target, *statement.reads) if problem.type_of[a.tensor].positions is None]
        found.append(
            {
                access.tensor: extent(problem, [v for v in access.variables() if v not in stored.union(shared)])
                * itemsize(problem, access)
                for access in dense
                if stored.intersection(access.variables())
            }
        )
    return found


def _share_rows(problem: Problem, patterns: Sequence[Stored], shared: Sequence[IndexVar]) -> bool:
    """Whether neighbouring rows select nearly the same rows, of which the nearest cache holds those of each tensor, but
    not those of all tensors."""
    var, entries = shared[-1], 0.0
    for names, pattern in zip(problem.level_variables, patterns, strict=True):
        rows = problem.size[var]
        if var not in names[:-1] or not rows or not mostly_read_before(pattern, names.index(var) + 1):
            return False
        entries = max(entries, pattern.nse / rows)
    row_bytes: dict[str, int] = {}
    for rows_of in _selected(problem, shared):
        row_bytes |= rows_of
    sizes = [entries * size for size in row_bytes.values()]
    return sum(sizes) > NEAREST_BYTES >= max(sizes, default=0)


def _runs(jammed: Sequence[bool], selected: Sequence[frozenset[str]]) -> list[int]:
    """For each statement the number of its run: one that works on several rows at a time is a run by itself, and
    statements of one run select rows of the same tensors, or of none."""
    number, current, found = 0, selected[0], [0]
    for n, own in enumerate(selected[1:], 1):
        if jammed[n] or jammed[n - 1] or (own and current and own != current):
            number, current = number + 1, own
        current = current or own
        found.append(number)
    return found


def _is_full(problem: Problem, var: IndexVar) -> bool:
    """Whether all patterns have every coordinate of a variable, so that a panel's entries are found by arithmetic."""
    levels = zip(problem.level_variables, problem.patterns, strict=True)
    return all(p.levels[n].kind.is_full for names, p in levels for n, v in enumerate(names) if v == var)


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
