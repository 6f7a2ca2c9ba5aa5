"""`promote`: sums that loops compute for one element of the target are held in registers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

from jsparse.base.dataclass import dataclass
from jsparse.compiler.loops.canonical import places_target
from jsparse.compiler.loops.chain import path_to
from jsparse.compiler.loops.domain import Lanes, Tiles, WorkspaceLanes
from jsparse.compiler.loops.nest import Assign, Forall, LoopNest, Pack, Stmt, Where, Workspace
from jsparse.compiler.schedule.summary import Summary, Transformation
from jsparse.compiler.schedule.transformations.base import loops_of, with_loops
from jsparse.notation.assignment import Access


@dataclass(frozen=True, slots=True)
class Promote(Transformation):
    """Hold sums in registers below the innermost loop over an index of the target (scalar promotion).

    All loops below that loop are reductions. Their result, the workspace `acc`, is written to the target once. If the
    target lacks the index in lanes, the lanes are first reduced to a scalar. If there are neither loops below nor lanes
    to reduce, the nest stays unchanged.
    """

    keyword: ClassVar[str] = "promote"
    keeps_loops = True

    def check(self, nest: Summary) -> str | None:
        if nest.first("promote") is not None:
            return "the target's sums are already in registers"
        if nest.first("scatter") is not None:
            return f"'{nest.first('scatter')}' has already made a map: put promote before it"
        if nest.problem.is_assembly:
            return "an assembly already has a workspace"
        return None

    def apply(self, nest: LoopNest) -> LoopNest:
        problem, statement, body = nest.problem, nest.statement, loops_of(nest)
        path = [x for x in path_to(body, statement.target.tensor) or [] if not isinstance(x.domain, Lanes)]
        depth = max((n for n, loop in enumerate(path, 1) if places_target(loop, problem, statement)), default=0)
        vector, _ = _lanes(body)
        if depth == len(path) and vector in {None, *problem.with_parts(statement.target.variables())}:
            return nest  # there are neither loops below nor lanes to reduce
        return with_loops(nest, _at(body, depth, statement.target.tensor, lambda stmt: _sum_in_workspace(nest, stmt)))


def _at(stmt: Stmt, depth: int, tensor: str, change: Callable[[Stmt], Stmt]) -> Stmt:
    """Apply `change` to the part of a statement inside of the first `depth` loops around the assignment to `tensor`."""
    match stmt:
        case Forall(body=body, domain=domain) if depth and not isinstance(domain, Lanes):
            return replace(stmt, body=_at(body, depth - 1, tensor, change))
        case Where(consumer=consumer) if path_to(consumer, tensor) is not None:
            return replace(stmt, consumer=_at(consumer, depth, tensor, change))
        case Pack(body=body):
            return replace(stmt, body=_at(body, depth, tensor, change))
    return change(stmt)


def _sum_in_workspace(nest: LoopNest, stmt: Stmt) -> Where:
    """Return a statement that runs the reductions in the workspace `acc`, and then assigns the result to the target."""
    problem, statement = nest.problem, nest.statement
    dtype, monoid = problem.accumulator_of(statement), problem.monoid_of(statement)
    var, lanes = _lanes(loops_of(nest))
    acc = Workspace("acc", dtype, monoid, var, max(lanes, 1))
    producer = _into(stmt, statement.target, acc.access())
    if var is None or var in problem.with_parts(statement.target.variables()):
        store: Stmt = Assign(statement.target, acc.access(), dtype, monoid)
        return Where(acc, producer, store if var is None else Forall(var, Lanes(), store))
    total = Workspace("total", dtype, monoid)
    fold = Forall(var, WorkspaceLanes(), Assign(total.access(), acc.access(), dtype, monoid))
    return Where(total, Where(acc, producer, fold), Assign(statement.target, total.access(), dtype, monoid))


def _lanes(stmt: Stmt) -> tuple[str | None, int]:
    """The variable in lanes and the number of lanes; (None, 0) if nothing runs in lanes."""
    match stmt:
        case Forall(var=var, domain=Tiles(lanes=lanes)):
            return var, lanes
        case Forall(body=body) | Pack(body=body):
            return _lanes(body)
        case Where(producer=producer, consumer=consumer):
            in_lanes = _lanes(consumer)
            return _lanes(producer) if in_lanes[0] is None else in_lanes
    return None, 0


def _into(stmt: Stmt, target: Access, workspace: Access) -> Stmt:
    """Make a statement add to the workspace in place of the target."""
    match stmt:
        case Assign():
            return replace(stmt, target=workspace) if stmt.target == target else stmt
        case Forall(body=body) | Pack(body=body):
            return replace(stmt, body=_into(body, target, workspace))
        case Where(consumer=consumer):
            return replace(stmt, consumer=_into(consumer, target, workspace))
    return stmt
