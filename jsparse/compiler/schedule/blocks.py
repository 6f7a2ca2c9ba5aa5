"""Blocks of rows: statements that share panels of a loop instead of single iterations.

Each statement, or run of statements, has its own loop over a panel's rows. These loops pay in three cases:

- a statement multiplies by a dense matrix, `T[i, c] * W[c, f]`. It reads the whole matrix for each `i`, or once for
  several coordinates `i` that run at a time. This is the register and cache blocking of dense products (Goto and van de
  Geijn, 2008), with the rows that a sparse product has just computed as its packed panel;
- a statement sums over the rows, `D[c, f] += T[i, c] * G[i, f]`. It reads and writes all of D for each `i`, or once for
  a panel, if it sums the panel's rows in registers;
- neighbouring rows select nearly the same rows of several dense tensors, as in a band, and the nearest cache has room
  for the selected rows of one tensor, but not of all tensors. The gradient of attention reads keys and values and
  writes their cotangents. If a whole panel is done with one tensor before the next tensor, the cache holds the rows
  that the panel's rows share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from jsparse.compiler.loops.chain import outer_name
from jsparse.compiler.problem import Problem
from jsparse.compiler.schedule.gathers import extent, itemsize, mostly_read_before
from jsparse.compiler.schedule.layout import Stored
from jsparse.compiler.schedule.machine import NEAREST_BYTES
from jsparse.compiler.schedule.schedule import Schedule
from jsparse.compiler.schedule.shared_loops import is_full, is_sum
from jsparse.compiler.schedule.summary import Summary, Transformation
from jsparse.compiler.schedule.transformations.compute_at import ComputeAt
from jsparse.compiler.schedule.transformations.reorder import Reorder
from jsparse.compiler.schedule.transformations.split import Split
from jsparse.compiler.schedule.transformations.unroll_and_jam import UnrollAndJam
from jsparse.notation.assignment import IndexVar

ROWS = 24  # a multiple of the numbers of rows that run at a time


def in_blocks(
    problem: Problem,
    patterns: Sequence[Stored],
    schedules: Sequence[Schedule],
    shared: Sequence[IndexVar],
    rows_inside: Mapping[int, Schedule],
) -> tuple[Schedule, ...] | None:
    """Divide the innermost shared loop of the schedules into panels, if that pays.

    Each schedule but the last names the loop that its statement shares with the next one. The result is None if no
    statement gains, or if the loop cannot be split.

    Args:
        schedules: for each statement, its schedule for single rows.
        rows_inside: for each dense sum over rows, the index of its statement and its schedule without shared loops.
    """
    var = shared[-1]
    alone = [n in rows_inside or _is_jammed(schedule, var) for n, schedule in enumerate(schedules)]
    selected = _selected(problem, shared) if _share_rows(problem, patterns, shared) else [{} for _ in schedules]
    if not (any(alone) or any(selected)) or not is_full(problem, var):
        return None
    runs = _runs(alone, [frozenset(rows) for rows in selected])
    outer = outer_name(problem, var)
    found = [
        _summed(rows_inside[n], shared, outer) if n in rows_inside else _split(schedule, var, outer)
        for n, schedule in enumerate(schedules)
    ]
    if any(_reason(problem, n, schedule) for n, schedule in enumerate(found)):
        return None
    loops = [var if here == behind else outer for here, behind in pairwise(runs)]
    return (*(s.then(ComputeAt(loop)) for s, loop in zip(found, loops, strict=False)), found[-1])


def is_dense_sum(problem: Problem, number: int, var: IndexVar) -> bool:
    """Whether a statement without patterns sums a variable into a small target."""
    return not problem.statements[number].patterns and is_sum(problem, number, var)


def _is_jammed(schedule: Schedule, var: IndexVar) -> bool:
    """Whether several iterations of a loop run at a time."""
    return any(isinstance(step, UnrollAndJam) and step.loop == var for step in schedule.steps)


def _selected(problem: Problem, shared: Sequence[IndexVar]) -> list[dict[str, int]]:
    """Return a map for each statement: from the dense tensors in which stored entries select rows to read or write, to
    the bytes of a row."""
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
    """Whether neighbouring rows of the patterns select nearly the same rows of dense tensors, and the nearest cache
    holds the selected rows of each tensor, but not of all tensors together."""
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


def _runs(alone: Sequence[bool], selected: Sequence[frozenset[str]]) -> list[int]:
    """Return the index of each statement's run. A statement in `alone` is a run by itself, since it works on several
    rows at a time, or sums over rows. The statements of any other run select rows of the same tensors, or no rows."""
    number, current, found = 0, selected[0], [0]
    for n, own in enumerate(selected[1:], 1):
        if alone[n] or alone[n - 1] or (own and current and own != current):
            number, current = number + 1, own
        current = current or own
        found.append(number)
    return found


def _split(schedule: Schedule, var: IndexVar, outer: str) -> Schedule:
    """Split one of the outermost loops of a schedule into panels. If several rows run at a time, loops over register
    tiles go around the rows. Then one tile's part of a matrix stays in the nearest cache for all rows of the panel."""
    order, *rest = schedule.steps
    assert isinstance(order, Reorder)
    at = order.loops.index(var)
    tiled = _tiled(order, rest) if _is_jammed(schedule, var) else []
    inside = [name for name in order.loops[at + 1 :] if name not in tiled]
    steps: tuple[Transformation, ...] = (Split(var, ROWS), Reorder((*order.loops[:at], outer, *tiled, var, *inside)))
    return Schedule((*steps, *rest), schedule.layout)


def _summed(schedule: Schedule, shared: Sequence[IndexVar], outer: str) -> Schedule:
    """Split the schedule of a sum over rows into panels of rows. The loops inside of a panel run over register tiles,
    then over the other variables, and innermost over the rows."""
    order, *rest = schedule.steps
    assert isinstance(order, Reorder)
    *around, var = shared
    tiled = _tiled(order, rest)
    others = [name for name in order.loops if name not in (*around, *tiled, var)]
    return Schedule((Split(var, ROWS), Reorder((*around, outer, *tiled, *others, var)), *rest), schedule.layout)


def _tiled(order: Reorder, steps: Sequence[Transformation]) -> list[IndexVar]:
    """Return the loops that are split into register tiles."""
    return [step.loop for step in steps if isinstance(step, Split) and step.loop in order.loops]


def _reason(problem: Problem, number: int, schedule: Schedule) -> str | None:
    """Why the steps of a schedule are illegal; None if they are legal."""
    nest = Summary.canonical(problem, number)
    for step in schedule.steps:
        reason = step.check(nest)
        if reason is not None:
            return reason
        nest = nest.then(step)
    return None
