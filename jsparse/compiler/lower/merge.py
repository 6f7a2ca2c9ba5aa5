"""Coiteration: the loop over the coordinates at which some term of a sum has entries.

Every sparse level has a cursor: a position, and the coordinate at this position. At the end of the segment, the
coordinate is the index variable's size. The next coordinate is the smallest of the terms' coordinates; a term (a
product) has a coordinate only while all its cursors have entries left. A level is present if its cursor has the next
coordinate; then the cursor advances.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from jsparse.base.dataclass import dataclass
from jsparse.compiler.dtypes import BOOL
from jsparse.compiler.kernel import nodes as ir
from jsparse.compiler.kernel.algebra import add, block, both, const, less, minimum, mul, sub
from jsparse.compiler.levels import PositionRange
from jsparse.compiler.loops.domain import Coiteration, LevelIteration
from jsparse.compiler.loops.nest import Forall
from jsparse.compiler.lower.chunks import Partials, at_weight, for_each_chunk, in_chunks, lower_bound
from jsparse.compiler.lower.levels import LevelWalk
from jsparse.compiler.lower.scope import Scope

Body = Callable[[Scope], ir.Stmt]
LONG = 8  # segments more than LONG times as long as the shortest other one are searched, though branches mispredict


def lower_coiteration(
    scope: Scope, loop: Forall, domain: Coiteration, body: Body, partials: Partials | None
) -> ir.Stmt:
    """The loop, divided over threads if it is parallel; `body` receives the scope with each level's positions."""
    merge = _Merge(scope, loop, domain, body)
    if loop.parallel is None:
        return merge.between(const(0), scope.storage.size(loop.var), whole=True)
    return merge.parallel(loop.parallel.grain, partials)


@dataclass(frozen=True)
class _Cursor:
    """The present position of a sparse level."""

    walk: LevelWalk
    level: LevelIteration
    position: ir.Var
    coordinate: ir.Var
    stop: ir.Expr


class _Merge:
    def __init__(self, scope: Scope, loop: Forall, domain: Coiteration, body: Body) -> None:
        self.scope, self.var, self.domain, self.body = scope, loop.var, domain, body
        self.levels = list(dict.fromkeys(level for term in domain.terms for level in term))
        self.walks = {level: LevelWalk(scope, level, loop.var) for level in self.levels}
        self.sparse = [level for level in self.levels if not self.walks[level].kind.is_full]
        # A term with dense levels only, or with none, has every coordinate: then all coordinates are visited.
        self.full = any(all(level not in self.sparse for level in term) for term in domain.terms)
        self.size = scope.storage.size(loop.var)

    def between(self, lo: ir.Expr, hi: ir.Expr, whole: bool = False) -> ir.Stmt:
        """Return the loop over the coordinates from `lo` up to `hi`. `whole`: whether these are all coordinates."""
        prelude: list[ir.Stmt] = []
        cursors: list[_Cursor] = []
        for level in self.sparse:
            start, cursor = self.cursor(level, None if whole else (lo, hi))
            prelude += start
            cursors.append(cursor)
        if self.follows:
            return block(*prelude, self.alone(*cursors))
        if self.intersects:
            return block(*prelude, self.together(cursors))
        if self.unites:
            # This loop ends when one level has no entries left. The general loop below visits what the others have.
            prelude.append(self.together(cursors))
        for cursor in cursors:
            prelude += [ir.Declare(cursor.coordinate, self.size), self.read(cursor)]
        if self.full:
            n = self.scope.fresh(self.var)
            return block(*prelude, ir.For(n, lo, hi, self.visit(n, cursors)))
        # `here` is a coordinate of some cursor, and below `hi`, so this cursor is not at its end and advances. The loop
        # therefore ends, whatever the index arrays of a dynamic pattern hold.
        here = self.scope.fresh(self.var)
        found = self.scope.fresh("found")
        step = block(ir.Let(found, here), self.visit(found, cursors), ir.Set(here, self.next(cursors)))
        return block(*prelude, ir.Declare(here, self.next(cursors)), ir.While(less(here, hi), step))

    def cursor(self, level: LevelIteration, between: tuple[ir.Expr, ir.Expr] | None) -> tuple[list[ir.Stmt], _Cursor]:
        """Return statements that set up a level's cursor, and the cursor. `between`: its coordinates; None for all."""
        walk = self.walks[level]
        first, stop, start = walk.segment.first, walk.segment.stop, list(walk.segment.prelude)
        if between is not None:
            search, first, stop = self.part(walk, first, stop, *between)
            start.append(search)
        elif self.full and walk.type.dynamic:
            search, first, stop = self.in_range(walk, first, stop)
            start.append(search)
        position, coordinate = self.scope.fresh("p"), self.scope.fresh(f"{self.var}_of")
        return [*start, ir.Declare(position, first)], _Cursor(walk, level, position, coordinate, stop)

    def part(
        self, walk: LevelWalk, first: ir.Expr, stop: ir.Expr, lo: ir.Expr, hi: ir.Expr
    ) -> tuple[ir.Stmt, ir.Var, ir.Var]:
        """The part of a segment with coordinates from `lo` up to, but not including, `hi`."""
        # The second search begins where the first one ended, so begin <= end for any index arrays.
        search, begin = lower_bound(self.scope, first, stop, lambda n: ir.Compare("<=", lo, walk.coordinate(n)))
        rest, end = lower_bound(self.scope, begin, stop, lambda n: ir.Compare("<=", hi, walk.coordinate(n)))
        return block(search, rest), begin, end

    def in_range(self, walk: LevelWalk, first: ir.Expr, stop: ir.Expr) -> tuple[ir.Stmt, ir.Var, ir.Var]:
        """Return the part of a segment whose coordinates are in range: the entire segment if its two ends are in range.

        A loop over all coordinates of a variable must not walk the other entries: it never visits a negative
        coordinate, so a cursor at a negative coordinate would never move. Segments are sorted, so only the first and
        the last coordinate are tested. The bisection runs only if one of them is out of range.
        """
        begin, end = self.scope.fresh("begin"), self.scope.fresh("end")
        search, inner, behind = self.part(walk, first, stop, const(0), self.size)
        last = add(stop, const(-1))
        outside = ir.Binary(
            "|", less(walk.coordinate(first), const(0)), ir.Compare("<=", self.size, walk.coordinate(last))
        )
        cut = ir.If(outside, block(search, ir.Set(begin, inner), ir.Set(end, behind)))
        return block(ir.Declare(begin, first), ir.Declare(end, stop), ir.If(less(first, stop), cut)), begin, end

    def read(self, cursor: _Cursor) -> ir.Stmt:
        """Load the coordinate at the cursor's position. At the end of the segment, it is the size of the variable."""
        load = ir.Set(cursor.coordinate, cursor.walk.coordinate(cursor.position))
        return ir.If(less(cursor.position, cursor.stop), load, ir.Set(cursor.coordinate, self.size))

    @property
    def follows(self) -> bool:
        """Whether there is only one term, and one sparse level, which does not repeat coordinates."""
        return len(self.domain.terms) == 1 and [self.walks[level].repeats for level in self.sparse] == [False]

    def alone(self, cursor: _Cursor) -> ir.Stmt:
        """A loop over the entries of the only sparse level. In a dynamic pattern it skips coordinates out of range."""
        here, position = self.scope.fresh(self.var), self.scope.fresh("at")
        scope = self.with_dense(self.scope.with_index(self.var, here), here)
        body = self.body(scope.with_positions(cursor.level, PositionRange(position)))
        inner = block(ir.Let(here, cursor.walk.coordinate(position)), self.in_bounds(here, body))
        return ir.For(position, cursor.position, cursor.stop, inner)

    @property
    def intersects(self) -> bool:
        """Whether there is only one term, and it has several sparse levels."""
        return len(self.domain.terms) == 1 and len(self.sparse) > 1

    @property
    def unites(self) -> bool:
        """Whether there are several terms, each with one sparse level that does not repeat coordinates."""
        one_each = all(len(term) == 1 for term in self.domain.terms)
        plain = not any(self.walks[level].repeats for level in self.sparse)
        return one_each and len(self.domain.terms) == len(self.sparse) > 1 and plain

    def together(self, cursors: list[_Cursor]) -> ir.Stmt:
        """Loop as long as all levels have entries left. Cursors advance without branches, which would be mispredicted.

        An intersection runs the body at each coordinate that all levels have. A union runs it at each coordinate that
        some level has. In a union, a level without the coordinate still has a valid position, so its values can be
        read, and a select drops them without a branch. In an intersection, a segment that is much longer than another
        segment is searched for the next coordinate that all levels may have.
        """
        # Invariant: every cursor's position is inside its segment. Each iteration reads one coordinate of each cursor,
        # and the cursors that have the least coordinate advance, at least one of them.
        here, least = self.scope.fresh(self.var), self.scope.fresh("least")
        scope = self.with_dense(self.scope.with_index(self.var, here), here)
        step, met, advance = list[ir.Stmt](), list[ir.Stmt](), list[ir.Stmt]()
        coordinates: list[ir.Expr] = []
        for cursor in cursors:
            coordinate, position = self.scope.fresh("coordinate"), self.scope.fresh("at")
            there = ir.Compare("==", coordinate, least)
            coordinates.append(coordinate)
            step.append(ir.Let(coordinate, cursor.walk.coordinate(cursor.position)))
            met.append(ir.Let(position, cursor.position))
            behind, end = add(cursor.position, const(1)), None
            if cursor.walk.repeats:
                # The end of the run is sought only where all levels meet. Elsewhere `end` stays one position ahead, and
                # the cursor leaves its run step by step.
                end = self.scope.fresh("end")
                step.append(ir.Declare(end, behind))
                met.append(self.run_end(cursor, coordinate, end))
            scope = scope.with_positions(cursor.level, PositionRange(position, end, None if self.intersects else there))
            advance.append(ir.Set(cursor.position, ir.Select(there, end or behind, cursor.position)))
            if self.unites:
                scope = scope.with_readable(self.domain.terms.index((cursor.level,)), there)
        body = block(ir.Let(here, least), *met, self.in_bounds(here, self.body(scope)))
        before = list[ir.Stmt]()
        if self.intersects:
            greatest = self.scope.fresh("greatest")
            most: list[ir.Stmt] = [ir.Let(greatest, reduce(lambda a, b: ir.Binary("max", a, b), coordinates))]
            body = block(*most, ir.If(ir.Compare("==", least, greatest), body))
            # All coordinates are equal exactly if the least equals the greatest. No coordinate below `greatest` is
            # common to all levels, so a search may skip to it. Which segments are searched is decided before the loop:
            # if none is, each iteration has one branch more, which is always predicted.
            longs = [self.scope.fresh("long", BOOL) for _ in cursors]
            before += [ir.Let(long, self.is_long(x, cursors)) for long, x in zip(longs, cursors, strict=True)]
            searching = [
                ir.If(
                    both(long, less(coordinate, greatest)),
                    self.advance_by_bisection(cursor, coordinate, greatest),
                    step_on,
                )
                for long, cursor, coordinate, step_on in zip(longs, cursors, coordinates, advance, strict=True)
            ]
            is_searched = reduce(lambda a, b: ir.Binary("|", a, b), list[ir.Expr](longs))
            advance = [ir.If(is_searched, block(*searching), block(*advance))]
        going = reduce(both, [less(cursor.position, cursor.stop) for cursor in cursors])
        return block(
            *before, ir.While(going, block(*step, ir.Let(least, reduce(minimum, coordinates)), body, *advance))
        )

    @staticmethod
    def is_long(cursor: _Cursor, cursors: Sequence[_Cursor]) -> ir.Expr:
        """Whether a segment has over `LONG` times as many entries left as the shortest of the other segments."""
        left = {x.level: sub(x.stop, x.position) for x in cursors}
        others = reduce(minimum, [left[x.level] for x in cursors if x is not cursor])
        return less(mul(others, const(LONG)), left[cursor.level])

    def advance_by_bisection(self, cursor: _Cursor, coordinate: ir.Expr, greatest: ir.Expr) -> ir.Stmt:
        """Advance to the first entry whose coordinate is at least `greatest`, by bisection.

        If coordinates do not repeat, they grow by at least 1 from each position to the next. So the entry is at most
        `greatest - coordinate` positions ahead, and at most `coordinate of the last entry - greatest` positions before
        the last entry. If nearly all coordinates have entries, these bounds leave little to search. The cursor always
        advances, even if the index arrays of a dynamic pattern are not sorted.
        """
        first, stop = add(cursor.position, const(1)), cursor.stop
        if not cursor.walk.repeats:
            last = sub(cursor.stop, const(1))
            from_end = sub(last, sub(cursor.walk.coordinate(last), greatest))
            # For sorted index arrays, first <= stop by the two bounds. For any others, max and min keep both in
            # [position + 1, stop of the segment].
            first = ir.Binary("max", first, minimum(from_end, cursor.stop))
            stop = ir.Binary("max", first, minimum(add(cursor.position, sub(greatest, coordinate)), cursor.stop))
        search, found = lower_bound(
            self.scope, first, stop, lambda n: ir.Compare("<=", greatest, cursor.walk.coordinate(n))
        )
        return block(search, ir.Set(cursor.position, found))

    def next(self, cursors: list[_Cursor]) -> ir.Expr:
        """The smallest coordinate at which a term may have entries; the variable's size if all terms have ended."""
        of_terms = []
        for term in self.domain.terms:
            own: list[ir.Expr] = [c.coordinate for c in cursors if c.level in term]
            # A cursor at its end has the size as its coordinate. It is then the greatest, and the term has ended.
            least = reduce(minimum, own)
            greatest = reduce(lambda a, b: ir.Binary("max", a, b), own)
            of_terms.append(least if len(own) == 1 else ir.Select(less(greatest, self.size), least, self.size))
        return reduce(minimum, of_terms)

    def visit(self, here: ir.Expr, cursors: list[_Cursor]) -> ir.Stmt:
        """Run the body at one coordinate, then advance the cursors of present levels."""
        scope, start, advance = self.scope.with_index(self.var, here), list[ir.Stmt](), list[ir.Stmt]()
        present: dict[LevelIteration, ir.Expr] = {}
        for cursor in cursors:
            there, position, stop = (
                self.scope.fresh("there", BOOL),
                self.scope.fresh("at"),
                self.scope.fresh("end"),
            )
            present[cursor.level] = there
            start += [ir.Let(there, ir.Compare("==", cursor.coordinate, here)), ir.Let(position, cursor.position)]
            if cursor.walk.repeats:
                start += [ir.Declare(stop, add(position, const(1))), ir.If(there, self.run_end(cursor, here, stop))]
            else:
                start.append(ir.Let(stop, add(position, const(1))))
            scope = scope.with_positions(
                cursor.level, PositionRange(position, stop if cursor.walk.repeats else None, there)
            )
            advance.append(ir.If(there, block(ir.Set(cursor.position, stop), self.read(cursor))))
        scope = self.with_dense(scope, here)
        for n, term in enumerate(self.domain.terms):
            for level in term:
                if level in present:
                    scope = scope.with_present(n, present[level])
        body = self.body(scope) if self.full else self.in_bounds(here, self.body(scope))
        return block(*start, self.run_if_present(body, present), *advance)

    def in_bounds(self, here: ir.Expr, body: ir.Stmt) -> ir.Stmt:
        """Run the body if a coordinate is in range. The index arrays of a dynamic pattern may hold any coordinates, in
        any order. In an intersection with a static level, the coordinate is always in range."""
        dynamic = [self.walks[level].type.dynamic for level in self.sparse]
        if not (all(dynamic) if self.intersects else any(dynamic)):
            return body
        return ir.If(both(ir.Compare("<=", const(0), here), less(here, self.size)), body)

    def with_dense(self, scope: Scope, here: ir.Expr) -> Scope:
        """The scope with the positions of all dense levels of the coiteration at the coordinate `here`."""
        for level in self.levels:
            if level not in self.sparse:
                scope = scope.with_positions(level, self.walks[level].full_entry(here).positions)
        return scope

    @staticmethod
    def run_end(cursor: _Cursor, coordinate: ir.Expr, stop: ir.Var) -> ir.Stmt:
        """Advance `stop` to the end of the run of positions that have this coordinate."""
        same = ir.Compare("==", cursor.walk.coordinate(minimum(stop, sub(cursor.stop, const(1)))), coordinate)
        return ir.While(both(less(stop, cursor.stop), same), ir.Set(stop, add(stop, const(1))))

    def run_if_present(self, body: ir.Stmt, present: dict[LevelIteration, ir.Expr]) -> ir.Stmt:
        """Run the body if all levels of some term are present.

        No test is needed in two cases. If each term has exactly one sparse level, one of these levels has the
        coordinate. If some term has no sparse level, this term is present at every coordinate.
        """
        if self.full or all(len([level for level in term if level in present]) == 1 for term in self.domain.terms):
            return body
        terms = [reduce(both, [present[level] for level in term if level in present]) for term in self.domain.terms]
        return ir.If(reduce(lambda a, b: ir.Binary("|", a, b), terms), body)

    def parallel(self, grain: int, partials: Partials | None) -> ir.Stmt:
        """Divide the loop into chunks of about equal numbers of entries. A chunk has the same range of coordinates in
        all levels."""
        # The weight of the first sparse level alone determines the bounds; if all levels are full, all weights together
        # do. Bounds are coordinates, so each entry, and each run of equal coordinates, belongs to exactly one chunk.
        if not self.levels:
            return in_chunks(self.scope, self.size, grain, self.between, partials)
        leader = self.sparse[0] if self.sparse else self.levels[0]
        walk = self.walks[leader]
        summed = [self.walks[level] for level in self.levels] if not self.sparse else [walk]
        last, prelude = (self.size, list[ir.Stmt]()) if not self.sparse else (walk.segment.stop, walk.segment.prelude)

        def weight(n: ir.Expr) -> ir.Expr:
            return reduce(add, (of.weight(n) for of in summed))

        total = self.scope.fresh("total")

        def part(chunk: ir.Expr, chunks: ir.Expr) -> ir.Stmt:
            before, lo = self.boundary(chunk, chunks, total, last, weight, walk)
            behind, hi = self.boundary(add(chunk, const(1)), chunks, total, last, weight, walk)
            return block(*before, *behind, self.between(lo, hi))

        return block(*prelude, ir.Let(total, weight(last)), for_each_chunk(self.scope, total, grain, part, partials))

    def boundary(
        self,
        chunk: ir.Expr,
        chunks: ir.Expr,
        total: ir.Expr,
        last: ir.Expr,
        weight: Callable[[ir.Expr], ir.Expr],
        walk: LevelWalk,
    ) -> tuple[list[ir.Stmt], ir.Expr]:
        """Return the first coordinate of a chunk, after the statements that find it. It is 0 for chunk 0, and the
        variable's size if `chunk` is the number of chunks.

        For any other chunk, it is the coordinate of the first entry whose `weight`, the weight of all entries before
        it, is at least the share of the preceding chunks.
        """
        grows = not any(of.type.dynamic for of in self.walks.values())
        start, _, found = at_weight(self.scope, (chunk, chunks), total, last, weight, grows)
        if not self.sparse:
            return start, found
        bound = self.scope.fresh("bound")
        within = ir.Binary("max", minimum(walk.coordinate(found), self.size), const(0))
        start += [ir.Declare(bound, self.size), ir.If(less(found, last), ir.Set(bound, within))]
        at_ends = ir.Select(
            ir.Compare("==", chunk, const(0)), const(0), ir.Select(less(chunk, chunks), bound, self.size)
        )
        return start, at_ends
