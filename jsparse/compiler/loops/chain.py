"""Loop bands, nested loops with nothing in between: how transformations find them, take them apart, and build them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from jsparse.compiler.loops import nest
from jsparse.compiler.loops.domain import Coiteration, Lanes, LevelIteration, Panels, PositionPanels, Tiles
from jsparse.compiler.problem import Problem
from jsparse.notation.assignment import IndexVar


def outer_name(problem: Problem, var: IndexVar) -> str:
    """The name of the outer loop of a split: the variable's name and a zero, or more zeros if that name is taken."""
    name = f"{var}0"
    while name in problem.size:
        name += "0"
    return name


def loop_name(loop: nest.Forall, problem: Problem) -> str:
    """The name of a loop in schedules: its variable, or `outer_name` for the outer loop of a split."""
    is_outer = isinstance(loop.domain, Tiles | Panels | PositionPanels)
    return outer_name(problem, loop.var) if is_outer else loop.var


def chain(stmt: nest.Stmt) -> tuple[list[nest.Forall], nest.Stmt]:
    """Return the band of loops that begins at `stmt`, outermost first, and the statement inside all of them."""
    loops: list[nest.Forall] = []
    while isinstance(stmt, nest.Forall) and not isinstance(stmt.domain, Lanes):
        loops.append(stmt)
        stmt = stmt.body
    return loops, stmt


def nest_loops(loops: Iterable[nest.Forall], inner: nest.Stmt) -> nest.Stmt:
    """Nest the loops around `inner`, the first loop outermost. Their previous bodies are dropped."""
    for loop in reversed(list(loops)):
        inner = replace(loop, body=inner)
    return inner


def groups(loops: Sequence[nest.Forall]) -> list[list[nest.Forall]]:
    """Group nested loops: each group has a loop and the lookups directly inside it, which need the loop's variable."""
    together: list[list[nest.Forall]] = []
    for loop in loops:
        if loop.is_lookup and together:
            together[-1].append(loop)
        else:
            together.append([loop])
    return together


def path_to(stmt: nest.Stmt, tensor: str) -> list[nest.Forall] | None:
    """Return the loops around the assignment to a tensor or a workspace, or None if there is no such assignment."""
    match stmt:
        case nest.Assign(target=target):
            return [] if target.tensor == tensor else None
        case nest.Forall(body=body):
            below = path_to(body, tensor)
            return None if below is None else [stmt, *below]
        case nest.Where(producer=producer, consumer=consumer):
            below = path_to(consumer, tensor)
            return path_to(producer, tensor) if below is None else below
        case nest.Pack(body=body) | nest.Scatter(body=body) | nest.TermGuard(body=body):
            return path_to(body, tensor)
    return None


def loops_over(stmt: nest.Stmt, pattern: int, level: int) -> list[nest.Forall]:
    """Find the loops that walk a level of a pattern, and the lookups in that level."""
    loops: list[nest.Forall] = []
    for loop in (inner for inner in nest.statements(stmt) if isinstance(inner, nest.Forall)):
        domain = loop.domain
        levels = [x for term in domain.terms for x in term] if isinstance(domain, Coiteration) else [domain]
        if any(isinstance(x, LevelIteration) and (x.pattern, x.level) == (pattern, level) for x in levels):
            loops.append(loop)
    return loops


def with_loop(stmt: nest.Stmt, name: str, problem: Problem, change: Callable[[nest.Forall], nest.Stmt]) -> nest.Stmt:
    """Replace each loop that is called `name` by `change(loop)`. Lookups and loops over lanes have no names."""
    is_named = isinstance(stmt, nest.Forall) and not stmt.is_lookup and not isinstance(stmt.domain, Lanes)
    if is_named and isinstance(stmt, nest.Forall) and loop_name(stmt, problem) == name:
        return change(stmt)
    return nest.with_children(stmt, lambda inner: with_loop(inner, name, problem, change))
