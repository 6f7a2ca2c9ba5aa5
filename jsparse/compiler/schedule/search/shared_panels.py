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
from jsparse.compiler.schedule.layout import Stored
from jsparse.compiler.schedule.prices.gathers import extent, itemsize, mostly_read_before
from jsparse.compiler.schedule.schedule import Schedule
from jsparse.compiler.schedule.search.shared_loops import is_full, is_sum
from jsparse.compiler.schedule.summary import Summary, Transformation
from jsparse.compiler.schedule.transformations.compute_at import ComputeAt
from jsparse.compiler.schedule.transformations.reorder import Reorder
from jsparse.compiler.schedule.transformations.split import Split
from jsparse.compiler.schedule.transformations.unroll_and_jam import UnrollAndJam
from jsparse.notation.assignment import IndexVar


def in_blocks(
    problem: Problem,
    patterns: Sequence[Stored],
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
    selected = (
        _row_bytes_by_tensor(problem, shared) if _share_rows(problem, patterns, shared) else [{} for _ in schedules]
    )
    if not (any(alone) or any(selected)) or not is_full(problem, var):
        return None
    runs = _runs(alone, [frozenset(rows) for rows in selected])
    outer = outer_name(problem, var)
    found = [
        _add_panels_of_rows(problem.cpu, rows_inside[n], shared, outer)
        if n in rows_inside
        else _split(problem.cpu, schedule, var, outer)
        for n, schedule in enumerate(schedules)
    ]
    if any(_reason(problem, n, schedule) for n, schedule in enumerate(found)):
        return None
    loops = [var if here == behind else outer for here, behind in pairwise(runs)]
    return (*(s.then(ComputeAt(loop)) for s, loop in zip(found, loops, strict=False)), found[-1])


def is_dense_sum(problem: Problem, number: int, var: IndexVar) -> bool:
    """Whether a statement walks no pattern, and is a sum over the variable `var` into a small target."""
    return not problem.statements[number].patterns and is_sum(problem, number, var)


def _is_jammed(schedule: Schedule, var: IndexVar) -> bool:
    """Whether several iterations of the loop over `var` run at a time."""
    return any(isinstance(step, UnrollAndJam) and step.loop == var for step in schedule.steps)


def _row_bytes_by_tensor(problem: Problem, shared: Sequence[IndexVar]) -> list[dict[str, int]]:
    """For each statement, find the dense tensors whose rows are selected by stored entries, to be read or written.
    Returns a dict for each statement: name of the tensor → bytes of a row."""
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
        if var not in names[:-1] or not rows or not mostly_read_before(problem.cpu, pattern, names.index(var) + 1):
            return False
        entries = max(entries, pattern.nse / rows)
    row_bytes: dict[str, int] = {}
    for rows_of in _row_bytes_by_tensor(problem, shared):
        row_bytes |= rows_of
    sizes = [entries * size for size in row_bytes.values()]
    return sum(sizes) > problem.cpu.first_cache_bytes >= max(sizes, default=0)


def _runs(alone: Sequence[bool], selected: Sequence[frozenset[str]]) -> list[int]:
    """Divide the statements into runs of neighbours, and return the index of each statement's run. If `alone` is true
    for a statement, its run has no other statement: it works on several rows at a time, or sums over rows. The
    statements of any other run select rows of the same tensors, or no rows."""
    number, current, found = 0, selected[0], [0]
    for n, own in enumerate(selected[1:], 1):
        if alone[n] or alone[n - 1] or (own and current and own != current):
            number, current = number + 1, own
        current = current or own
        found.append(number)
    return found


def _split(cpu: CpuModel, schedule: Schedule, var: IndexVar, outer: str) -> Schedule:
    """Add steps to a schedule that split the loop `var` over rows into panels. If several rows run at a time, the loops
    over register tiles are put around the loop over a panel's rows. Then one tile's part of a matrix stays in the
    nearest cache for all rows of the panel."""
    order, *rest = schedule.steps
    assert isinstance(order, Reorder)
    at = order.loops.index(var)
    tiled = _register_tile_loops(order, rest) if _is_jammed(schedule, var) else []
    inside = [name for name in order.loops[at + 1 :] if name not in tiled]
    steps: tuple[Transformation, ...] = (
        Split(var, cpu.block_rows),
        Reorder((*order.loops[:at], outer, *tiled, var, *inside)),
    )
    return Schedule((*steps, *rest), schedule.layout)


def _add_panels_of_rows(cpu: CpuModel, schedule: Schedule, shared: Sequence[IndexVar], outer: str) -> Schedule:
    """Add steps to the schedule of a sum over rows that split the loop over rows into panels. Inside of a panel, the
    outermost loops run over register tiles, the next loops over other variables, and the innermost loop over rows."""
    order, *rest = schedule.steps
    assert isinstance(order, Reorder)
    *around, var = shared
    tiled = _register_tile_loops(order, rest)
    others = [name for name in order.loops if name not in (*around, *tiled, var)]
    return Schedule(
        (Split(var, cpu.block_rows), Reorder((*around, outer, *tiled, *others, var)), *rest), schedule.layout
    )


def _register_tile_loops(order: Reorder, steps: Sequence[Transformation]) -> list[IndexVar]:
    """Return the loops that are split into register tiles."""
    return [step.loop for step in steps if isinstance(step, Split) and step.loop in order.loops]


def _reason(problem: Problem, number: int, schedule: Schedule) -> str | None:
    """Return the reason why a step of a schedule is illegal, or None if all steps are legal."""
    nest = Summary.canonical(problem, number)
    for step in schedule.steps:
        reason = step.check(nest)
        if reason is not None:
            return reason
        nest = nest.then(step)
    return None
