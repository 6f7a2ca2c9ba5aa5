"""Sorts of dynamic patterns, priced together with the loops that they allow.

A static pattern has a transposed index for every order. A dynamic one is walked in the orders in which it is stored,
unless the program sorts its entries anew before. A sort also lets loops locate the rows of a pattern that stores only
those in use, or each entry on its own (coo). Whether it pays is a question of price: without it the loops over
`ij,kj->ik` of two csr matrices visit all pairs of rows.

Trip counts need no index arrays, so every order is priced as if all patterns were stored in it, plus the sorts of those
that are not. The order without sorts is one of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, islice, permutations
from math import inf, log2, prod

from jsparse.compiler.problem import Problem
from jsparse.compiler.schedule.cost import VISIT, estimate, sort_cost
from jsparse.compiler.schedule.legality import MAX_ORDERS, MAX_PERMUTED, is_concordant
from jsparse.compiler.schedule.ordered import ROW_WORK, SEVERAL, SHORT_ROW
from jsparse.compiler.schedule.search import candidates
from jsparse.compiler.schedule.stored import DynamicPatternInfo, Stored
from jsparse.compiler.schedule.trip_counts import UNKNOWN, TripCounts, trip_counts, walked_as, walked_levels
from jsparse.formats import DynamicType, Format, Level
from jsparse.formats.levels import COMPRESSED
from jsparse.notation.assignment import IndexVar

__all__ = ["Sortable", "Sorts", "dense_outermost", "einsum_sorts", "sum_sorts"]

BISECTED = 5.0  # a step of a bisection in a whole level: a mispredicted branch, besides what trip counts have for it
PASSES = 2  # loops that assemble a sparse result run twice: they count its entries first
LISTED = 60.0  # a product that is listed, sorted, and located in the result, relative to one that is added to a row
SPARE = 4  # an outermost level is dense if its size is at most this many times the entries,
SMALL = 64  # plus this

Names = tuple[IndexVar, ...]


@dataclass(frozen=True, slots=True)
class Sorts:
    """Sorts, and the estimated cost of what they are for.

    Attributes:
        orders: for each pattern the new order of its levels; None if it stays as it is.
        prices: the cost of each sort; 0 for a pattern that stays.
        total: the cost of all sorts and of the loops after them.
    """

    orders: tuple[tuple[int, ...] | None, ...]
    prices: tuple[float, ...]
    total: float


@dataclass(frozen=True)
class Sortable:
    """A product, and which of its patterns may be sorted.

    Attributes:
        problem: the product, with a dense result or one on a pattern that exists.
        patterns: its patterns.
        entries: for each pattern the number of entries to sort; 0 if it has to stay as it is.
    """

    problem: Problem
    patterns: tuple[Stored, ...]
    entries: tuple[int, ...]

    @cached_property
    def counted(self) -> tuple[Stored, ...]:
        """The patterns as trip counts take them: with one entry for each coordinate of a level."""
        return tuple(_distinct(pattern) for pattern in self.patterns)

    @cached_property
    def variables(self) -> Names:
        """The index variables of all patterns."""
        return tuple(dict.fromkeys(v for names in self.problem.level_variables for v in names))

    def counts(self, walk: Names) -> TripCounts:
        """The trip counts of loops in the order `walk`, if all patterns are stored in it."""
        return trip_counts(self.problem, walk, self.counted)

    def sorts(self, walk: Names, counts: TripCounts, passes: int = 1) -> Sorts | None:
        """The sorts for loops in the order `walk`, with the price of bisections in `total`; None if one is excluded.

        Args:
            passes: how often the loops run.
        """
        orders: list[tuple[int, ...] | None] = []
        prices = []
        total = 0.0
        for n, (names, pattern) in enumerate(zip(self.problem.level_variables, self.patterns, strict=True)):
            stays = passes * self._bisections(n, walk, counts) if is_concordant(names, walk, pattern) else inf
            moves = inf
            if self.entries[n] and stays:
                rows = 0.0 if self._locates_rows(n, walk) else passes * self._bisections(n, walk, counts, 1)
                moves = sort_cost(self.entries[n]) + rows
            if min(stays, moves) == inf:
                return None
            orders.append(walked_levels(names, walk) if moves < stays else None)
            prices.append(sort_cost(self.entries[n]) if moves < stays else 0.0)
            total += min(stays, moves)
        return Sorts(tuple(orders), tuple(prices), total)

    def _locates_rows(self, n: int, walk: Names) -> bool:
        """Whether a pattern that is sorted in the order of `walk` has a dense outermost level."""
        pattern, names = self.patterns[n], self.problem.level_variables[n]
        return dense_outermost([pattern.shape[level] for level in walked_levels(names, walk)], pattern.nse)

    def _bisections(self, n: int, walk: Names, counts: TripCounts, searches: int = 0) -> float:
        """The cost of locating coordinates of other patterns in the outermost level of a dynamic pattern.

        Args:
            searches: how many bisections locate a coordinate; 0 for as many as the pattern needs in its own format.
        """
        pattern, stored = self.patterns[n], self.problem.level_variables[n]
        names, outermost = walked_as(stored, walk), pattern.format.levels[0]
        is_full = outermost.kind.is_full if names == stored else self._locates_rows(n, walk)
        if not isinstance(pattern, DynamicPatternInfo) or (not searches and is_full):
            return 0.0
        at = walk.index(names[0])
        before = counts.entries[at - 1] if at else 1.0
        fans = [fan for m in range(len(self.patterns)) if m != n for fan in self._fan(m, walk, names[0])]
        if not fans:
            return 0.0
        own = min(float(pattern.nse), self._size(names[:1]))
        searches = searches or (1 if outermost.unique else 2)  # of several entries, the first and the last
        return BISECTED * searches * before * min(min(fans) * log2(1 + own), own)

    def _fan(self, n: int, walk: Names, var: IndexVar) -> list[float]:
        """The entries of a pattern's level of `var` for each position of the level above; none if it lacks `var`."""
        names = walked_as(self.problem.level_variables[n], walk)
        if var not in names:
            return []
        at, nse = names.index(var), float(self.patterns[n].nse)
        return [min(nse, self._size(names[: at + 1])) / max(min(nse, self._size(names[:at])), 1.0)]

    def _size(self, names: Names) -> float:
        return float(prod(self.problem.size[v] or UNKNOWN for v in names))


def dense_outermost(sizes: Sequence[int], entries: int) -> bool:
    """Whether a pattern that the program sorts gets a dense outermost level; `sizes` are those of its levels."""
    return len(sizes) > 1 and sizes[0] <= SPARE * entries + SMALL


def einsum_sorts(product: Sortable) -> Sorts | None:
    """The cheapest sorts for a product with a dense result or one on a pattern; None if a fixed pattern forbids all."""
    problem = product.problem
    more = candidates(problem, product.patterns) if len(product.variables) > MAX_PERMUTED else ()
    found: dict[Names, tuple[Sorts, TripCounts] | None] = {}
    nests = []
    for nest in chain(candidates(problem), more):
        if nest.walk not in found:
            counts = product.counts(nest.walk)
            sorts = product.sorts(nest.walk, counts)
            found[nest.walk] = None if sorts is None else (sorts, counts)
        priced = found[nest.walk]
        if priced is not None:
            nests.append((*priced, nest))
    best: Sorts | None = None
    for sorts, counts, nest in sorted(nests, key=lambda entry: entry[0].total):
        if best is not None and sorts.total >= best.total:
            break
        total = sorts.total + estimate(nest, product.counted, counts).total
        if best is None or total < best.total:
            best = replace(sorts, total=total)
    return best


def sum_sorts(terms: Sequence[Sortable], order: Names) -> tuple[Sorts, ...] | None:
    """The cheapest sorts for a sum with a new pattern that stores its index variables in `order`, for each term.

    All terms reach its entries in order, in a scalar or in a row, or all products are listed and sorted.
    """
    ways = [
        [_cheapest(term, (order[:count],), order[count:], False) for term in terms]
        for count in (len(order), len(order) - 1)
    ]
    ways.append([_cheapest(term, (), order, True) for term in terms])
    best: tuple[Sorts, ...] | None = None
    for way in ways:
        found = tuple(sorts for sorts in way if sorts is not None)
        if len(found) == len(terms) and (best is None or _total(found) < _total(best)):
            best = found
    return best


def _total(sorts: Sequence[Sorts]) -> float:
    return sum(one.total for one in sorts)


def _cheapest(term: Sortable, shared: tuple[Names, ...], rest: Names, is_listed: bool) -> Sorts | None:
    best: Sorts | None = None
    for walk in _walks(term, shared, rest):
        counts = term.counts(walk)
        entries = counts.entries[-1] if counts.entries else 1.0
        if is_listed:
            cost = VISIT * sum(counts.iterations) + LISTED * entries
        else:
            cost = SEVERAL * sum(counts.iterations) + entries
            if prod(term.problem.size[v] or UNKNOWN for v in rest) > max(SHORT_ROW, ROW_WORK * cost):
                continue
        sorts = term.sorts(walk, counts, PASSES)
        if sorts is not None and (best is None or sorts.total + cost < best.total):
            best = replace(sorts, total=sorts.total + cost)
    return best


def _walks(term: Sortable, shared: tuple[Names, ...], rest: Names) -> Iterator[Names]:
    """Yield the orders of a term's variables: the shared ones first, and those of `rest` in their order."""
    outer = tuple(v for names in shared for v in names)
    if any(v not in term.variables for v in outer):
        return
    if any(names.count(v) > 1 for names in term.problem.level_variables for v in outer):
        return
    kept = tuple(v for v in rest if v in term.variables)
    for inner in islice(permutations(v for v in term.variables if v not in outer), MAX_ORDERS):
        if tuple(v for v in inner if v in kept) == kept:
            yield (*outer, *inner)


def _distinct(pattern: Stored) -> Stored:
    """A pattern of as many entries whose levels store each coordinate once, as trip counts expect."""
    levels = pattern.format.levels
    if not isinstance(pattern, DynamicPatternInfo) or all(x.unique and not x.kind.is_branchless for x in levels):
        return pattern
    kinds = (Level(x.kind if x.kind.is_full else COMPRESSED, x.dim) for x in levels)
    return replace(pattern, type=DynamicType(pattern.shape, Format(tuple(kinds)), pattern.nse))
