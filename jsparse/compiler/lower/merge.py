"""Coiteration: the loop over the coordinates at which some term of a sum has entries.

Every sparse level has a cursor: a position, and the coordinate at this position. At the end of the segment, the
coordinate is the index variable's size. The next coordinate is the smallest of the terms' coordinates; a term (a
product) has a coordinate only while all its cursors have entries left. A level is present if its cursor has the next
coordinate; then the cursor advances.

Taco (Kjolstad et al., "The tensor algebra compiler", OOPSLA 2017) generates a loop for each point of a merge lattice: a
loop ends when one of its levels ends, and the next one merges those that are left. With n terms these are up to 2ⁿ - 1
loops. Here one loop does the work of all points, because a cursor at its end has a coordinate that is never the
smallest. Only the topmost point, at which all levels have entries left, may have its own loop, without branches.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from jsparse.base.dataclass import dataclass
from jsparse.compiler.dtypes import BOOL
from jsparse.compiler.kernel import nodes as ir
from jsparse.compiler.kernel.algebra import add, block, both, const, less, minimum, mul, sub
from jsparse.compiler.levels import PositionRange
from jsparse.compiler.loops.domain import Coiteration, LevelIteration
from jsparse.compiler.loops.nest import Forall
from jsparse.compiler.lower.chunks import Partials, at_weight, between, for_each_chunk, in_chunks, lower_bound
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
        return merge.loop(const(0), merge.size, every=True)
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
    """The loop over one variable, between any two coordinates.

    Attributes:
        full: whether all coordinates are visited, because a term has dense levels only, or no levels.
        intersects: whether there is only one term, and it has several sparse levels.
        unites: whether there are several terms, each with one sparse level that does not repeat coordinates.
    """

    def __init__(self, scope: Scope, loop: Forall, domain: Coiteration, body: Body) -> None:
        self.scope, self.var, self.terms, self.body = scope, loop.var, domain.terms, body
        self.levels = list(dict.fromkeys(level for term in domain.terms for level in term))
        self.walks = {level: LevelWalk(scope, level, loop.var) for level in self.levels}
        self.sparse = [level for level in self.levels if not self.walks[level].kind.is_full]
        self.size = scope.storage.size(loop.var)
        self.full = any(all(level not in self.sparse for level in term) for term in domain.terms)
        self.intersects = len(self.terms) == 1 and len(self.sparse) > 1
        one_each = all(len(term) == 1 for term in self.terms) and len(self.terms) == len(self.sparse) > 1
        self.unites = one_each and not any(self.walks[level].repeats for level in self.sparse)

    def loop(self, lo: ir.Expr, hi: ir.Expr, every: bool = False) -> ir.Stmt:
        """Return the loop over the coordinates from `lo` up to `hi`. `every`: whether these are all coordinates."""
        prelude: list[ir.Stmt] = []
        cursors: list[_Cursor] = []
        for level in self.sparse:
            walk = self.walks[level]
            first, stop = walk.segment.first, walk.segment.stop
            prelude += walk.segment.prelude
            if not every:
                search, first, stop = self.part(walk, first, stop, lo, hi)
                prelude.append(search)
            elif self.full and walk.type.dynamic:
                search, first, stop = self.in_range(walk, first, stop)
                prelude.append(search)
            position, coordinate = self.scope.fresh("p"), self.scope.fresh(f"{self.var}_of")
            prelude.append(ir.Declare(position, first))
            cursors.append(_Cursor(walk, level, position, coordinate, stop))
        here = self.scope.fresh(self.var)
        if len(self.terms) == 1 and [cursor.walk.repeats for cursor in cursors] == [False]:
            # Only one level is sparse, so there is nothing to merge: the loop runs over its entries.
            (cursor,), position = cursors, self.scope.fresh("at")
            scope = self.with_dense(self.scope.with_index(self.var, here), here)
            body = self.body(scope.with_positions(cursor.level, PositionRange(position)))
            step = block(ir.Bind(here, cursor.walk.coordinate(position)), self.in_bounds(here, body))
            return block(*prelude, ir.For(position, cursor.position, cursor.stop, step))
        if self.intersects:
            return block(*prelude, self.together(cursors))
        if self.unites:
            # This loop ends when one level has no entries left. The general loop below visits what the others have.
            prelude.append(self.together(cursors))
        for cursor in cursors:
            prelude += [ir.Declare(cursor.coordinate, self.size), self.read(cursor)]
        if self.full:
            return block(*prelude, ir.For(here, lo, hi, self.visit(here, cursors)))
        # Invariant: every entry at a coordinate below `here` was visited, and no other one. `here` is a coordinate of
        # some cursor, and below `hi`, so this cursor is not at its end and advances. The loop therefore ends, whatever
        # the index arrays of a dynamic pattern hold.
        present = self.scope.fresh("found")
        step = block(ir.Bind(present, here), self.visit(present, cursors), ir.Set(here, self.next(cursors)))
        return block(*prelude, ir.Declare(here, self.next(cursors)), ir.While(less(here, hi), step))

    def part(
        self, walk: LevelWalk, first: ir.Expr, stop: ir.Expr, lo: ir.Expr, hi: ir.Expr
    ) -> tuple[ir.Stmt, ir.Var, ir.Var]:
        """The part of a segment with coordinates from `lo` up to, but not including, `hi`."""
        # The second search begins where the first one ended, so begin <= end for any index arrays.
        search, begin = lower_bound(self.scope, first, stop, _reaches(walk, lo))
        search_end, end = lower_bound(self.scope, begin, stop, _reaches(walk, hi))
        return block(search, search_end), begin, end

    def in_range(self, walk: LevelWalk, first: ir.Expr, stop: ir.Expr) -> tuple[ir.Stmt, ir.Var, ir.Var]:
        """Return the part of a segment whose coordinates are in range: the entire segment if its two ends are in range.

        A loop over all coordinates of a variable must not walk the other entries: it never visits a negative
        coordinate, so a cursor at a negative coordinate would never move. Segments are sorted, so only the first and
        the last coordinate are tested. The bisection runs only if one of them is out of range.
        """
        begin, end = self.scope.fresh("begin"), self.scope.fresh("end")
        search, inner, behind = self.part(walk, first, stop, const(0), self.size)
        greatest = walk.coordinate(add(stop, const(-1)))
        outside = ir.Binary("|", less(walk.coordinate(first), const(0)), ir.Compare("<=", self.size, greatest))
        cut = ir.If(outside, block(search, ir.Set(begin, inner), ir.Set(end, behind)))
        return block(ir.Declare(begin, first), ir.Declare(end, stop), ir.If(less(first, stop), cut)), begin, end

    def read(self, cursor: _Cursor) -> ir.Stmt:
        """Load the coordinate at the cursor's position. At the end of the segment, it is the size of the variable."""
        load = ir.Set(cursor.coordinate, cursor.walk.coordinate(cursor.position))
        return ir.If(less(cursor.position, cursor.stop), load, ir.Set(cursor.coordinate, self.size))

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
        step, met, advance, before = list[ir.Stmt](), list[ir.Stmt](), list[ir.Stmt](), list[ir.Stmt]()
        coordinates: list[ir.Var] = []
        for cursor in cursors:
            coordinate, position = self.scope.fresh("coordinate"), self.scope.fresh("at")
            there = ir.Compare("==", coordinate, least)
            coordinates.append(coordinate)
            step.append(ir.Bind(coordinate, cursor.walk.coordinate(cursor.position)))
            met.append(ir.Bind(position, cursor.position))
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
                scope = scope.with_present(self.terms.index((cursor.level,)), there, readable=True)
        body = block(ir.Bind(here, least), *met, self.in_bounds(here, self.body(scope)))
        if self.intersects:
            # All coordinates are equal exactly if the least equals the greatest.
            greatest = self.scope.fresh("greatest")
            most = ir.Bind(greatest, reduce(_maximum, list[ir.Expr](coordinates)))
            body = block(most, ir.If(ir.Compare("==", least, greatest), body))
            before, advance = self.skip(cursors, coordinates, greatest, advance)
        going = reduce(both, [less(cursor.position, cursor.stop) for cursor in cursors])
        smallest = ir.Bind(least, reduce(minimum, list[ir.Expr](coordinates)))
        return block(*before, ir.While(going, block(*step, smallest, body, *advance)))

    def skip(
        self, cursors: list[_Cursor], coordinates: list[ir.Var], greatest: ir.Var, advance: list[ir.Stmt]
    ) -> tuple[list[ir.Stmt], list[ir.Stmt]]:
        """Let the cursors of long segments skip to `greatest`. No coordinate below it is common to all levels.

        Unlike a galloping search (Bentley and Yao, "An almost optimal algorithm for unbounded searching", 1976), which
        doubles its steps from the cursor on, a bisection needs bounds. The coordinates give them. The loop's caller
        decides before the loop which segments are searched: if none are, each iteration has one more branch, which is
        always predicted. A segment is long if it has over `LONG` times as many entries left as the shortest of the
        others. Returns the statements before the loop, and those with which its cursors advance.
        """
        longs = [self.scope.fresh("long", BOOL) for _ in cursors]
        before, search = list[ir.Stmt](), list[ir.Stmt]()
        for cursor, coordinate, long, step_on in zip(cursors, coordinates, longs, advance, strict=True):
            others = reduce(minimum, [sub(x.stop, x.position) for x in cursors if x is not cursor])
            before.append(ir.Bind(long, less(mul(others, const(LONG)), sub(cursor.stop, cursor.position))))
            # The cursor moves by one position at least, even if the index arrays of a dynamic pattern are not sorted.
            first, stop = add(cursor.position, const(1)), cursor.stop
            if not cursor.walk.repeats:
                # Coordinates grow by at least 1 from each position to the next. So the entry is at most
                # `greatest - coordinate` positions ahead, and at most `coordinate of the last entry - greatest` before
                # the last one. If nearly all coordinates have entries, these bounds leave little to search. In sorted
                # arrays they give first <= stop. For any others, max and min keep both in the segment.
                last = sub(cursor.stop, const(1))
                from_end = sub(last, sub(cursor.walk.coordinate(last), greatest))
                first = _maximum(first, minimum(from_end, cursor.stop))
                stop = _maximum(first, minimum(add(cursor.position, sub(greatest, coordinate)), cursor.stop))
            bisect, place = lower_bound(self.scope, first, stop, _reaches(cursor.walk, greatest))
            is_behind = both(long, less(coordinate, greatest))
            search.append(ir.If(is_behind, block(bisect, ir.Set(cursor.position, place)), step_on))
        is_searched = reduce(lambda a, b: ir.Binary("|", a, b), list[ir.Expr](longs))
        return before, [ir.If(is_searched, block(*search), block(*advance))]

    def next(self, cursors: list[_Cursor]) -> ir.Expr:
        """The smallest coordinate at which a term may have entries; the variable's size if all terms have ended."""
        of_terms = []
        for term in self.terms:
            coordinates: list[ir.Expr] = [c.coordinate for c in cursors if c.level in term]
            # A cursor at its end has the size as its coordinate. It is then the greatest, and the term has ended.
            least, greatest = reduce(minimum, coordinates), reduce(_maximum, coordinates)
            of_terms.append(least if len(coordinates) == 1 else ir.Select(less(greatest, self.size), least, self.size))
        return reduce(minimum, of_terms)

    def visit(self, here: ir.Expr, cursors: list[_Cursor]) -> ir.Stmt:
        """Run the body at one coordinate if all levels of some term are present. Then advance their cursors."""
        scope, start, advance = self.scope.with_index(self.var, here), list[ir.Stmt](), list[ir.Stmt]()
        present: dict[LevelIteration, ir.Expr] = {}
        for cursor in cursors:
            there = self.scope.fresh("there", BOOL)
            position, stop = self.scope.fresh("at"), self.scope.fresh("end")
            present[cursor.level] = there
            start += [ir.Bind(there, ir.Compare("==", cursor.coordinate, here)), ir.Bind(position, cursor.position)]
            if cursor.walk.repeats:
                start += [ir.Declare(stop, add(position, const(1))), ir.If(there, self.run_end(cursor, here, stop))]
            else:
                start.append(ir.Bind(stop, add(position, const(1))))
            positions = PositionRange(position, stop if cursor.walk.repeats else None, there)
            scope = scope.with_positions(cursor.level, positions)
            advance.append(ir.If(there, block(ir.Set(cursor.position, stop), self.read(cursor))))
        scope = self.with_dense(scope, here)
        of_terms = [[present[level] for level in term if level in present] for term in self.terms]
        for number, conditions in enumerate(of_terms):
            for condition in conditions:
                scope = scope.with_present(number, condition)
        body = self.body(scope) if self.full else self.in_bounds(here, self.body(scope))
        # No test is needed if some term has no sparse level, as it is present at every coordinate, or if each term has
        # exactly one, as one of these levels has the coordinate.
        if not self.full and any(len(conditions) != 1 for conditions in of_terms):
            some = reduce(lambda a, b: ir.Binary("|", a, b), [reduce(both, conditions) for conditions in of_terms])
            body = ir.If(some, body)
        return block(*start, body, *advance)

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

    def parallel(self, grain: int, partials: Partials | None) -> ir.Stmt:
        """Divide the loop into chunks of about equal numbers of entries. A chunk has the same range of coordinates in
        all levels."""
        # The weight of the first sparse level alone determines the bounds; if all levels are full, all weights together
        # do. Bounds are coordinates, so each entry, and each run of equal coordinates, belongs to exactly one chunk.
        if not self.levels:
            return in_chunks(self.scope, self.size, grain, self.loop, partials)
        walk = self.walks[self.sparse[0] if self.sparse else self.levels[0]]
        weighed = [walk] if self.sparse else [self.walks[level] for level in self.levels]
        last, prelude = (walk.segment.stop, walk.segment.prelude) if self.sparse else (self.size, [])
        grows = not any(of.type.dynamic for of in self.walks.values())
        total = self.scope.fresh("total")

        def weight(n: ir.Expr) -> ir.Expr:
            return reduce(add, (of.weight(n) for of in weighed))

        def boundary(chunk: ir.Expr, chunks: ir.Expr) -> tuple[ir.Stmt, ir.Expr]:
            # The first coordinate of a chunk is that of the first entry before which all entries together weigh at
            # least the share of the preceding chunks. It is 0 for chunk 0, and the size after the last chunk.
            start, _, entry = at_weight(self.scope, (chunk, chunks), total, last, weight, grows)
            if not self.sparse:
                return block(*start), entry
            bound = self.scope.fresh("bound")
            within = _maximum(minimum(walk.coordinate(entry), self.size), const(0))
            start += [ir.Declare(bound, self.size), ir.If(less(entry, last), ir.Set(bound, within))]
            inner = ir.Select(less(chunk, chunks), bound, self.size)
            return block(*start), ir.Select(ir.Compare("==", chunk, const(0)), const(0), inner)

        chunks = for_each_chunk(self.scope, total, grain, between(boundary, self.loop), partials)
        return block(*prelude, ir.Bind(total, weight(last)), chunks)


def _reaches(walk: LevelWalk, bound: ir.Expr) -> Callable[[ir.Expr], ir.Expr]:
    return lambda position: ir.Compare("<=", bound, walk.coordinate(position))


def _maximum(left: ir.Expr, right: ir.Expr) -> ir.Expr:
    return ir.Binary("max", left, right)
