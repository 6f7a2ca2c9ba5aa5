"""Blocked sums: loops cut into runs, and the runs' sums added to a total.

Most segments are shorter than a run. So the total is only written where a run ends before its loops do: a segment of
one run costs one comparison, and its sum stays in the accumulator.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from jsparse.compiler.kernel.algebra import block, const, zero
from jsparse.compiler.kernel.algebra import cast as as_dtype
from jsparse.compiler.kernel.nodes import Binary, Compare, Declare, Expr, If, Set, Stmt
from jsparse.compiler.kernel.types import BOOL, Type
from jsparse.compiler.loops.domain import LevelIteration, Range, Runs, Tiles
from jsparse.compiler.loops.nest import Assign, Forall, Where, Workspace
from jsparse.compiler.loops.nest import Stmt as LoopStmt
from jsparse.compiler.lower.assembly import Lowering
from jsparse.compiler.lower.chunks import Partials
from jsparse.compiler.lower.runs import NO, YES
from jsparse.compiler.lower.scope import Run, Scope, added_flag
from jsparse.compiler.lower.totals import Total
from jsparse.compiler.problem import Problem

__all__ = ["add_runs", "total_where"]


def total_where(where: Where, scope: Scope, lowerer: Lowering) -> Stmt:
    """Producer and consumer of a total that runs are added to. After the runs, the accumulator holds the total."""
    runs, workspace = where.producer, where.workspace
    assert isinstance(runs, Forall)
    assert isinstance(workspace, Workspace)
    block_sum, producer = _of_run(runs)
    lanes = 0 if workspace.var is None else scope.lanes or workspace.lanes
    accumulator = scope.fresh(block_sum.name, Type(block_sum.dtype, lanes))
    mark: list[Stmt] = []
    if workspace.checked:
        flag = scope.fresh("added", BOOL)
        mark.append(Declare(flag, NO))
        scope = scope.with_register(added_flag(workspace.name), flag).with_register(added_flag(block_sum.name), flag)
    total, outside = Total(scope, accumulator), scope.with_register(workspace.name, accumulator)
    if runs.parallel is not None:
        summed = _chunks(runs, total, scope, lowerer)
    elif _begins(producer, scope.storage.problem):
        size = cast(Runs, runs.domain).size
        inside = scope.with_register(block_sum.name, accumulator).with_run(runs.var, Run(size, total.joined))
        summed = block(total.made(), lowerer.stmt(producer, inside))
    else:
        going = _Going(runs, total, scope)
        end = If(going.several, total.joined(NO, YES), rare=True)
        summed = block(going.start(), lowerer.stmt(producer, going.scope), end)
    return block(*mark, summed, lowerer.stmt(where.consumer, outside))


def add_runs(runs: Forall, scope: Scope, lowerer: Lowering) -> Stmt:
    """Runs of one segment, added to a scalar total that other segments share."""
    block_sum, producer = _of_run(runs)
    assert isinstance(runs.body, Where)
    assert isinstance(runs.body.consumer, Assign)
    name = runs.body.consumer.target.tensor
    total, accumulator = scope.registers[name], scope.fresh(block_sum.name, Type(block_sum.dtype))
    if block_sum.checked:
        scope = scope.with_register(added_flag(block_sum.name), scope.registers[added_flag(name)])
    left, size = scope.fresh("left"), cast(Runs, runs.domain).size
    joined = Set(total, Binary("+", total, as_dtype(accumulator, total.type.dtype)))
    empty = zero(accumulator.type)

    def ends(first: Expr, last: Expr) -> Stmt:
        return block(joined, Set(accumulator, empty))

    inside = scope.with_register(block_sum.name, accumulator).with_run(runs.var, Run(size, ends, left))
    start = block(Declare(accumulator, empty), Declare(left, const(size)))
    return block(start, lowerer.stmt(producer, inside), joined)


class _Going:
    """Runs that continue from one execution of the cut loop to the next.

    Attributes:
        several: whether a run has ended.
        scope: the scope of the loops.
    """

    def __init__(self, runs: Forall, total: Total, scope: Scope) -> None:
        self.total, self.size = total, cast(Runs, runs.domain).size
        self.left, self.several = scope.fresh("left"), scope.fresh("several", BOOL)
        inside = scope.with_register(_of_run(runs)[0].name, total.accumulator)
        self.scope = inside.with_run(runs.var, Run(self.size, self.ends, self.left))

    def start(self) -> Stmt:
        """The declarations in front of the loops."""
        return block(self.total.made(), Declare(self.left, const(self.size)), Declare(self.several, NO))

    def ends(self, first: Expr, last: Expr) -> Stmt:
        """End a run that may not be the last."""
        return block(self.total.joined(_no(self.several), NO), Set(self.several, YES))


def _chunks(runs: Forall, total: Total, scope: Scope, lowerer: Lowering) -> Stmt:
    """Runs divided over threads: each chunk has its own total, and the totals are added in the chunks' order."""
    block_sum, producer = _of_run(runs)
    assert isinstance(producer, Forall)
    own = Total(scope, scope.fresh(block_sum.name, total.accumulator.type))
    going = _Going(runs, own, scope)
    copies = total.copies()

    def chunk(number: Expr, loops: Stmt) -> Stmt:
        rest = own.joined(_no(going.several), NO)
        return block(going.start(), loops, rest, total.kept(copies, number, own))

    divided = Partials(chunk, lambda chunks: total.added(copies, chunks))
    loops = lowerer.forall(replace(producer, parallel=runs.parallel), going.scope, divided)
    return block(total.made(), total.copies_made(copies), loops)


def _of_run(runs: Forall) -> tuple[Workspace, LoopStmt]:
    """The workspace of a run's sum, and the loops that produce it."""
    body = runs.body
    assert isinstance(body, Where)
    assert isinstance(body.workspace, Workspace)
    return body.workspace, body.producer


def _begins(stmt: LoopStmt, problem: Problem) -> bool:
    """Whether the cut loop is executed at most once, over a range of positions, so that it always begins a run."""
    if not isinstance(stmt, Forall):
        return False
    domain = stmt.domain
    if stmt.run:
        if isinstance(domain, LevelIteration):
            pattern = problem.patterns[domain.pattern]
            return not stmt.unroll and not pattern.repeats(domain.level)
        return isinstance(domain, Range | Tiles) and not stmt.unroll
    once = isinstance(domain, LevelIteration) and (
        domain.bound or problem.patterns[domain.pattern].is_single(domain.level)
    )
    return once and _begins(stmt.body, problem)


def _no(flag: Expr) -> Expr:
    return Compare("==", flag, NO)
