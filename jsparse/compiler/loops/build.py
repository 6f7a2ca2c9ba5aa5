"""Problem + schedule → loop nest. The schedule makes every decision; this module only carries them out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import cast

from jsparse.compiler.loops.assemble import assemble_loops
from jsparse.compiler.loops.blocked_sums import blocked_sums
from jsparse.compiler.loops.domain import HorizontalReduce, Lanes, LevelIteration, Panels, Tiles
from jsparse.compiler.loops.level_iterators import LevelIterators, Loop
from jsparse.compiler.loops.nest import AppendCoord, Assign, Forall, LoopNest, Pack, Parallel, Stmt, Where, Workspace
from jsparse.compiler.problem import Problem
from jsparse.compiler.schedule.schedule import Schedule
from jsparse.notation.assignment import Access

__all__ = ["build_loops"]


def build_loops(problem: Problem, schedule: Schedule) -> LoopNest:
    """The loop nest that `schedule` describes.

    Accumulation: below the innermost loop over an index of the target, everything is a reduction. Its partial result
    lives in registers (the workspace `acc`) and is written once. If reductions also stand further out, the target is
    cleared and added to in memory. The last pass cuts long sums of float32 into blocks (`blocked_sums`).
    """
    if problem.terms:
        return assemble_loops(problem, schedule)
    return blocked_sums(_Builder(problem, schedule).build(), schedule.short)


class _Builder:
    def __init__(self, problem: Problem, schedule: Schedule) -> None:
        self.problem, self.schedule = problem, schedule
        self.target = problem.assignment.target
        self.dtype = problem.accumulator
        self.free_vars = frozenset(self.target.variables())
        self.vector = schedule.order[-1] if schedule.lanes else None
        self.loops, self.summed, self.sum_at = self._sequence()
        self.register_at = self._register_place()

    def build(self) -> LoopNest:
        if self.problem.is_assembly:
            return LoopNest(self.problem, False, self._listing(0))
        outer_reduction = any(self._reduces(loop) for loop in self.loops[: self.register_at])
        body = self._emit(0, outer_reduction, self.problem.product)
        clear = outer_reduction or not self._covers_target()
        return LoopNest(self.problem, clear, body, outer_reduction and self.schedule.long_sums)

    def _listing(self, place: int) -> Stmt:
        """All loops, reductions included, around an append: it lists every combination of entries that they reach."""
        return self._loop(place, self._listing(place + 1)) if place < len(self.loops) else AppendCoord(self.target)

    def _sequence(self) -> tuple[list[Loop], list[Loop], int]:
        """The loops in order, the loops of `schedule.summed`, and the place in the former where the latter stand."""
        scalar = self.schedule.order[:-1] if self.vector else self.schedule.order
        iterators = LevelIterators(self.problem, self.schedule.merge_leaders)
        loops: list[Loop] = []
        summed: list[Loop] = []
        sum_at = 0
        for place, var in enumerate((*scalar, None)):
            if self.vector and place == self.schedule.tile:
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

    def _register_place(self) -> int:
        """The first place below which no loop runs over an index of the target."""
        place = len(self.loops)
        while place and not self._places_target(self.loops[place - 1]):
            place -= 1
        return place

    def _places_target(self, loop: Loop) -> bool:
        """Whether the loop determines where the target is written: by its variable, or by a position it looks up."""
        if not loop.filters:
            return loop.var in self.free_vars
        positions = self.problem.type_of[self.target.tensor].positions
        return (
            positions is not None
            and isinstance(loop.domain, LevelIteration)
            and loop.domain.pattern == positions.pattern
        )

    def _covers_target(self) -> bool:
        """Whether the loops visit every element of the target: not if a sparse level leaves coordinates out, or if a
        repeated index restricts them to a diagonal."""
        if len(set(self.target.indices)) < len(self.target.indices):
            return False
        positions = self.problem.type_of[self.target.tensor].positions
        own = None if positions is None else positions.pattern
        if own is not None and self.problem.patterns[own].padded:
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

    def _emit(self, place: int, accumulate: bool, factors: tuple[Access, ...]) -> Stmt:
        if self.summed and place == self.sum_at and factors == self.problem.product:
            return self._sum_first(factors, lambda rest: self._emit(place, accumulate, rest))
        if place == self.register_at and self._in_registers:
            return self._registers(place, accumulate, factors)
        if place == len(self.loops):
            return self._innermost(self.target, accumulate, factors)
        if isinstance(self.loops[place].domain, Panels):
            return self._loop(place, self._packed(factors, lambda packed: self._emit(place + 1, accumulate, packed)))
        return self._loop(place, self._emit(place + 1, accumulate, factors))

    def _packed(self, factors: tuple[Access, ...], consume: Callable[[tuple[Access, ...]], Stmt]) -> Stmt:
        """`consume` of the factors, with the gathered one read from a packed copy."""
        (source,) = (f for f in factors if f.variables() and set(f.variables()) == set(self.schedule.order[-2:]))
        access = Access("pack", source.indices)
        return Pack("pack", source, consume(tuple(access if f == source else f for f in factors)))

    def _loop(self, place: int, body: Stmt) -> Forall:
        loop = self.loops[place]
        parallel = None
        if loop.var == self.schedule.parallel and not loop.filters:
            parallel = Parallel(self.schedule.mode, self.schedule.grain)
        innermost = max((n for n, other in enumerate(self.loops) if self._walks_entries(other)), default=-1)
        prefetch = self.schedule.prefetch if place == innermost and not self._sums_in_lanes else 0
        jam = self.schedule.copies if loop.var == self.schedule.jammed and not loop.filters else 1
        return Forall(loop.var, loop.domain, body, parallel, prefetch, jam)

    def _walks_entries(self, loop: Loop) -> bool:
        """Whether a loop runs over a segment of stored entries."""
        if not isinstance(loop.domain, LevelIteration) or loop.filters:
            return False
        return not self.problem.patterns[loop.domain.pattern].is_single(loop.domain.level)

    def _registers(self, place: int, accumulate: bool, factors: tuple[Access, ...]) -> Stmt:
        """where(acc, reductions, target = acc); a reduction that runs in lanes is reduced to a scalar in between."""
        acc = Workspace("acc", self.dtype, self.vector, max(self.schedule.lanes, 1))
        producer = self._below(place, acc.access(), factors)
        if not self._reduces_lanes:
            return Where(acc, producer, self._innermost(self.target, accumulate, (acc.access(),)))
        total = Workspace("total", self.dtype)
        fold = Forall(str(self.vector), HorizontalReduce(), Assign(total.access(), True, (acc.access(),)))
        return Where(total, Where(acc, producer, fold), Assign(self.target, accumulate, (total.access(),)))

    def _below(self, place: int, into: Access, factors: tuple[Access, ...]) -> Stmt:
        if self.summed and place == self.sum_at and factors == self.problem.product:
            return self._sum_first(factors, lambda rest: self._below(place, into, rest))
        if place == len(self.loops):
            return self._innermost(into, True, factors)
        return self._loop(place, self._below(place + 1, into, factors))

    @property
    def _sums_in_lanes(self) -> bool:
        """Whether factors that depend on the summed variables run in lanes."""
        names = {loop.var for loop in self.summed if not loop.filters}
        factors = (set(f.variables()) for f in self.problem.assignment.factors)
        return any(self.vector in f and names & f for f in factors)

    def _sum_first(self, factors: tuple[Access, ...], consume: Callable[[tuple[Access, ...]], Stmt]) -> Stmt:
        """where(sub = Σ of the factors that depend on the summed variables, the rest of the product with sub)."""
        names = {loop.var for loop in self.summed if not loop.filters}
        inner = tuple(f for f in factors if names & set(f.variables()))
        outer = tuple(f for f in factors if not names & set(f.variables()))
        in_lanes = self._sums_in_lanes
        checked = self.schedule.mode != "reduced"  # a chunk of a reduction does not know whether others added to it
        lanes = (self.vector, self.schedule.lanes) if in_lanes else (None, 1)
        sub = Workspace("sub", self.dtype, *lanes, checked)
        producer = self._innermost(sub.access(), True, inner) if in_lanes else Assign(sub.access(), True, inner)
        for loop in reversed(self.summed):
            ahead = self.schedule.prefetch if in_lanes and loop is self.summed[-1] else 0
            producer = Forall(loop.var, loop.domain, producer, None, ahead)
        return Where(sub, producer, consume((sub.access(), *outer)))

    def _innermost(self, target: Access, accumulate: bool, factors: tuple[Access, ...]) -> Stmt:
        compared = self.problem.compared if factors == self.problem.product else ()
        assign = Assign(target, accumulate, factors, compared=compared)
        return Forall(self.vector, Lanes(), assign) if self.vector else assign
