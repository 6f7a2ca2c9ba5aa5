"""Problem + schedules → loop nest. The schedules make every decision; this module only carries them out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import cast

from jsparse.compiler.loops.assemble import assemble_loops
from jsparse.compiler.loops.blocked_sums import blocked_sums
from jsparse.compiler.loops.domain import Derivation, HorizontalReduce, Lanes, LevelIteration, Panels, Tiles
from jsparse.compiler.loops.level_iterators import LevelIterators, Loop
from jsparse.compiler.loops.nest import (
    AppendCoord,
    Assign,
    Clear,
    Forall,
    LoopNest,
    Pack,
    Parallel,
    Sequence,
    Stmt,
    Where,
    Widened,
    Workspace,
)
from jsparse.compiler.problem import Problem
from jsparse.compiler.scalar import Apply, Scalar, accesses_of, factors_of, product_of, replaced
from jsparse.compiler.schedule.schedule import Schedule
from jsparse.compiler.statement import Statement, as_added
from jsparse.notation.assignment import Access

__all__ = ["build_loops"]


def build_loops(problem: Problem, *schedules: Schedule) -> LoopNest:
    """The loop nest that the schedules describe: one for each statement, or one for an assembly.

    The nests of several statements follow each other. Accumulation: below the innermost loop over an index of the
    target, everything is a reduction. Its partial result lives in registers (the workspace `acc`) and is written once.
    If reductions also stand further out, the target is cleared and added to in memory. The last pass cuts long sums of
    float32 into blocks (`blocked_sums`).

    Raises ValueError for another number of schedules.
    """
    if problem.ordered:
        (schedule,) = schedules
        return assemble_loops(problem, schedule)
    pairs = zip(problem.statements, schedules, strict=True)
    parts = [blocked_sums(_Builder(problem, s, how).build(), problem, how.short) for s, how in pairs]
    return LoopNest(problem, parts[0] if len(parts) == 1 else Sequence(tuple(parts)))


class _Builder:
    """Builds the nest of one statement."""

    def __init__(self, problem: Problem, statement: Statement, schedule: Schedule) -> None:
        self.problem, self.statement, self.schedule = problem, statement, schedule
        self.target, self.positions = statement.target, problem.type_of[statement.target.tensor].positions
        self.stored = problem.type_of[self.target.tensor].dtype
        self.dtype, self.monoid = problem.accumulator_of(statement), problem.monoid_of(statement)
        self.free_vars = problem.with_parts(statement.target.variables())
        self.vector = schedule.order[-1] if schedule.lanes else None
        self.loops, self.summed, self.sum_at = self._sequence()
        self.register_at = self._register_depth()

    def build(self) -> Stmt:
        if self.problem.is_assembly:
            return self._listing(0)
        outer_reduction = any(self._reduces(loop) for loop in self.loops[: self.register_at])
        assert self.statement.value is not None
        body = self._emit(0, outer_reduction, self.statement.value)
        if outer_reduction and self.schedule.long_sums:
            return Widened(self.target, self.stored, body)
        cleared = outer_reduction or not self._covers_target()
        return Sequence((Clear(self.target, self.monoid), body)) if cleared else body

    def _listing(self, depth: int) -> Stmt:
        """All loops, reductions included, around an append: it lists every combination of entries that they reach."""
        return self._loop(depth, self._listing(depth + 1)) if depth < len(self.loops) else AppendCoord(self.target)

    def _sequence(self) -> tuple[list[Loop], list[Loop], int]:
        """The loops in order, the loops of `schedule.summed`, and the depth at which the latter stand."""
        scalar = self.schedule.order[:-1] if self.vector else self.schedule.order
        iterators = LevelIterators.of(self.problem, self.statement, self.schedule.merge_leaders)
        loops: list[Loop] = []
        summed: list[Loop] = []
        sum_at = 0
        for depth, var in enumerate((*scalar, None)):
            if self.vector and depth == self.schedule.tile:
                loops.append(Loop(self.vector, Tiles(self.schedule.lanes, self.schedule.wide)))
                loops += [Loop(scalar[-1], Panels(self.schedule.panel))] if self.schedule.panel else []
            if var is None:
                break
            bound = iterators.bind(var)
            if self.schedule.panel and var == scalar[-1]:
                bound[0] = replace(bound[0], domain=replace(cast(LevelIteration, bound[0].domain), panel=True))
            into = summed if var in self.schedule.summed else loops
            into += bound
            sum_at = len(loops) if isinstance(bound[0].domain, LevelIteration) else sum_at
        iterators.check()
        return loops, summed, sum_at

    def _reduces(self, loop: Loop) -> bool:
        return loop.var not in self.free_vars and not loop.filters

    def _register_depth(self) -> int:
        """The smallest depth below which no loop runs over an index of the target."""
        depth = len(self.loops)
        while depth and not self._places_target(self.loops[depth - 1]):
            depth -= 1
        return depth

    def _places_target(self, loop: Loop) -> bool:
        """Whether the loop determines where the target is written: by its variable, or by a position it looks up."""
        if not loop.filters:
            return loop.var in self.free_vars
        if isinstance(loop.domain, Derivation):
            return loop.var in self.free_vars
        own = None if self.positions is None else self.positions.pattern
        return isinstance(loop.domain, LevelIteration) and loop.domain.pattern == own

    def _covers_target(self) -> bool:
        """Whether the loops visit every element of the target: not if a sparse level leaves coordinates out, if a
        repeated index restricts them to a diagonal, or if a sum of others may leave an index out."""
        named = set(self.target.indices)
        if len(named) < len(self.target.indices) or not named.isdisjoint(self.problem.derivations):
            return False
        own = None if self.positions is None else self.positions.pattern
        if own is not None and self.problem.patterns[own].dynamic:
            return False
        return all(self._visits_all(loop, own) for loop in self.loops[: self.register_at])

    def _visits_all(self, loop: Loop, own: int | None) -> bool:
        """Whether the loop visits every coordinate of the target, which lies on pattern `own` or is dense."""
        if not isinstance(loop.domain, LevelIteration) or self._reduces(loop):
            return True
        level = self.problem.patterns[loop.domain.pattern].levels[loop.domain.level]
        return level.kind.is_full or (loop.domain.pattern == own and not loop.domain.bound)

    @property
    def _in_registers(self) -> bool:
        """Whether anything is summed below the innermost loop over the target."""
        return self.register_at < len(self.loops) or self._reduces_lanes

    @property
    def _reduces_lanes(self) -> bool:
        return self.vector is not None and self.vector not in self.free_vars

    def _emit(self, depth: int, accumulate: bool, value: Scalar) -> Stmt:
        if self.summed and depth == self.sum_at and value == self.statement.value:
            return self._sum_first(value, lambda rest: self._emit(depth, accumulate, rest))
        if depth == self.register_at and self._in_registers:
            return self._registers(depth, accumulate, value)
        if depth == len(self.loops):
            return self._innermost(self.target, accumulate, value)
        if isinstance(self.loops[depth].domain, Panels):
            return self._loop(depth, self._packed(value, lambda packed: self._emit(depth + 1, accumulate, packed)))
        return self._loop(depth, self._emit(depth + 1, accumulate, value))

    def _packed(self, value: Scalar, consume: Callable[[Scalar], Stmt]) -> Stmt:
        """`consume` of the value, with the gathered factor read from a packed copy."""
        gathered = set(self.schedule.order[-2:])
        (source,) = (f for f in accesses_of(value) if f.variables() and set(f.variables()) == gathered)
        access = Access("pack", source.indices)
        return Pack("pack", source, consume(replaced(value, source, access)))

    def _loop(self, depth: int, body: Stmt) -> Forall:
        loop = self.loops[depth]
        parallel = None
        if loop.var == self.schedule.parallel and not loop.filters:
            parallel = Parallel(self.schedule.mode, self.schedule.grain)
        innermost = max((n for n, other in enumerate(self.loops) if self._walks_entries(other)), default=-1)
        prefetch = self.schedule.prefetch if depth == innermost and not self._sums_in_lanes else 0
        jam = self.schedule.copies if loop.var == self.schedule.jammed and not loop.filters else 1
        return Forall(loop.var, loop.domain, body, parallel, prefetch, jam)

    def _walks_entries(self, loop: Loop) -> bool:
        """Whether a loop runs over a segment of stored entries."""
        if not isinstance(loop.domain, LevelIteration) or loop.filters:
            return False
        return not self.problem.patterns[loop.domain.pattern].is_single(loop.domain.level)

    def _registers(self, depth: int, accumulate: bool, value: Scalar) -> Stmt:
        """where(acc, reductions, target = acc); a reduction that runs in lanes is reduced to a scalar in between."""
        acc = Workspace("acc", self.dtype, self.monoid, self.vector, max(self.schedule.lanes, 1))
        producer = self._below(depth, acc.access(), value)
        if not self._reduces_lanes:
            return Where(acc, producer, self._innermost(self.target, accumulate, acc.access()))
        total = Workspace("total", self.dtype, self.monoid)
        fold = Forall(str(self.vector), HorizontalReduce(), self._assign(total.access(), True, acc.access()))
        return Where(total, Where(acc, producer, fold), self._assign(self.target, accumulate, total.access()))

    def _below(self, depth: int, into: Access, value: Scalar) -> Stmt:
        if self.summed and depth == self.sum_at and value == self.statement.value:
            return self._sum_first(value, lambda rest: self._below(depth, into, rest))
        if depth == len(self.loops):
            return self._innermost(into, True, value)
        return self._loop(depth, self._below(depth + 1, into, value))

    @property
    def _sums_in_lanes(self) -> bool:
        """Whether factors that depend on the summed variables run in lanes."""
        names = {loop.var for loop in self.summed if not loop.filters}
        factors = (set(f.variables()) for f in self.statement.reads)
        return any(self.vector in f and names & f for f in factors)

    def _sum_first(self, value: Scalar, consume: Callable[[Scalar], Stmt]) -> Stmt:
        """where(sub = Σ of the factors that depend on the summed variables, the rest of the product with sub)."""
        names = {loop.var for loop in self.summed if not loop.filters}
        factors = factors_of(value)
        assert factors is not None
        multiply = value.operation if isinstance(value, Apply) else "*"
        inner = tuple(f for f in factors if names & set(f.variables()))
        outer = tuple(f for f in factors if not names & set(f.variables()))
        in_lanes = self._sums_in_lanes
        checked = self.schedule.mode != "reduced"  # a chunk of a reduction does not know whether others added to it
        lanes = (self.vector, self.schedule.lanes) if in_lanes else (None, 1)
        sub = Workspace("sub", self.dtype, self.monoid, *lanes, checked)
        summed = product_of(multiply, inner)
        make = self._innermost if in_lanes else self._assign
        producer = make(sub.access(), True, summed)
        for loop in reversed(self.summed):
            ahead = self.schedule.prefetch if in_lanes and loop is self.summed[-1] else 0
            producer = Forall(loop.var, loop.domain, producer, None, ahead)
        return Where(sub, producer, consume(product_of(multiply, (sub.access(), *outer))))

    def _innermost(self, target: Access, accumulate: bool, value: Scalar) -> Stmt:
        assign = self._assign(target, accumulate, value)
        return Forall(self.vector, Lanes(), assign) if self.vector else assign

    def _assign(self, target: Access, accumulate: bool, value: Scalar) -> Assign:
        """The assignment, under the statement's condition where its whole value is added."""
        condition = self.statement.condition if value == self.statement.value else None
        is_workspace = isinstance(value, Access) and value.tensor not in self.problem.type_of
        added = value if is_workspace else as_added(value, self.monoid, self.stored, self.dtype)
        return Assign(target, added, self.dtype, self.monoid, accumulate, condition)
