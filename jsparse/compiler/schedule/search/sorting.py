"""Sorts of dynamic patterns, priced together with the loops that they allow.

A static pattern has a transposed index for every order. A dynamic one is walked in the orders in which it is stored,
unless the program first sorts its entries in another order. A sort also lets loops locate rows of a pattern that stores
only the rows in use, or each entry separately (coo). Whether a sort pays is a question of price: without a sort, the
loops over `ij,kj->ik` of two csr matrices visit all pairs of rows.

Trip counts need no index arrays, so every order is priced as if all patterns were stored in this order. The price of
sorting the other patterns is added. Orders without sorts are included. A price counts iterations, products, located
rows, and the cache lines of a dense target. The cache lines matter if two orders have equal trip counts, but one order
adds to rows of the target, and the other adds to columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain, islice, permutations, takewhile
from math import inf, log2, prod
from typing import NamedTuple

import numpy as np

from jsparse.base.dataclass import dataclass
from jsparse.compiler.problem import Problem
from jsparse.compiler.schedule.layout import AnyPattern
from jsparse.compiler.schedule.prices.cost import sort_cost
from jsparse.compiler.schedule.search.legality import MAX_ORDERS, MAX_PERMUTED, legal_orders
from jsparse.compiler.schedule.search.ordered import ROW_WORK, SHORT_ROW
from jsparse.compiler.schedule.trip_counts import (
    UNKNOWN,
    TripCounts,
    levels_in_walk_order,
    trip_counts,
    variables_in_walk_order,
)
from jsparse.formats import Format, Level, Pattern
from jsparse.formats.levels import COMPRESSED, is_dense_cheap
from jsparse.notation.assignment import IndexVar

PASSES = 2  # loops that assemble a sparse result locate rows twice: first to bound the number of its entries

Names = tuple[IndexVar, ...]


class LoopPrices(NamedTuple):
    """The costs of loops, in multiply-adds.

    Attributes:
        iteration: the cost of an iteration.
        product: the cost of a product.
        passes: how many times each row is located.
        stores: whether products are added to a dense target.
    """

    iteration: float
    product: float
    passes: int
    stores: bool


@dataclass(frozen=True, slots=True)
class Sorts:
    """The sorts of a product's patterns, with the estimated costs of the sorts and of the loops after the sorts.

    Attributes:
        orders: for each pattern the new order of its levels; None if the pattern stays unchanged.
        price: the cost of all sorts, and of locating rows in patterns that have no pointer for each row.
        loops: the cost of the loops after the sorts.
    """

    orders: tuple[tuple[int, ...] | None, ...]
    price: float
    loops: float = 0.0

    @property
    def total(self) -> float:
        """The cost of sorts and loops together."""
        return self.price + self.loops


@dataclass(frozen=True)
class Sortable:
    """A product, and which of its patterns may be sorted.

    Attributes:
        problem: the product, with a dense result or a result on an existing pattern.
        patterns: its patterns.
        entries: for each pattern the number of entries to sort; 0 if it has to stay as it is.
    """

    problem: Problem
    patterns: tuple[AnyPattern, ...]
    entries: tuple[int, ...]

    @cached_property
    def names(self) -> tuple[Names, ...]:
        """The index variables of each pattern's levels."""
        return self.problem.level_variables

    @cached_property
    def orders(self) -> tuple[tuple[tuple[int, ...], ...] | None, ...]:
        """The orders of levels in which each pattern is stored; None for a static one, which has all orders."""
        return tuple(pattern.orders for pattern in self.patterns)

    @cached_property
    def size(self) -> dict[IndexVar, int]:
        """The size of each index variable."""
        return {v: UNKNOWN if size is None else size for v, size in self.problem.size.items()}

    @cached_property
    def distinct_patterns(self) -> tuple[AnyPattern, ...]:
        """The patterns as trip counts expect them: levels store each coordinate once."""
        return tuple(_distinct(pattern) for pattern in self.patterns)

    @cached_property
    def variables(self) -> Names:
        """The index variables of all patterns."""
        return tuple(dict.fromkeys(v for names in self.names for v in names))

    def orders_without_sort(self) -> Iterable[Names]:
        """Return orders that need no sort if there are too many variables to try all orders; else an empty result."""
        return legal_orders(self.problem, self.patterns) if len(self.variables) > MAX_PERMUTED else ()

    def cheapest(self, walks: Iterable[Names], prices: LoopPrices) -> Sorts | None:
        """Find the cheapest sorts for loops in one of the orders `walks`; None if no order is possible.

        An order is not possible if it needs a sort of a pattern that has to stay as it is. Orders with cheap sorts come
        first. All orders reach the same products, so the search ends as soon as the sorts and the products alone cost
        as much as the cheapest order so far.
        """
        best: Sorts | None = None
        least = 0.0
        for needed, walk in sorted(((self._price_of_sorts(walk), walk) for walk in walks), key=lambda entry: entry[0]):
            if needed + least >= (inf if best is None else best.total):
                break
            counts = trip_counts(self.problem, walk, self.distinct_patterns)
            products = counts.entries[-1] if counts.entries else 1.0
            cost = prices.iteration * sum(counts.iterations) + prices.product * products
            cost += self._stores(walk, counts) if prices.stores else 0.0
            sorts = replace(self._sorts(walk, counts, prices.passes), loops=cost)
            if best is None or sorts.total < best.total:
                best = sorts
                least = (prices.iteration + prices.product) * products
        return best

    def _price_of_sorts(self, walk: Names) -> float:
        """Return the price of the sorts for `walk`; infinity if `walk` needs a sort of a pattern that has to stay."""
        price = 0.0
        for names, orders, entries in zip(self.names, self.orders, self.entries, strict=True):
            if orders is not None and levels_in_walk_order(names, walk) not in orders:
                price += sort_cost(self.problem.cpu, entries) if entries else inf
        return price

    def _sorts(self, walk: Names, counts: TripCounts, passes: int) -> Sorts:
        """Choose sorts for loops in the order `walk`: necessary sorts, and sorts that pay because they locate rows."""
        orders: list[tuple[int, ...] | None] = []
        price = 0.0
        for n, (names, stored, entries) in enumerate(zip(self.names, self.orders, self.entries, strict=True)):
            levels = levels_in_walk_order(names, walk)
            is_walked = stored is None or levels in stored
            stays = passes * self._bisections(n, walk, counts) if is_walked else inf
            moves = inf
            if entries and stays:
                rows = 0.0 if self._locates_rows(n, walk) else passes * self._bisections(n, walk, counts, 1)
                moves = sort_cost(self.problem.cpu, entries) + rows
            orders.append(levels if moves < stays else None)
            price += min(stays, moves)
        return Sorts(tuple(orders), price)

    def _locates_rows(self, n: int, walk: Names) -> bool:
        """Whether a pattern that is sorted in the order of `walk` has a dense outermost level."""
        pattern, names = self.patterns[n], self.names[n]
        return dense_outermost([pattern.shape[level] for level in levels_in_walk_order(names, walk)], pattern.nse)

    def _bisections(self, n: int, walk: Names, counts: TripCounts, searches: int = 0) -> float:
        """The cost of locating coordinates of other patterns in the outermost level of a dynamic pattern.

        Args:
            searches: how many bisections locate a coordinate. If 0, the pattern's own format decides.
        """
        pattern, stored = self.patterns[n], self.names[n]
        names, outermost = variables_in_walk_order(stored, walk), pattern.format.levels[0]
        is_full = outermost.kind.is_full if names == stored else self._locates_rows(n, walk)
        if pattern.orders is None or (not searches and is_full):
            return 0.0
        at = walk.index(names[0])
        before = counts.entries[at - 1] if at else 1.0
        fans = [fan for m in range(len(self.patterns)) if m != n for fan in self._fan(m, walk, names[0])]
        if not fans:
            return 0.0
        own = min(float(pattern.nse), self._size(names[:1]))
        searches = searches or (1 if outermost.unique else 2)  # of several entries, the first and the last
        return self.problem.cpu.far_bisection_step * searches * before * min(min(fans) * log2(1 + own), own)

    def _stores(self, walk: Names, counts: TripCounts) -> float:
        """Return the cost of the cache lines that loops in the order `walk` read, change and write in a dense target.

        The outermost loops over the target restrict the other loops to a part of the target: to a row, which is in a
        near cache, or to a column, which has another cache line for each element.
        """
        problem = self.problem
        tensor, kept = problem.type_of[problem.target.tensor], problem.target.variables()
        walked = [v for v in walk if v in kept]
        if tensor.positions is not None or not walked:
            return 0.0
        head = tuple(takewhile(lambda v: v in kept, walk))
        varying = [v for v in walked if v not in head] or walked[-1:]
        if varying == [kept[-1]] and walked[-1] in head:
            return 0.0  # elements are written one after the other
        item = np.dtype(tensor.dtype).itemsize
        inside = kept[max(kept.index(v) for v in varying) + 1 :]
        block = prod((self.size[v] for v in kept if v not in walked), start=item)
        stride = prod((self.size[v] for v in inside), start=item)
        is_row = not any(v in walked for v in inside)
        region = prod(
            (self.size[v] for v in varying),
            start=block if is_row else min(max(stride, self.problem.cpu.line_bytes), self.problem.cpu.page_bytes),
        )
        return (
            counts.entries[walk.index(walked[-1])]
            * -(-block // self.problem.cpu.line_bytes)
            * self.problem.cpu.gather(region)
        )

    def _fan(self, n: int, walk: Names, var: IndexVar) -> list[float]:
        """Return a list of one number: the entries of `var`'s level per position of the level above."""
        names = variables_in_walk_order(self.names[n], walk)
        if var not in names:
            return []
        at, nse = names.index(var), float(self.patterns[n].nse)
        return [min(nse, self._size(names[: at + 1])) / max(min(nse, self._size(names[:at])), 1.0)]

    def _size(self, names: Names) -> float:
        return float(prod(self.size[v] for v in names))


def dense_outermost(sizes: Sequence[int], entries: int) -> bool:
    """Whether a pattern that the program sorts gets a dense outermost level; `sizes` are the sizes of its levels."""
    return len(sizes) > 1 and is_dense_cheap(sizes[0], entries)


def einsum_sorts(product: Sortable) -> Sorts | None:
    """Find the cheapest sorts of a product whose result is dense or on an existing pattern; None if none is legal."""
    walks = chain(product.orders_without_sort(), legal_orders(product.problem))
    return product.cheapest(dict.fromkeys(walks), LoopPrices(product.problem.cpu.visit, 1.0, 1, True))


def sum_sorts(terms: Sequence[Sortable], order: Names) -> tuple[Sorts, ...] | None:
    """Find the cheapest sorts for each term of a sum; None if no sorts are possible.

    The result gets a new pattern, which stores the index variables in `order`. There are two ways. In the first, all
    terms produce the result's entries in order, and add up one entry in a scalar, or one row in a workspace. In the
    second, all products are listed and sorted.
    """
    cpu = terms[0].problem.cpu
    in_order, listed = LoopPrices(cpu.merge, 1.0, PASSES, False), LoopPrices(cpu.visit, cpu.listed, PASSES, False)
    ways: list[list[Sorts | None]] = []
    for shared in (order, order[:-1]):
        sorts_of_terms = [term.cheapest(_walks(term, shared, order[len(shared) :]), in_order) for term in terms]
        row = prod(terms[0].size[v] for v in order[len(shared) :])
        if row <= max(SHORT_ROW, ROW_WORK * sum(sorts.loops for sorts in sorts_of_terms if sorts is not None)):
            ways.append(sorts_of_terms)
    ways.append([term.cheapest(_walks(term, (), order), listed) for term in terms])
    complete = [tuple(sorts for sorts in way if sorts is not None) for way in ways]
    complete = [way for way in complete if len(way) == len(terms)]
    return min(complete, key=lambda way: sum(sorts.total for sorts in way), default=None)


def _walks(term: Sortable, shared: Names, rest: Names) -> Iterator[Names]:
    """Yield the orders of a term's variables with `shared` first, and the variables in `rest` in their given order."""
    if any(v not in term.variables for v in shared):
        return
    if any(names.count(v) > 1 for names in term.names for v in shared):
        return
    kept = (*shared, *(v for v in rest if v in term.variables))
    own = permutations(v for v in term.variables if v not in shared)
    every = chain(((*shared, *inner) for inner in islice(own, MAX_ORDERS)), term.orders_without_sort())
    yield from (walk for walk in every if walk[: len(shared)] == shared and _part(walk, kept) == kept)


def _part(walk: Names, variables: Names) -> Names:
    return tuple(v for v in walk if v in variables)


def _distinct(pattern: AnyPattern) -> AnyPattern:
    """Return a pattern with the same shape and nse whose levels store each coordinate once, as trip counts expect."""
    levels = pattern.format.levels
    if isinstance(pattern, Pattern) or all(x.unique and not x.kind.is_branchless for x in levels):
        return pattern
    kinds = (Level(x.kind if x.kind.is_full else COMPRESSED, x.dim) for x in levels)
    return replace(pattern, format=Format(tuple(kinds)))
