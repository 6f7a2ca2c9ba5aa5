"""Descriptions of operands and of results of steps for the contraction path search, and estimates of their entries.

If entries are spread evenly, operands meet at ∏ sizes · ∏ densities index tuples. The entries of graphs are not spread
evenly: vertices with many entries account for most of the work. So the estimates use the degrees of static patterns,
which are the numbers of entries at each coordinate of a dimension.
At an index that two operands share, the number of pairs of entries that meet is Σ_x d(x)·e(x), where d and e count the
entries at coordinate x. This is exact for two operands. Several shared indices are taken as independent (Ioannidis, The
History of Histograms, VLDB 2003).

A coordinate tuple of a result is called a cell. Each combination of operands' entries that meet adds to one cell. A
cell stays empty with probability exp(-λ) if λ combinations are expected in it (Poisson), and λ is proportional to the
degrees of its coordinates. So the cells at vertices of high degree fill up first. Vertices of similar degree are
treated as one group (`degree_groups`).
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
from jsparse.compiler.schedule.degrees import (
    EVEN,
    SAMPLE,
    common_share,
    degree_groups,
    pairs_of_groups,
    share_of_closed_paths,
)
from jsparse.formats import Pattern
from jsparse.notation import IndexVar
from jsparse.planning.term import Term


@dataclass(frozen=True, slots=True, eq=False)
class Degrees:
    """How the entries of an operand, or of a step's result, are spread over the coordinates of one index variable.

    Coordinates that have similar degrees in a static pattern form a group. The entries are counted for each group.

    Attributes:
        pattern: the static pattern by which coordinates are grouped.
        dim: the dimension of that pattern to which the coordinates belong.
        counts: the number of coordinates in each group.
        shares: the share of that pattern's entries in each group.
        weights: the share of the described operand's or result's entries in each group, divided by `shares`.
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
        members: the indices of the operands whose product the item is.
        indices: its index variables, each once.
        stored: the expected number of index tuples that its sparse levels store; 1 if it is dense.
        levels: the index variables of its sparse levels, in the order of storage; none if it is dense.
        form: a key that two items share if their values are equal up to the names of index variables.
        spread: a function that returns how the stored tuples are spread over each index variable, where that is known.
        traced: whether its pattern is dynamic.
        relates: whether it is an index relation. No step multiplies two relations, because the product would have
            values.
        restricts: whether it has values or sparse levels. Otherwise it is a bare pattern that stores every element.
        repeats: whether it has the same index variable in several dimensions.
        is_bare: whether it is a pattern without values.
        is_list: whether coordinates may repeat in its first level. Loops over other patterns cannot locate a row there.
        pattern: the core of a static pattern on which it lies, with a different index variable in each dimension; None
            if there is no such pattern.
        dims: the dimension of `pattern` for each index variable.
        bounds: for a result, the static operands of two or more dimensions whose patterns contain all of its entries.
        walked: the index variables in `levels`, as a set.
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
        """How the stored tuples are spread over each index variable. The attribute `spread` is called at first use."""
        if not self._degrees:
            self._degrees.append(self.spread())
        return self._degrees[0]

    @property
    def within(self) -> tuple[Item, ...]:
        """The static operands of two or more dimensions whose patterns contain all of its index tuples."""
        return (self,) if self.pattern is not None and len(self.levels) > 1 else self.bounds

    def tuples_to_reorder(self, kept: frozenset[IndexVar]) -> float:
        """The number of stored tuples that a product has to reorder if it keeps the index variables `kept`.

        All tuples are reordered if the level of a summed variable is above the level of a kept variable; otherwise none
        is.
        """
        kinds = [v in kept for v in self.levels]
        return self.stored if any(not a and b for a, b in pairwise(kinds)) else 0.0


def operand_item(product: Term, number: int) -> Item:
    """Make the `Item` that describes the operand with the index `number`."""
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
    """How the entries of a static pattern are spread over each dimension. `dims` has the dimension of each variable."""
    return {v: Degrees.of(pattern, dim) for v, dim in dims.items()}


def form_of(*accesses: Sequence[IndexVar]) -> tuple[tuple[int, ...], ...]:
    """Replace index variables in accesses by numbers, in the order in which the variables appear."""
    numbers: dict[IndexVar, int] = {}
    return tuple(tuple(numbers.setdefault(v, len(numbers)) for v in indices) for indices in accesses)


LEAST = 1e-9  # the smallest divisor
FEW = 4  # a sample with fewer hits does not determine a share
GROUPED = 3  # index variables of a result whose degrees are distinguished; the others count as even

Names = frozenset[IndexVar]


def skew(first: Degrees, second: Degrees) -> float:
    """The number of pairs of entries with equal coordinates, divided by the number if entries were spread evenly.

    A pair has one entry described by `first` and one described by `second`. Ratios near 1 are returned as 1.
    """
    pairs = pairs_of_groups(first.pattern, first.dim, second.pattern, second.dim)
    ratio = float(first.weights @ pairs @ second.weights)
    return ratio if ratio > EVEN or ratio < 1 / EVEN else 1.0


class Cells:
    """An estimate of how many coordinate tuples (cells) of a result have an entry.

    Attributes:
        total: the expected number of cells that are not empty.
    """

    def __init__(self, count: float, sizes: Mapping[IndexVar, int], degrees: Mapping[IndexVar, Degrees]) -> None:
        """Estimate the cells that `count` combinations of operands' entries reach. Each combination adds to one cell.

        Args:
            sizes: the size of each index variable of the result.
            degrees: how the combinations are spread, for the index variables where that is known.
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
        """How the cells that are not empty are spread over each index variable, where that is known."""
        if not self.total:
            return {}
        degrees = {}
        for n, (v, x) in enumerate(self.known.items()):
            of_groups = self.filled.sum(axis=tuple([m for m in range(len(self.known)) if m != n])) / self.total
            degrees[v] = replace(x, weights=of_groups / np.maximum(x.shares, LEAST))
        return degrees


class Binding(NamedTuple):
    """How a loop over an index variable changes the number of index tuples that the loops reach.

    Attributes:
        factor: the number of tuples inside the loop, divided by the number outside of it.
        fan: the number of coordinates that the loop visits for each tuple outside: a segment of the shortest level.
        items: the number of items that have the variable.
        stored: n → the least number of distinct tuples that an item stores if the loops bind n of its variables. It
            bounds the number of tuples inside the loop if n variables are bound in all.
    """

    factor: float
    fan: float
    items: int
    stored: Mapping[int, float]

    def tuples(self, outside: float, count: int) -> float:
        """The number of tuples inside the loop, if this loop and the loops around it bind `count` variables.

        `outside` is the product of the attributes `factor` of the loops around it.
        """
        # If an item has all bound variables, the loops cannot reach more tuples than it stores.
        return min(outside * self.factor, self.stored.get(count, inf))


class Estimates:
    """Estimates for the items (operands, results of steps) of one product. Sets of index variables are bit masks.

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
        mask = self._masks.get(item)
        if mask is None:
            mask = self._masks[item] = sum([self.bits[v] for v in item.levels])
        return mask

    def volume(self, indices: Iterable[IndexVar]) -> float:
        """The number of index tuples, which is the product of the sizes."""
        return float(prod([self.sizes[v] for v in indices]))

    def entries(self, item: Item) -> float:
        """The number of elements that an item stores."""
        return item.stored * self.volume([v for v in item.indices if v not in item.levels])

    def distinct_tuples(self, item: Item, bound: int) -> float:
        """The expected number of distinct tuples if the stored tuples of an item keep only the variables `bound`."""
        if not bound:
            return min(item.stored, 1.0)
        key = item, bound
        tuples = self._projected.get(key)
        if tuples is None:
            tuples = item.stored
            if bound != self.mask(item):
                sizes = {v: self.sizes[v] for v in item.levels if self.bits[v] & bound}
                tuples = max(Cells(item.stored, sizes, item.degrees).total, LEAST)
            self._projected[key] = tuples
        return tuples

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
        binding = self._bindings.get(key)
        if binding is None:
            binding = self._bindings[key] = self._binding(items, var, around & bound)
        if len(items) == 1 or len(state) == len(items):
            return binding
        others = [item for item in state if item not in items]
        return binding._replace(factor=binding.factor * self._triangle_factor(items, others, bound | self.bits[var]))

    def _binding(self, items: tuple[Item, ...], var: IndexVar, bound: int) -> Binding:
        factor, inside, fan, stored = float(self.sizes[var]), bound | self.bits[var], inf, dict[int, float]()
        for item in items:
            mask = self.mask(item)
            before, after = bound & mask, inside & mask
            factor *= self._share(item, after) / self._share(item, before)
            tuples = self.distinct_tuples(item, after)
            fan = min(fan, tuples / max(self.distinct_tuples(item, before), LEAST))
            count = after.bit_count()
            stored[count] = min(tuples, stored.get(count, inf))
        if len(items) > 1:
            factor *= self._meeting_factor(items, var, inside)
        return Binding(factor, fan, len(items), stored)

    def _meeting_factor(self, items: tuple[Item, ...], var: IndexVar, inside: int) -> float:
        """The number of tuples at which items meet, divided by the number if entries were even and independent."""
        factor, unconnected = 1.0, [item for item in items if var in item.degrees]
        # A factor for every pair would count the same skew several times, so there is one for each edge of a tree.
        tree = unconnected[:1]
        while unconnected := [item for item in unconnected if item not in tree]:  # a tree of the most skewed pairs
            ratio, nearest = max([(self._skew(x, y, var), n) for x in tree for n, y in enumerate(unconnected)])
            factor *= ratio
            tree.append(unconnected[nearest])
        for first, second in combinations(items, 2):
            factor *= self._coincidence_factor(first, second, var, inside)
        return factor

    def _coincidence_factor(self, first: Item, second: Item, var: IndexVar, inside: int) -> float:
        """The number of tuples at which two items meet, divided by the number if their entries were independent.

        A static operand may contain all entries of an item. The ratio is estimated if each item has such an operand,
        and both operands have the same index variables. It applies at the loop that binds the last of these variables,
        and is 1 elsewhere. If several pairs of operands qualify, the ratio farthest from 1 is taken.
        """
        masks = [[(x, self.mask(x)) for x in item.within] for item in (first, second)]
        ones, others = ([x for x, mask in of if mask & self.bits[var] and not mask & ~inside] for of in masks)
        ratios = [self._coincidence(x, y) for x in ones for y in others if x.walked == y.walked and x is not y]
        return max(ratios, key=lambda share: abs(log(share)), default=1.0)

    def _triangle_factor(self, items: tuple[Item, ...], others: Sequence[Item], inside: int) -> float:
        """The number of triangles ij, jk, ik that a loop completes, divided by the number for independent entries.

        Two of `items` meet at the loop's variable, and one of `others` has their two other index variables. The result
        is the product over all such triples, and 1 if there is none.
        """
        factor = 1.0
        for one, two in combinations([x for x in items if x.pattern is not None and len(x.levels) == 2], 2):
            ends = self.mask(one) ^ self.mask(two)
            for third in others:
                if third.pattern is not None and self.mask(third) == ends and not ends & ~inside:
                    factor *= self._triangles(one, two, third)
        return factor

    def _triangles(self, *sides: Item) -> float:
        """The number of triangles of three operands, divided by the number if their entries were independent.

        The ratio is estimated from a sample of the pairs of entries of two operands. It is large for a banded matrix,
        for instance: if i is near j and j is near k, then i is near k.
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
            closed = share_of_closed_paths(x.pattern, x.dims[y.levels[0]], y.pattern, z.pattern, of_first, of_second)
            near = [self._skew(z, other, v) for other in (x, y) for v in z.levels if v in other.levels]
            self._triangles_found[key] = _ratio_to_expected(closed, self._share(z, self.mask(z)) * prod(near))
        return self._triangles_found[key]

    def _share(self, item: Item, bound: int) -> float:
        """The share of all tuples of the index variables `bound` that an item stores."""
        if not bound:
            return 1.0
        key = item, bound
        share = self._shares.get(key)
        if share is None:
            volume = self.volume([v for v in item.levels if self.bits[v] & bound])
            share = self._shares[key] = max(min(self.distinct_tuples(item, bound) / max(volume, 1.0), 1.0), LEAST)
        return share

    def _skew(self, first: Item, second: Item, var: IndexVar) -> float:
        key = first, second, var
        if key not in self._skews:
            self._skews[key] = skew(first.degrees[var], second.degrees[var])
        return self._skews[key]

    def _coincidence(self, first: Item, second: Item) -> float:
        """The number of entries that two operands share, divided by the number if their entries were independent.

        The ratio is estimated from a sample. The operands have the same index variables.
        """
        assert first.pattern is not None
        assert second.pattern is not None
        dims = tuple(second.dims[v] for v in first.dims)
        share = common_share(first.pattern, tuple(first.dims.values()), second.pattern, dims)
        expected = self._share(second, self.mask(second)) * prod([self._skew(first, second, v) for v in first.walked])
        return _ratio_to_expected(share, expected)


def _ratio_to_expected(share: float, expected: float) -> float:
    """The ratio of the share in a sample to the expected share; 1 if the sample is too small to tell."""
    if share * SAMPLE < FEW and expected * SAMPLE < FEW:
        return 1.0
    # The sample cannot show a share below 1 / SAMPLE.
    return max(share, 1 / SAMPLE) / max(expected, LEAST)
