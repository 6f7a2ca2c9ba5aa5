"""Loops over the entries of a pattern's level, made from the functions of the level's kind (`compiler.levels`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from itertools import groupby
from operator import itemgetter

from jsparse.base.dataclass import dataclass
from jsparse.compiler.dtypes import BOOL, I64, Type
from jsparse.compiler.kernel import nodes as ir
from jsparse.compiler.kernel.algebra import add, at_most, block, both, cast, const, less, minimum, mul
from jsparse.compiler.levels import FUNCTIONS, PositionRange, Segment
from jsparse.compiler.loops.domain import LevelIteration
from jsparse.compiler.loops.nest import Forall
from jsparse.compiler.lower.chunks import (
    Loop,
    Partials,
    at_weight,
    between,
    count_iteration,
    for_each_chunk,
    in_chunks,
    in_run,
    lower_bound,
)
from jsparse.compiler.lower.scope import Map, Run, Scope
from jsparse.compiler.problem import StorageType
from jsparse.notation.assignment import IndexVar


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a level: its coordinate and its positions. `position` is set only if a loop reads the coordinates at
    consecutive positions from an array. It can then also read the coordinates of later entries, for prefetches."""

    coordinate: ir.Expr
    positions: PositionRange
    position: ir.Expr | None = None


TESTED = 256  # the maximum number of positions that are tested before the body runs at the ones found
DISTANCES = Type("int32")  # of the distance from the first tested position to one that is found

Body = Callable[[Entry], ir.Stmt]


def each_entry(scope: Scope, domain: LevelIteration, loop: Forall, body: Body, partials: Partials | None) -> ir.Stmt:
    """Return the loop over the entries below the present positions of the level above. It is parallel if `loop` is."""
    inner, filter_ = loop.body, None
    if isinstance(inner, Forall) and isinstance(inner.domain, LevelIteration) and inner.var == loop.var:
        # The body looks each coordinate up in a map, which filters the coordinates before the body runs.
        filter_ = scope.maps.get((inner.domain.pattern, inner.domain.level)) if inner.domain.scattered else None
    run = scope.runs[loop.var] if loop.run else None
    level = LevelWalk(scope, domain, loop.var, loop.jam, run, loop.unroll, filter_)
    if loop.parallel is None:
        return level.serial(body)
    size, prelude, walk = level.whole()
    chunks = level.divide_into_chunks(size, loop.parallel.grain, lambda lo, hi: walk(lo, hi, body), partials)
    return block(*prelude, chunks)


class LevelWalk:
    """Access to the entries of one level below the present positions of the level above."""

    def __init__(
        self,
        scope: Scope,
        domain: LevelIteration,
        var: IndexVar,
        jam: int = 1,
        run: Run | None = None,
        unroll: bool = False,
        filter_: Map | None = None,
    ) -> None:
        self.scope, self.domain, self.var = scope, domain, var
        self.jam, self.run, self.unroll, self.filter = jam, run, unroll, filter_
        self.type: StorageType = scope.storage.problem.patterns[domain.pattern]
        self.kind = self.type.levels[domain.level].kind
        self.functions = FUNCTIONS[self.kind]
        self.above = scope.positions.get((domain.pattern, domain.level - 1), PositionRange(const(0)))

    def serial(self, body: Body) -> ir.Stmt:
        written = self.constant_entries() if self.unroll else None
        if written is not None:
            return block(*(count_iteration(self.run, body(entry)) for entry in written))
        if self.kind.is_full:
            if self.domain.bound:
                return body(self.full_entry(self.scope.indices[self.var]))
            return self.full_loop(const(0), self.extent(), body)
        if self.kind.is_branchless and self.above.stop is None and self.above.present is None:
            return self.one(self.above.first, body)
        if self.domain.scattered:
            # The map of the segment has a mark for each coordinate, and its position if the body reads positions.
            here, map_ = self.scope.indices[self.var], self.scope.maps[self.domain.pattern, self.domain.level]
            at, positions = self.scope.fresh("at"), map_.positions
            entry = body(Entry(here, PositionRange(const(0) if positions is None else at)))
            look_up = [] if positions is None else [ir.Bind(at, self.scope.load_index(positions, here))]
            return ir.If(map_.has(here), block(*look_up, entry))
        if self.domain.bound:
            return block(*self.segment.prelude, self.lookup(body))
        return block(*self.segment.prelude, self.loop_over_positions(self.segment.first, self.segment.stop, body))

    def constant_entries(self) -> list[Entry] | None:
        """All entries, if the pattern's content and the position above are compile-time constants; else None."""
        first, stop = self.above.first, self.above.stop or self.above.first
        if not (self.type.constant_indices and isinstance(first, ir.Const) and isinstance(stop, ir.Const)):
            return None
        size = self.scope.storage.problem.size[self.var] or 0
        arrays = self.type.arrays_of(self.domain.level, self.type.constant_indices)
        entries: list[tuple[int, int]] = []
        for parent in range(int(first.value), int(stop.value) + (self.above.stop is None)):
            lo, hi = (parent * size, (parent + 1) * size) if self.kind.is_full else (parent, parent + 1)
            if self.kind.has_pointers:
                lo, hi = arrays[0][parent], arrays[0][parent + 1]
            if self.kind.has_coordinates:
                entries += ((arrays[-1][p], p) for p in range(lo, hi))
            else:  # consecutive coordinates, from 0 on in a dense level
                start = 0 if self.kind.is_full else arrays[1][parent]
                entries += ((start + p - lo, p) for p in range(lo, hi))
        if not self.repeats:
            return [Entry(const(coordinate), PositionRange(const(p))) for coordinate, p in entries]
        runs = [list(run) for _, run in groupby(entries, itemgetter(0))]
        return [Entry(const(run[0][0]), PositionRange(const(run[0][1]), const(run[-1][1] + 1))) for run in runs]

    def lookup(self, body: Body) -> ir.Stmt:
        """Run the body at the entry of the bound coordinate, if there is one. The entry is located by arithmetic, or by
        bisection of the sorted segment."""
        here, first, stop = self.scope.indices[self.var], self.segment.first, self.segment.stop
        if self.segment.position is not None:
            position = self.scope.fresh("at")
            inside = both(ir.Compare("<=", first, position), less(position, stop))
            located = ir.If(inside, body(Entry(here, PositionRange(position))))
            return block(ir.Bind(position, self.segment.position(here)), located)
        search, place = lower_bound(self.scope, first, stop, lambda n: ir.Compare("<=", here, self.coordinate(n)))
        if self.repeats:
            search_end, behind = lower_bound(self.scope, place, stop, lambda n: less(here, self.coordinate(n)))
            end = self.scope.fresh("end")
            inner = block(search_end, ir.Bind(end, behind), body(Entry(here, PositionRange(place, end))))
        else:
            inner = body(Entry(here, PositionRange(place)))
        # A coordinate may be read only inside of the segment, so the two tests are nested.
        is_there = ir.Compare("==", self.coordinate(place), here)
        return block(search, ir.If(less(place, stop), ir.If(is_there, inner)))

    @cached_property
    def segment(self) -> Segment:
        """The positions below the present position of the level above."""
        return self.functions.segment(self, self.above)

    def fresh(self, base: str) -> ir.Var:
        """A name used nowhere else in the kernel."""
        return self.scope.fresh(base)

    def extent(self) -> ir.Expr:
        """The size of the level's dimension."""
        return self.scope.storage.size(self.var)

    def restrict_to_chunk(self, first: ir.Expr, stop: ir.Expr) -> tuple[ir.Expr, ir.Expr]:
        """The part of a segment inside the chunk's position bounds."""
        position_bounds = self.scope.position_bounds.get((self.domain.pattern, self.domain.level))
        if position_bounds is None:
            return first, stop
        return ir.Binary("max", first, position_bounds[0]), minimum(stop, position_bounds[1])

    def load(self, role: str, index: ir.Expr) -> ir.Expr:
        """Load an element of the level's index array with this role. If the array has batch axes, `index` is an index
        in the present member of the batch."""
        array = self.scope.storage.index_array(self.domain.pattern, self.domain.level, role)
        batch = self.scope.storage.problem.batch_variables[self.domain.pattern]
        offset: ir.Expr = const(0)
        for axis, var in enumerate(batch, start=1):
            offset = mul(add(offset, self.scope.indices[var]), ir.Extent(array, axis))
        return self.scope.load_index(array, add(offset, index))

    def capacity(self) -> ir.Expr:
        """The capacity of the level: how many positions its arrays can hold."""
        if not self.kind.counts_positions:
            return const(self.type.capacities[self.domain.level])
        coordinates = self.scope.storage.index_array(self.domain.pattern, self.domain.level, "coordinates")
        return ir.Extent(coordinates, self.type.batch_axes)

    def clamp_position(self, position: ir.Expr) -> ir.Expr:
        """Clamp a position to the capacity if the pattern is dynamic: its arrays may hold any number."""
        if not self.type.dynamic:
            return position
        return ir.Binary("max", minimum(position, self.capacity()), const(0))

    def coordinate(self, position: ir.Expr) -> ir.Expr:
        """Return the coordinate at a position of the level. The level must not be dense."""
        return self.load("coordinates", position) if self.kind.has_coordinates else self.segment.coordinate(position)

    def full_entry(self, coordinate: ir.Expr) -> Entry:
        """The entry of a dense level at a coordinate."""
        position = add(mul(self.above.first, self.extent()), coordinate)
        return Entry(coordinate, PositionRange(position, None, self.above.present))

    def full_loop(self, start: ir.Expr, stop: ir.Expr, body: Body) -> ir.Stmt:
        n = self.scope.fresh(self.var)
        inner = body(self.full_entry(n))
        return in_run(self.scope, self.run, start, stop, lambda lo, hi: ir.For(n, lo, hi, inner, copies=self.jam))

    def one(
        self,
        position: ir.Expr,
        body: Body,
        stop: ir.Expr | None = None,
        plain: bool = False,
        otherwise: ir.Stmt | None = None,
    ) -> ir.Stmt:
        """Run the body at one position if the coordinate there matches; else run `otherwise`.

        A coordinate matches if it equals the bound variable. If no variable is bound, it matches if it is in range.

        Args:
            stop: the end of the positions that share the coordinate, if there are several.
            plain: whether a loop visits the positions one after the other, so that it can prefetch.
        """
        coordinate = self.scope.fresh(self.var)
        entry = Entry(
            coordinate, PositionRange(position, stop), position if plain and self.kind.has_coordinates else None
        )
        matches: ir.Expr = ir.Const(1, BOOL)
        if self.domain.bound:
            matches = ir.Compare("==", coordinate, self.scope.indices[self.var])
        elif self.type.dynamic:
            matches = self.in_range(coordinate)
        inner = body(entry)
        always = isinstance(matches, ir.Const)
        return block(
            ir.Bind(coordinate, self.coordinate(position)), inner if always else ir.If(matches, inner, otherwise)
        )

    def in_range(self, coordinate: ir.Expr) -> ir.Expr:
        """Whether a coordinate lies in the dimension, or in the present panel if there is one.

        Each coordinate is tested against the panel, because a segment of a dynamic pattern may be unsorted by mistake.
        """
        if self.domain.panel:
            panel = self.scope.panels[self.var]
            return both(at_most(panel.start, coordinate), less(coordinate, panel.stop))
        return both(at_most(const(0), coordinate), less(coordinate, self.extent()))

    def loop_over_positions(self, first: ir.Expr, stop: ir.Expr, body: Body) -> ir.Stmt:
        if self.type.repeats(self.domain.level):
            return self.runs(first, stop, body)
        if self.filter is not None and self.jam == 1:
            return in_run(self.scope, self.run, first, stop, lambda lo, hi: self.loop_over_matches(lo, hi, body))
        p = self.scope.fresh("p")
        inner = self.one(p, body, plain=True)
        return in_run(self.scope, self.run, first, stop, lambda lo, hi: ir.For(p, lo, hi, inner, copies=self.jam))

    def loop_over_matches(self, first: ir.Expr, stop: ir.Expr, body: Body) -> ir.Stmt:
        """The loop over the positions whose coordinates are in the map.

        At most `TESTED` positions are tested first. The positions whose coordinates are in the map are collected
        without a branch, because the processor could not predict it (Ross, "Selection conditions in main memory",
        2004). Then the body runs at these positions. The
        body looks each coordinate up again, and always finds it.
        """
        matches = ir.Buffer(self.scope.fresh("found").name, DISTANCES, -1, True)
        array = ir.LocalArray(matches, TESTED + ir.FILTER_LANES)
        if self.run is not None and self.run.size <= TESTED:
            return block(array, self.run_at_matches(first, stop, matches, body))
        start, end = self.scope.fresh("start"), self.scope.fresh("end")
        step = block(
            ir.Bind(end, minimum(add(start, const(TESTED)), stop)), self.run_at_matches(start, end, matches, body)
        )
        return block(array, ir.For(start, first, stop, step, TESTED))

    def run_at_matches(self, start: ir.Expr, stop: ir.Expr, matches: ir.Buffer, body: Body) -> ir.Stmt:
        """Run the body at the positions from `start` to `stop` whose coordinates are in the map. The range has at most
        `TESTED` positions."""
        assert self.filter is not None
        n, count, p, tested = (self.scope.fresh(name) for name in ("n", "count", "p", "p"))
        position = ir.Bind(p, add(start, cast(ir.Load(matches, n), I64.dtype)))
        runs = ir.For(n, const(0), count, block(position, self.one(p, body, plain=True)))
        # Marks are bytes only in small dimensions. Their sizes fit in the dtype in which coordinates are stored, so the
        # mark is looked up in that dtype then.
        wide = self.coordinate(tested)
        coordinate = wide.value if self.filter.in_bytes and isinstance(wide, ir.Cast) else wide
        if self.type.dynamic:  # out of range, it is replaced by the dimension's size, whose mark is never set
            absent = cast(self.extent(), coordinate.type.dtype)
            coordinate = ir.Select(self.in_range(wide), coordinate, absent)
        mark = self.filter.mark(coordinate)
        return block(ir.Declare(count, const(0)), ir.Filter(tested, start, stop, mark, matches, count), runs)

    def runs(self, first: ir.Expr, stop: ir.Expr, body: Body) -> ir.Stmt:
        """The loop over runs of positions that share a coordinate, so that inner loops run once for each coordinate."""
        p, run, end = self.scope.fresh("p"), self.scope.fresh("run"), self.scope.fresh("end")
        same = ir.Compare("==", self.coordinate(minimum(end, add(stop, const(-1)))), self.coordinate(run))
        return block(
            ir.Declare(p, first),
            ir.While(
                less(p, stop),
                block(
                    ir.Bind(run, p),
                    ir.Declare(end, add(run, const(1))),
                    ir.While(ir.Binary("&", less(end, stop), same), ir.Set(end, add(end, const(1)))),
                    count_iteration(self.run, self.one(run, body, end)),
                    ir.Set(p, end),
                ),
            ),
        )

    def divide_into_chunks(self, size: ir.Expr, grain: int, loop: Loop, partials: Partials | None) -> ir.Stmt:
        """Divide the outermost level into chunks, and run `loop` over the positions of each chunk. All chunks have
        about the same weight: a position weighs 1 plus the number of last-level entries below it."""
        if self.domain.level != 0 or self.domain.bound:
            raise ValueError(f"only the outermost level of a pattern is divided over threads, not {self.domain}")
        if not any(level.kind.has_pointers for level in self.type.levels[1:]) and not self.repeats:
            return in_chunks(self.scope, size, grain, loop, partials)  # all positions weigh the same
        total = self.scope.fresh("total")

        def boundary(chunk: ir.Expr, chunks: ir.Expr) -> tuple[ir.Stmt, ir.Var]:
            search, _, place = at_weight(
                self.scope, (chunk, chunks), total, size, self.weight, grows=not self.type.dynamic
            )
            if self.repeats:
                # No run of equal coordinates is cut: the boundary moves to the next position where they change.
                here = self.coordinate(minimum(place, add(size, const(-1))))
                previous = self.coordinate(ir.Binary("max", add(place, const(-1)), const(0)))
                inside = ir.Binary("&", less(const(0), place), less(place, size))
                same = ir.Binary("&", inside, ir.Compare("==", here, previous))
                move = ir.While(same, ir.Set(place, add(place, const(1))))
                search.append(ir.If(less(const(0), size), move))
            return block(*search), place

        chunks = for_each_chunk(self.scope, total, grain, between(boundary, loop), partials)
        return block(ir.Bind(total, self.weight(size)), chunks)

    def whole(self) -> tuple[ir.Expr, list[ir.Stmt], Callable[[ir.Expr, ir.Expr, Body], ir.Stmt]]:
        """Return the outermost level's number of positions, statements that compute it, and a function that makes a
        loop over positions."""
        if self.kind.is_full:
            return self.extent(), [], self.full_loop
        return self.segment.stop, self.segment.prelude, self.loop_over_positions

    @property
    def repeats(self) -> bool:
        return self.type.repeats(self.domain.level)

    def weight(self, position: ir.Expr) -> ir.Expr:
        """The weight of all positions before `position`. It is monotone, and takes one load per compressed level."""
        return add(position, self.leaf(position))

    def leaf(self, position: ir.Expr, first: int = 1, stop: int | None = None) -> ir.Expr:
        """The number of positions of level `stop - 1` that are below the positions 0, ..., `position` - 1 of level
        `first - 1`. By default, `stop - 1` is the last level."""
        leaf = position
        variables = self.scope.storage.problem.level_variables[self.domain.pattern]
        for depth in range(first, len(self.type.levels) if stop is None else stop):
            level = LevelWalk(self.scope, replace(self.domain, level=depth), variables[depth])
            leaf = level.functions.below(level, leaf)
        return leaf
