"""Operands and results of steps, as the search for a contraction path sees them, and estimates of their entries.

Entries that are spread evenly meet at ∏ sizes · ∏ densities index tuples. The entries of graphs are not spread evenly:
vertices with many entries account for most of the work. So the estimates use the degree sequences of static patterns.
At an index that two operands share, the number of pairs of entries that meet is Σ_x d(x)·e(x), where d and e count the
entries at coordinate x. This is exact for two operands. Several shared indices are taken as independent (Ioannidis, The
History of Histograms, VLDB 2003).

The coordinate tuples of a result are cells into which combinations of entries fall. A cell stays empty with probability
exp(-λ) if λ combinations are expected in it (Poisson), and λ is proportional to the degrees of its coordinates. So the
cells at vertices of high degree fill up first. Vertices of similar degree are treated as one group (`degree_groups`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial, reduce
from itertools import combinations, pairwise, permutations
from math import inf, log, prod
from typing import Any, NamedTuple

import numpy as np

from jsparse.base.dataclass import dataclass
from jsparse.compiler.schedule.degrees import SAMPLE, closed_share, common_share, degree_groups, pairs_of_groups
from jsparse.formats import Pattern
from jsparse.notation import IndexVar
from jsparse.planning.term import Term


@dataclass(frozen=True, slots=True, eq=False)
class Degrees:
    """How entries are spread over the coordinates of an index, relative to one dimension of a static pattern.

    Attributes:
        pattern: the static pattern, whose coordinates are grouped by degree.
        dim: the dimension of the pattern.
        counts: the number of coordinates in each group.
        shares: the share of the pattern's entries in each group.
        weights: the share of the described entries in each group, divided by `shares`.
    """

    pattern: Pattern
    dim: int
    counts: np.ndarray
    shares: np.ndarray
    weights: np.ndarray

    @classmethod
    def of(cls, pattern: Pattern, dim: int) -> Degrees:
        """How the entries of a pattern are spread over one of its dimensions."""
        counts, shares = degree_groups(pattern, dim)
        return cls(pattern, dim, counts, shares, np.ones(len(counts)))


@dataclass(frozen=True, slots=True, eq=False)
class Item:
    """An operand or the result of a step. A search has one item for each combination of members and index variables.

    Attributes:
        members: the indices of the operands whose product it is.
        indices: its index variables, each once.
        stored: the expected number of index tuples that its sparse levels store; 1 if it is dense.
        levels: the index variables of its sparse levels, in the order of storage; none if it is dense.
        form: a key that is equal for items with equal values, up to the names of index variables.
        spread: a function that returns how the stored tuples are spread over each index variable, where that is known.
        traced: whether its pattern is dynamic.
        relates: whether it is an index relation. The product of two relations would have values, so it is no step.
        restricts: whether it has values or loops walk it. Otherwise it is a bare pattern that stores every element.
        repeats: whether one index variable stands for several of its dimensions.
        is_bare: whether it is a pattern without values.
        is_list: whether its coordinates are a list, in which loops over other patterns cannot locate a row.
        pattern: the static pattern of an operand, which has an index variable for each dimension.
        dims: the dimension of each index variable.
        bounds: for a result, the static operands of two or more dimensions whose patterns contain all of its entries.
        walked: the index variables that loops over its pattern bind.
    """

    members: frozenset[int]
    indices: tuple[IndexVar, ...]
    stored: float
    levels: tuple[IndexVar, ...]
    form: Any
    spread: Callable[[], Mapping[IndexVar, Degrees]] = dict
    traced: bool = False
    relates: bool = False
    restricts: bool = True
    repeats: bool = False
    is_bare: bool = False
    is_list: bool = False
    pattern: Pattern | None = None
    dims: Mapping[IndexVar, int] = field(default_factory=dict)
    bounds: tuple[Item, ...] = ()
    walked: frozenset[IndexVar] = field(init=False)
    _degrees: list[Mapping[IndexVar, Degrees]] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        object.__setattr__(self, "walked", frozenset(self.levels))

    @property
    def degrees(self) -> Mapping[IndexVar, Degrees]:
        """The result of `spread`, computed at first use, since not every item is multiplied."""
        if not self._degrees:
            self._degrees.append(self.spread())
        return self._degrees[0]

    @property
    def within(self) -> tuple[Item, ...]:
        """The static operands of two or more dimensions whose patterns contain all of its index tuples."""
        return (self,) if self.pattern is not None and len(self.levels) > 1 else self.bounds

    def moved(self, kept: frozenset[IndexVar]) -> float:
        """The number of stored tuples that a product has to reorder if it keeps the index variables `kept`.

        All tuples are reordered if a summed variable is stored outside of a kept variable; otherwise none is.
        """
        kinds = [v in kept for v in self.levels]
        return self.stored if any(not a and b for a, b in pairwise(kinds)) else 0.0


def operand_item(product: Term, number: int) -> Item:
    """Make the item of an operand."""
    x, indices, value = product.operands[number], product.indices[number], product.values[number]
    core = x.core
    if core is None:
        distinct = tuple(dict.fromkeys(product.prereduction(number)[0]))
        return Item(frozenset({number}), distinct, 1.0, (), (value, form_of(indices)), restricts=not x.is_bare)
    assert x.stored is not None
    names = [indices[dim] for dim in x.stored.pattern.format.order]
    walked = names[: core.ndim]
    levels = tuple(dict.fromkeys(walked))
    repeated = prod(max(product.sizes[v], 1) for v in walked) // prod(max(product.sizes[v], 1) for v in levels)
    stored = core.pattern.nse / repeated
    item = Item(
        frozenset({number}), tuple(dict.fromkeys(indices)), stored, levels, (value, form_of(indices)),
        traced=not isinstance(core.pattern, Pattern), relates=x.is_relation, repeats=len(set(indices)) < len(indices),
        is_bare=x.is_bare, is_list=bool(levels) and not core.pattern.format.levels[0].unique,
    )  # fmt: skip
    if not isinstance(core.pattern, Pattern) or not core.pattern.nse or len(levels) < len(walked):
        return item
    dims = dict(zip(levels, core.pattern.format.order, strict=True))
    return replace(item, spread=partial(_degrees_of, core.pattern, dims), pattern=core.pattern, dims=dims)


def _degrees_of(pattern: Pattern, dims: Mapping[IndexVar, int]) -> dict[IndexVar, Degrees]:
    """The degrees of a static pattern, whose dimensions have these index variables."""
    return {v: Degrees.of(pattern, dim) for v, dim in dims.items()}


def form_of(*accesses: Sequence[IndexVar]) -> tuple[tuple[int, ...], ...]:
    """Replace index variables in accesses by numbers, in the order in which the variables appear."""
    numbers: dict[IndexVar, int] = {}
    return tuple(tuple(numbers.setdefault(v, len(numbers)) for v in indices) for indices in accesses)


LEAST = 1e-9  # the smallest divisor
FEW = 4  # a sample with fewer hits does not determine a share
GROUPED = 3  # index variables of a result whose degrees are distinguished; the others count as even
EVEN = 1.25  # a skew between 1 / EVEN and EVEN counts as 1, so that noise of random patterns decides nothing

Names = frozenset[IndexVar]


def skew(first: Degrees, second: Degrees) -> float:
    """The ratio of the number of pairs of entries with equal coordinates to the number for evenly spread entries."""
    pairs = pairs_of_groups(first.pattern, first.dim, second.pattern, second.dim)
    found = float(first.weights @ pairs @ second.weights)
    return found if found > EVEN or found < 1 / EVEN else 1.0


class Cells:
    """The cells of a result, into which combinations of entries fall.

    Attributes:
        total: the expected number of cells that are not empty.
    """

    def __init__(self, count: float, sizes: Mapping[IndexVar, int], degrees: Mapping[IndexVar, Degrees]) -> None:
        """Distribute `count` combinations over the cells.

        Args:
            sizes: the size of each index of the cells.
            degrees: how the combinations are spread, for the indices where that is known.
        """
        self.known = {v: degrees[v] for v in [v for v in sizes if v in degrees][:GROUPED]}
        even = np.array(float(prod([n for v, n in sizes.items() if v not in self.known])))
        spread = [x.weights * x.shares for x in self.known.values()]
        cells = reduce(np.multiply.outer, [x.counts for x in self.known.values()], even)
        expected = reduce(np.multiply.outer, spread, np.array(count))
        # Each axis has the groups of one index. Of c cells in a group, c·(1 - exp(-expected / c)) are filled.
        self.filled = -cells * np.expm1(-expected / np.maximum(cells, LEAST))
        self.total = float(self.filled.sum())

    def spread(self) -> dict[IndexVar, Degrees]:
        """How the cells that are not empty are spread over each index."""
        if not self.total:
            return {}
        found = {}
        for n, (v, x) in enumerate(self.known.items()):
            of_groups = self.filled.sum(axis=tuple([m for m in range(len(self.known)) if m != n])) / self.total
            found[v] = replace(x, weights=of_groups / np.maximum(x.shares, LEAST))
        return found


class Binding(NamedTuple):
    """The effect of a loop over an index variable on the number of tuples.

    Attributes:
        factor: the tuples inside the loop for each tuple outside.
        fan: the coordinates in a segment of the shortest level, for each tuple outside.
        items: the number of items that have the variable.
        stored: for each n, the smallest number of distinct tuples that an item with exactly n bound variables stores.
    """

    factor: float
    fan: float
    items: int
    stored: Mapping[int, float]

    def tuples(self, outside: float, count: int) -> float:
        """The number of tuples inside the loop, where `count` variables are bound.

        `outside` is the product of the factors of the loops around it.
        """
        # If an item has all bound variables, the loops cannot reach more tuples than it stores.
        return min(outside * self.factor, self.stored.get(count, inf))


class Estimates:
    """Estimates for the items of one product, each computed once. Sets of index variables are bit masks.

    Attributes:
        sizes: the sizes of index variables.
        bits: the bit of each index variable.
    """

    def __init__(self, sizes: Mapping[IndexVar, int]) -> None:
        self.sizes = sizes
        self.bits = {v: 1 << n for n, v in enumerate(sizes)}
        self._masks: dict[Item, int] = {}
        self._projected: dict[tuple[Item, int], float] = {}
        self._bindings: dict[tuple[tuple[Item, ...], IndexVar, int], Binding] = {}
        self._shares: dict[tuple[Item, int], float] = {}
        self._skews: dict[tuple[Item, Item, IndexVar], float] = {}
        self._triangles_found: dict[frozenset[Item], float] = {}

    def mask(self, item: Item) -> int:
        """The bit mask of the index variables of an item's sparse levels."""
        found = self._masks.get(item)
        if found is None:
            found = self._masks[item] = sum([self.bits[v] for v in item.levels])
        return found

    def volume(self, indices: Iterable[IndexVar]) -> float:
        """The number of index tuples, which is the product of the sizes."""
        return float(prod([self.sizes[v] for v in indices]))

    def entries(self, item: Item) -> float:
        """The number of elements that an item stores."""
        return item.stored * self.volume([v for v in item.indices if v not in item.levels])

    def projected(self, item: Item, bound: int) -> float:
        """Project the stored tuples of an item to the variables `bound`. Returns the number of distinct tuples."""
        if not bound:
            return min(item.stored, 1.0)
        key = item, bound
        found = self._projected.get(key)
        if found is None:
            found = item.stored
            if bound != self.mask(item):
                sizes = {v: self.sizes[v] for v in item.levels if self.bits[v] & bound}
                found = max(Cells(item.stored, sizes, item.degrees).total, LEAST)
            self._projected[key] = found
        return found

    def binding(self, items: tuple[Item, ...], var: IndexVar, bound: int, state: Sequence[Item]) -> Binding:
        """Estimate how a loop over `var`, inside loops over the variables `bound`, changes the number of tuples.

        Args:
            items: the items that have `var`.
            state: all items that the loops walk.
        """
        around = 0
        for item in items:
            around |= self.mask(item)
        key = items, var, around & bound
        found = self._bindings.get(key)
        if found is None:
            found = self._bindings[key] = self._binding(items, var, around & bound)
        if len(items) == 1 or len(state) == len(items):
            return found
        others = [item for item in state if item not in items]
        return found._replace(factor=found.factor * self._closed(items, others, bound | self.bits[var]))

    def _binding(self, items: tuple[Item, ...], var: IndexVar, bound: int) -> Binding:
        factor, inside, fan, stored = float(self.sizes[var]), bound | self.bits[var], inf, dict[int, float]()
        for item in items:
            mask = self.mask(item)
            before, after = bound & mask, inside & mask
            factor *= self._share(item, after) / self._share(item, before)
            found = self.projected(item, after)
            fan = min(fan, found / max(self.projected(item, before), LEAST))
            count = after.bit_count()
            stored[count] = min(found, stored.get(count, inf))
        if len(items) > 1:
            factor *= self._met(items, var, inside)
        return Binding(factor, fan, len(items), stored)

    def _met(self, items: tuple[Item, ...], var: IndexVar, inside: int) -> float:
        """The ratio of the number of tuples at which items meet to the number for even, independent entries."""
        factor, left = 1.0, [item for item in items if var in item.degrees]
        # A factor for every pair would count the same skew several times, so there is one for each edge of a tree.
        tree = left[:1]
        while left := [item for item in left if item not in tree]:  # a tree of the most skewed pairs
            found, nearest = max([(self._skew(x, y, var), n) for x in tree for n, y in enumerate(left)])
            factor *= found
            tree.append(left[nearest])
        for first, second in combinations(items, 2):
            factor *= self._met_within(first, second, var, inside)
        return factor

    def _met_within(self, first: Item, second: Item, var: IndexVar, inside: int) -> float:
        """The correction factor for two items that lie within static operands with the same index variables.

        The factor applies at the loop that binds the last of these variables. If several pairs of operands qualify, the
        factor farthest from 1 is taken.
        """
        masks = [[(x, self.mask(x)) for x in item.within] for item in (first, second)]
        ones, others = ([x for x, mask in of if mask & self.bits[var] and not mask & ~inside] for of in masks)
        found = [self._coincidence(x, y) for x in ones for y in others if x.walked == y.walked and x is not y]
        return max(found, key=lambda share: abs(log(share)), default=1.0)

    def _closed(self, items: tuple[Item, ...], others: Sequence[Item], inside: int) -> float:
        """The correction factor for the triangles ij, jk, ik that a loop completes.

        Two of `items` meet at the loop's variable, and one of `others` has their two other index variables.
        """
        factor = 1.0
        for one, two in combinations([x for x in items if x.pattern is not None and len(x.levels) == 2], 2):
            ends = self.mask(one) ^ self.mask(two)
            for third in others:
                if third.pattern is not None and self.mask(third) == ends and not ends & ~inside:
                    factor *= self._triangles(one, two, third)
        return factor

    def _triangles(self, *sides: Item) -> float:
        """The ratio of the number of triangles of three operands to the number for independent entries.

        The ratio is estimated from a sample of the pairs of entries of two operands. A banded matrix, for instance, has
        more triangles than independent entries, since the ends of its edges are near each other.
        """
        key = frozenset(sides)
        if key not in self._triangles_found:
            walks = [(x, y, z) for x, y, z in permutations(sides) if y.levels[0] in x.levels]
            x, y, z = min(walks, key=lambda walk: walk[0].stored * walk[1].stored)
            assert x.pattern is not None
            assert y.pattern is not None
            assert z.pattern is not None
            names = {dim: v for v, dim in z.dims.items()}
            of_first, of_second = (tuple([of.get(names[dim], -1) for dim in sorted(names)]) for of in (x.dims, y.dims))
            found = closed_share(x.pattern, x.dims[y.levels[0]], y.pattern, z.pattern, of_first, of_second)
            near = [self._skew(z, other, v) for other in (x, y) for v in z.levels if v in other.levels]
            self._triangles_found[key] = _corrected(found, self._share(z, self.mask(z)) * prod(near))
        return self._triangles_found[key]

    def _share(self, item: Item, bound: int) -> float:
        """The ratio of the tuples of the variables `bound` that an item stores to all tuples of these variables."""
        if not bound:
            return 1.0
        key = item, bound
        found = self._shares.get(key)
        if found is None:
            volume = self.volume([v for v in item.levels if self.bits[v] & bound])
            found = self._shares[key] = max(min(self.projected(item, bound) / max(volume, 1.0), 1.0), LEAST)
        return found

    def _skew(self, first: Item, second: Item, var: IndexVar) -> float:
        key = first, second, var
        if key not in self._skews:
            self._skews[key] = skew(first.degrees[var], second.degrees[var])
        return self._skews[key]

    def _coincidence(self, first: Item, second: Item) -> float:
        """Estimate the number of entries that two operands share, relative to independent entries, from a sample.

        The operands have the same index variables.
        """
        assert first.pattern is not None
        assert second.pattern is not None
        dims = tuple(second.dims[v] for v in first.dims)
        found = common_share(first.pattern, tuple(first.dims.values()), second.pattern, dims)
        expected = self._share(second, self.mask(second)) * prod([self._skew(first, second, v) for v in first.walked])
        return _corrected(found, expected)


def _corrected(found: float, expected: float) -> float:
    """The ratio of the share found in a sample to the expected share; 1 if the sample is too small to tell."""
    if found * SAMPLE < FEW and expected * SAMPLE < FEW:
        return 1.0
    # The sample cannot show a share below 1 / SAMPLE.
    return max(found, 1 / SAMPLE) / max(expected, LEAST)
