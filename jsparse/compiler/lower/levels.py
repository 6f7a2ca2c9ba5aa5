"""Loops over the entries of a pattern's level, for each kind of level (the level functions of Chou et al., 2018)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from jsparse.compiler.kernel.algebra import add, block, both, const, floor_div, less, minimum, mul, sub
from jsparse.compiler.kernel.jam import jammed
from jsparse.compiler.kernel.nodes import (
    Binary,
    Buffer,
    Compare,
    Const,
    Declare,
    Expr,
    Extent,
    For,
    If,
    Let,
    Select,
    Set,
    Stmt,
    Var,
    While,
)
from jsparse.compiler.kernel.types import BOOL
from jsparse.compiler.loops.domain import LevelIteration
from jsparse.compiler.loops.nest import Forall
from jsparse.compiler.lower.chunks import Partials, chunked, in_chunks, lower_bound
from jsparse.compiler.lower.runs import counted, in_run
from jsparse.compiler.lower.scope import PositionRange, Run, Scope
from jsparse.compiler.problem import PatternType
from jsparse.formats.level import LevelKind
from jsparse.notation.assignment import IndexVar

__all__ = ["Entry", "LevelWalk", "each_entry"]


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a level: its coordinate and its positions. `position` is set where a plain loop runs over stored
    coordinates, which can be prefetched."""

    coordinate: Expr
    positions: PositionRange
    position: Expr | None = None


_ARRAYS = {LevelKind.DENSE: 0, LevelKind.COMPRESSED: 2, LevelKind.SINGLETON: 1}

Body = Callable[[Entry], Stmt]


def each_entry(scope: Scope, domain: LevelIteration, loop: Forall, body: Body, partials: Partials | None) -> Stmt:
    """The loop over the level's entries below the present positions of the level above, parallel if `loop` is."""
    level = LevelWalk(scope, domain, loop.var, loop.jam, scope.runs[loop.var] if loop.run else None)
    if loop.parallel is None:
        return level.serial(body)
    return level.parallel(loop.parallel.grain, body, partials)


class LevelWalk:
    """Access to the entries of one level below the present positions of the level above."""

    def __init__(
        self, scope: Scope, domain: LevelIteration, var: IndexVar, jam: int = 1, run: Run | None = None
    ) -> None:
        self.scope, self.domain, self.var, self.jam, self.run = scope, domain, var, jam, run
        self.type: PatternType = scope.storage.problem.patterns[domain.pattern]
        self.kind = self.type.levels[domain.level].kind
        self.above = scope.positions.get((domain.pattern, domain.level - 1), PositionRange(const(0)))

    def serial(self, body: Body) -> Stmt:
        written = None if self.domain.bound else self.written_out()
        if written is not None:
            return block(*(counted(self.run, body(entry)) for entry in written))
        if self.kind is LevelKind.DENSE:
            if self.domain.bound:
                return body(self.dense_entry(self.scope.indices[self.var]))
            return self.dense_loop(const(0), self.scope.storage.size(self.var), body)
        if self.kind is LevelKind.SINGLETON and self.above.stop is None and self.above.present is None:
            return self.one(self.above.first, body)
        first, stop, prelude = self.bounds()
        if self.domain.bound:
            return block(*prelude, self.lookup(first, stop, body))
        return block(*prelude, self.stored_loop(first, stop, body))

    def written_out(self) -> list[Entry] | None:
        """All entries, if the pattern's content and the position above are compile-time constants; else None."""
        above = self.above.stop or self.above.first
        if not self.type.content or not isinstance(self.above.first, Const) or not isinstance(above, Const):
            return None
        parent, arrays = int(self.above.first.value), self.arrays()
        if self.kind is LevelKind.DENSE:
            size = self.scope.storage.problem.size[self.var]
            assert size is not None
            return [Entry(const(n), PositionRange(const(parent * size + n))) for n in range(size)]
        end = parent + 1 if self.above.stop is None else int(above.value)
        first, stop = (parent, end) if self.kind is LevelKind.SINGLETON else (arrays[0][parent], arrays[0][end])
        coordinates = arrays[-1]
        runs = [p for p in range(first, stop) if p == first or coordinates[p] != coordinates[p - 1]]
        if not self.repeats:
            return [Entry(const(coordinates[p]), PositionRange(const(p))) for p in range(first, stop)]
        ends = [*runs, stop][1:]
        return [
            Entry(const(coordinates[p]), PositionRange(const(p), const(e))) for p, e in zip(runs, ends, strict=True)
        ]

    def arrays(self) -> list[tuple[int, ...]]:
        """The content of the level's index arrays."""
        kinds = [level.kind for level in self.type.levels]
        before = sum(_ARRAYS[kind] for kind in kinds[: self.domain.level])
        return list(self.type.content[before : before + _ARRAYS[self.kind]])

    def lookup(self, first: Expr, stop: Expr, body: Body) -> Stmt:
        """Locate the entry of the bound coordinate, by bisection of the sorted segment."""
        wanted = self.scope.indices[self.var]
        search, found = lower_bound(self.scope, first, stop, lambda n: Compare("<=", wanted, self.coordinate(n)))
        end = self.scope.fresh("end")
        here = Compare("==", self.coordinate(found), wanted)
        if not self.repeats:
            return block(search, If(less(found, stop), If(here, body(Entry(wanted, PositionRange(found))))))
        rest, behind = lower_bound(self.scope, found, stop, lambda n: less(wanted, self.coordinate(n)))
        run = block(rest, Let(end, behind), body(Entry(wanted, PositionRange(found, end))))
        return block(search, If(less(found, stop), If(here, run)))

    def bounds(self) -> tuple[Expr, Expr, list[Stmt]]:
        """(first, stop, statements before) of the positions below the positions above."""
        if self.kind is LevelKind.SINGLETON:
            first = self.above.first
            stop = add(first, const(1)) if self.above.stop is None else self.above.stop
            return first, stop if self.above.present is None else Select(self.above.present, stop, first), []
        pointers = self.scope.storage.pointers(self.domain.pattern, self.domain.level)
        first, stop = self.scope.fresh("first"), self.scope.fresh("stop")
        here, below = self.load(pointers, self.above.first), self.load(pointers, add(self.above.first, const(1)))
        if self.above.present is None:
            lo, hi = self.limited(self.clamped(here), self.clamped(below))
            return first, stop, [Let(first, lo), Let(stop, hi)]
        read = block(Set(first, self.clamped(here)), Set(stop, self.clamped(below)))
        return first, stop, [Declare(first, const(0)), Declare(stop, const(0)), If(self.above.present, read)]

    def limited(self, first: Expr, stop: Expr) -> tuple[Expr, Expr]:
        """The part of a segment inside the chunk's position bounds."""
        position_bounds = self.scope.position_bounds.get((self.domain.pattern, self.domain.level))
        if position_bounds is None:
            return first, stop
        return Binary("max", first, position_bounds[0]), minimum(stop, position_bounds[1])

    def length(self) -> tuple[list[Stmt], Expr]:
        """An upper bound of the number of entries below the positions above."""
        if self.kind is LevelKind.DENSE:
            return [], self.scope.storage.size(self.var)
        first, stop, prelude = self.bounds()
        return prelude, Binary("max", sub(stop, first), const(0))

    def load(self, array: Buffer, place: Expr) -> Expr:
        """An element of an index array, in the batch member that the leading indices choose."""
        lead = self.scope.storage.problem.lead_variables[self.domain.pattern]
        offset: Expr = const(0)
        for axis, var in enumerate(lead, start=1):
            offset = mul(add(offset, self.scope.indices[var]), Extent(array, axis))
        return self.scope.load_index(array, add(offset, place))

    def capacity(self) -> Expr:
        """The capacity of the level: how many positions its arrays can hold."""
        return Extent(self.scope.storage.coordinates(self.domain.pattern, self.domain.level), self.type.lead)

    def clamped(self, position: Expr) -> Expr:
        """A position read from memory. Dynamic patterns may hold any number, so theirs is clamped to the capacity."""
        if not self.type.padded:
            return position
        return Binary("max", minimum(position, self.capacity()), const(0))

    def coordinate(self, position: Expr) -> Expr:
        return self.load(self.scope.storage.coordinates(self.domain.pattern, self.domain.level), position)

    def dense_entry(self, coordinate: Expr) -> Entry:
        size = self.scope.storage.size(self.var)
        return Entry(coordinate, PositionRange(add(mul(self.above.first, size), coordinate), None, self.above.present))

    def dense_loop(self, start: Expr, stop: Expr, body: Body) -> Stmt:
        n = self.scope.fresh(self.var)
        inner = body(self.dense_entry(n))
        return in_run(self.scope, self.run, start, stop, lambda lo, hi: jammed(For(n, lo, hi, inner), self.jam))

    def one(self, position: Expr, body: Body, stop: Expr | None = None, plain: bool = False) -> Stmt:
        """The body at one position (or run of positions), if the coordinate is in range, and the bound one."""
        coordinate = self.scope.fresh(self.var)
        entry = Entry(coordinate, PositionRange(position, stop), position if plain else None)
        wanted: Expr = Const(1, BOOL)
        if self.domain.bound:
            wanted = Compare("==", coordinate, self.scope.indices[self.var])
        elif self.type.padded:
            wanted = both(Compare("<=", const(0), coordinate), less(coordinate, self.scope.storage.size(self.var)))
        inner = body(entry)
        always = isinstance(wanted, Const)
        return block(Let(coordinate, self.coordinate(position)), inner if always else If(wanted, inner))

    def stored_loop(self, first: Expr, stop: Expr, body: Body) -> Stmt:
        if self.type.repeats(self.domain.level):
            return self.runs(first, stop, body)
        p = self.scope.fresh("p")
        inner = self.one(p, body, plain=True)
        return in_run(self.scope, self.run, first, stop, lambda lo, hi: jammed(For(p, lo, hi, inner), self.jam))

    def runs(self, first: Expr, stop: Expr, body: Body) -> Stmt:
        """The loop over runs of positions that share a coordinate, so that loops below see each coordinate once."""
        p, run, end = self.scope.fresh("p"), self.scope.fresh("run"), self.scope.fresh("end")
        same = Compare("==", self.coordinate(minimum(end, add(stop, const(-1)))), self.coordinate(run))
        return block(
            Declare(p, first),
            While(
                less(p, stop),
                block(
                    Let(run, p),
                    Declare(end, add(run, const(1))),
                    While(Binary("&", less(end, stop), same), Set(end, add(end, const(1)))),
                    counted(self.run, self.one(run, body, end)),
                    Set(p, end),
                ),
            ),
        )

    def parallel(self, grain: int, body: Body, partials: Partials | None) -> Stmt:
        """Divide the outermost level into chunks of about equal numbers of last-level entries."""
        if self.domain.level != 0 or self.domain.bound:
            raise ValueError(f"only the outermost level of a pattern is divided over threads, not {self.domain}")
        size, prelude, loop = self.whole()
        if not any(level.kind is LevelKind.COMPRESSED for level in self.type.levels[1:]) and not self.repeats:
            parts = in_chunks(self.scope, size, grain, lambda start, stop: loop(start, stop, body), partials)
            return block(*prelude, parts)
        return block(*prelude, self.weighted(size, grain, lambda start, stop: loop(start, stop, body), partials))

    def whole(self) -> tuple[Expr, list[Stmt], Callable[[Expr, Expr, Body], Stmt]]:
        """(number of positions, statements before, loop over a range of them) of the whole outermost level."""
        if self.kind is LevelKind.DENSE:
            return self.scope.storage.size(self.var), [], self.dense_loop
        _, stop, prelude = self.bounds()
        return stop, prelude, self.stored_loop

    @property
    def repeats(self) -> bool:
        return self.type.repeats(self.domain.level)

    def weighted(self, size: Expr, grain: int, loop: Callable[[Expr, Expr], Stmt], partials: Partials | None) -> Stmt:
        """Chunks of equal weight: the weight of the first n positions is n plus the last-level entries below them."""
        total = self.scope.fresh("total")

        def part(chunk: Expr, chunks: Expr) -> Stmt:
            before, start = self.boundary(chunk, chunks, total, size)
            behind, stop = self.boundary(add(chunk, const(1)), chunks, total, size)
            return block(before, behind, loop(start, stop))

        return block(Let(total, self.weight(size)), chunked(self.scope, total, grain, part, partials))

    def boundary(self, chunk: Expr, chunks: Expr, total: Expr, size: Expr) -> tuple[Stmt, Var]:
        goal = self.scope.fresh("goal")
        search, found = lower_bound(self.scope, const(0), size, lambda n: Compare("<=", goal, self.weight(n)))
        before: list[Stmt] = [Let(goal, floor_div(mul(chunk, total), chunks)), search]
        if self.repeats:
            before.append(self.to_run_start(found, size))
        return block(*before), found

    def to_run_start(self, place: Var, size: Expr) -> Stmt:
        """Move a boundary to the next position where the coordinate changes: a run belongs to one chunk."""
        here = self.coordinate(minimum(place, add(size, const(-1))))
        left = self.coordinate(Binary("max", add(place, const(-1)), const(0)))
        inside = Binary("&", less(const(0), place), less(place, size))
        move = While(Binary("&", inside, Compare("==", here, left)), Set(place, add(place, const(1))))
        return If(less(const(0), size), move)

    def weight(self, position: Expr) -> Expr:
        """The weight of all positions before one: monotone, and one load for each compressed level."""
        return add(position, self.leaf(position))

    def leaf(self, position: Expr, first: int = 1, stop: int | None = None) -> Expr:
        """The number of positions of level `stop - 1` (default: the last) below the first `position` of `first - 1`."""
        leaf = position
        variables = self.scope.storage.problem.level_variables[self.domain.pattern]
        for depth in range(first, len(self.type.levels) if stop is None else stop):
            kind = self.type.levels[depth].kind
            if kind is LevelKind.DENSE:
                leaf = mul(leaf, self.scope.storage.size(variables[depth]))
            elif kind is LevelKind.COMPRESSED:
                leaf = self.load(self.scope.storage.pointers(self.domain.pattern, depth), leaf)
                leaf = LevelWalk(self.scope, replace(self.domain, level=depth), self.var).clamped(leaf)
        return leaf
