"""Blocks of rows: statements that share panels of a loop instead of single iterations.

Each statement, or each run of neighbouring statements, has its own loop over a panel's rows. These loops save time in
three cases:

- a statement multiplies by a dense matrix, `T[i, c] * W[c, f]`. A loop over single rows reads the whole matrix for each
  `i`. A loop in which several `i` run at a time reads it once for all of them. This is the register and cache blocking
  of dense products (Goto and van de Geijn, 2008). Its packed panel is the rows that a sparse product has just computed;
- a statement sums over the rows, `D[c, f] += T[i, c] * G[i, f]`. A loop over single rows reads and writes all of D for
  each `i`. If the sums of a panel's rows are formed in registers, D is read and written once for each panel;
- neighbouring rows of a pattern, such as a band, select nearly the same rows of several dense tensors, and the nearest
  cache has room for the selected rows of one tensor, but not of all tensors. For example, the gradient of attention
  reads keys and values and writes their cotangents. If all rows of a panel are worked on with one tensor, and then with
  the next tensor, the cache holds the tensor's rows that several rows of the panel select.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from jsparse.compiler.cpu_model import CpuModel
from jsparse.compiler.loops.chain import outer_name
from jsparse.compiler.problem import Problem
from jsparse.compiler.schedule.layout import AnyPattern
from jsparse.compiler.schedule.prices.gathers import extent, itemsize, mostly_read_before
from jsparse.compiler.schedule.schedule import Schedule
from jsparse.compiler.schedule.search.shared_loops import is_full, is_sum
from jsparse.compiler.schedule.summary import Summary
from jsparse.compiler.schedule.transformations.compute_at import ComputeAt
from jsparse.compiler.schedule.transformations.reorder import Reorder
from jsparse.compiler.schedule.transformations.split import Split
from jsparse.compiler.schedule.transformations.unroll_and_jam import UnrollAndJam
from jsparse.notation.assignment import IndexVar


def in_blocks(
    problem: Problem,
    patterns: Sequence[AnyPattern],
    schedules: Sequence[Schedule],
    shared: Sequence[IndexVar],
    rows_inside: Mapping[int, Schedule],
) -> tuple[Schedule, ...] | None:
    """Divide the innermost shared loop of the schedules into panels, if that saves time.

    Each resulting schedule except the last one names the loop that its statement shares with the next statement. The
    result is None if no statement gets faster, or if the loop cannot be split.

    Args:
        schedules: for each statement, its schedule for single rows.
        rows_inside: the index of each statement that is a dense sum over rows → its schedule without shared loops.
    """
    var = shared[-1]
    alone = [n in rows_inside or _is_jammed(schedule, var) for n, schedule in enumerate(schedules)]
    row_bytes = _row_bytes_by_tensor(problem, shared)
    if not _share_rows(problem, patterns, var, row_bytes):
        row_bytes = [{} for _ in schedules]
    if not (any(alone) or any(row_bytes)) or not is_full(problem, var):
        return None
    runs = _runs(alone, [frozenset(rows) for rows in row_bytes])
    outer = outer_name(problem, var)
    divided = [
        _split(problem.cpu, rows_inside.get(n, schedule), shared, outer, n in rows_inside)
        for n, schedule in enumerate(schedules)
    ]
    for n, schedule in enumerate(divided):
        nest = Summary.canonical(problem, n)
        for step in schedule.steps:
            if step.check(nest) is not None:
                return None
            nest = nest.then(step)
    loops = [var if run == next_run else outer for run, next_run in pairwise(runs)]
    return (*(s.then(ComputeAt(loop)) for s, loop in zip(divided, loops, strict=False)), divided[-1])


def is_dense_sum(problem: Problem, number: int, var: IndexVar) -> bool:
    """Whether a statement walks no pattern, and is a sum over the variable `var` into a small target."""
    return not problem.statements[number].patterns and is_sum(problem, number, var)


def _is_jammed(schedule: Schedule, var: IndexVar) -> bool:
    """Whether several iterations of the loop over `var` run at a time."""
    return any(isinstance(step, UnrollAndJam) and step.loop == var for step in schedule.steps)


def _row_bytes_by_tensor(problem: Problem, shared: Sequence[IndexVar]) -> list[dict[str, int]]:
    """For each statement, find the dense tensors whose rows are selected by stored entries, to be read or written.
    Returns a dict for each statement: name of the tensor → bytes of a row."""
    row_bytes: list[dict[str, int]] = []
    for statement in problem.statements:
        row_bytes.append({})
        stored = {v for n in statement.patterns for v in problem.level_variables[n] if v not in shared}
        for access in (statement.target, *statement.reads):
            if problem.type_of[access.tensor].positions is None and stored.intersection(access.variables()):
                row = [v for v in access.variables() if v not in stored.union(shared)]
                row_bytes[-1][access.tensor] = extent(problem, row) * itemsize(problem, access)
    return row_bytes


def _share_rows(
    problem: Problem, patterns: Sequence[AnyPattern], var: IndexVar, row_bytes: Sequence[dict[str, int]]
) -> bool:
    """Whether neighbouring rows of the patterns select nearly the same rows of dense tensors, and the nearest cache
    holds the selected rows of each tensor, but not of all tensors together."""
    rows, entries = problem.size[var], 0.0
    for names, pattern in zip(problem.level_variables, patterns, strict=True):
        if var not in names[:-1] or not rows or not mostly_read_before(problem.cpu, pattern, names.index(var) + 1):
            return False
        entries = max(entries, pattern.nse / rows)
    selected = {name: entries * size for of_one in row_bytes for name, size in of_one.items()}  # bytes, by tensor
    return sum(selected.values()) > problem.cpu.first_cache_bytes >= max(selected.values(), default=0)


def _runs(alone: Sequence[bool], selected: Sequence[frozenset[str]]) -> list[int]:
    """Divide the statements into runs of neighbours, and return the index of each statement's run. If `alone` is true
    for a statement, its run has no other statement: it works on several rows at a time, or sums over rows. The
    statements of any other run select rows of the same tensors, or no rows."""
    number, current, runs = 0, selected[0], [0]
    for n, tensors in enumerate(selected[1:], 1):
        if alone[n] or alone[n - 1] or (tensors and current and tensors != current):
            number, current = number + 1, tensors
        current = current or tensors
        runs.append(number)
    return runs


def _split(cpu: CpuModel, schedule: Schedule, shared: Sequence[IndexVar], outer: str, sums_rows: bool) -> Schedule:
    """Add steps to a schedule that split the loop over rows, the last of the shared loops, into panels.

    If several rows run at a time, the loops over register tiles are put around the loop over a panel's rows. Then one
    tile's part of a matrix stays in the nearest cache for all rows of the panel. In a sum over rows, the outermost
    loops inside of a panel run over register tiles, the next loops over other variables, and the innermost loop over
    rows.
    """
    order, *steps = schedule.steps
    assert isinstance(order, Reorder)
    *around, var = shared
    tiled = [step.loop for step in steps if isinstance(step, Split) and step.loop in order.loops]
    if sums_rows:
        others = [name for name in order.loops if name not in (*around, *tiled, var)]
        loops = (*around, outer, *tiled, *others, var)
    else:
        at, tiled = order.loops.index(var), tiled if _is_jammed(schedule, var) else []
        inside = [name for name in order.loops[at + 1 :] if name not in tiled]
        loops = (*order.loops[:at], outer, *tiled, var, *inside)
    return Schedule((Split(var, cpu.block_rows), Reorder(loops), *steps), schedule.layout)
