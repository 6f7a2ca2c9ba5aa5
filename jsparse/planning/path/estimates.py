"""Estimates of how many entries meet in a product, and of how many coordinates its result stores.

Entries that are spread evenly meet at ∏ sizes · ∏ densities index tuples. Those of graphs are not: what a product
visits is decided by the vertices with many entries. The degree sequences of static patterns tell it. At an index that
two operands share, the entries that meet are the pairs with equal coordinates, Σ_x d(x)·e(x). That is exact for two
operands; several shared indices are taken as independent (Ioannidis, The History of Histograms, VLDB 2003).

The coordinates of a result are cells into which the combinations fall. A cell stays empty with probability exp(-λ), if
λ combinations are expected there, and λ is proportional to the degrees of its coordinates. So the cells at vertices of
high degree fill up first. For this, vertices of similar degree are taken together in groups (`degree_groups`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import pairwise
from math import expm1, inf, prod

import numpy as np

from jsparse.compiler.schedule.degrees import degree_groups, pairs_of_groups
from jsparse.notation import IndexVar
from jsparse.planning.path.items import Degrees, Item

__all__ = ["Estimates", "distinct", "skew"]

LEAST = 1e-9  # what is divided by
GROUPED = 3  # index variables of a result whose degrees are told apart; the others count as even
EVEN = 1.25  # what is below counts as even, so that the noise of random patterns decides nothing

Names = frozenset[IndexVar]


def skew(first: Degrees, second: Degrees) -> float:
    """The pairs of entries with equal coordinates, over the pairs that evenly spread entries would have."""
    pairs = pairs_of_groups(first.pattern, first.dim, second.pattern, second.dim)
    found = float(first.of_groups @ pairs @ second.of_groups)
    return found if found > EVEN or found < 1 / EVEN else 1.0


def distinct(
    count: float, sizes: Mapping[IndexVar, int], degrees: Mapping[IndexVar, Degrees]
) -> tuple[float, dict[IndexVar, Degrees]]:
    """The expected number of cells that `count` combinations fall into, and how these are spread over each index.

    Args:
        sizes: the size of each index of the cells.
        degrees: how the combinations are spread, for the indices for which that is known.
    """
    known = [v for v in sizes if v in degrees][:GROUPED]
    even = float(np.prod([float(n) for v, n in sizes.items() if v not in known]))
    if not known:
        return -even * expm1(-count / max(even, 1.0)), {}
    groups = [degree_groups(degrees[v].pattern, degrees[v].dim) for v in known]
    shares = [share * degrees[v].of_groups for v, (_, share) in zip(known, groups, strict=True)]
    cells = reduce(np.multiply.outer, [of_one for of_one, _ in groups]) * even
    expected = reduce(np.multiply.outer, shares) * count
    filled = -cells * np.expm1(-expected / np.maximum(cells, 1e-300))
    total = float(filled.sum())
    if not total:
        return 0.0, {}
    spread = {}
    for n, v in enumerate(known):
        of_one = filled.sum(axis=tuple(m for m in range(len(known)) if m != n)) / total
        weights = of_one / np.maximum(groups[n][1], 1e-300)
        spread[v] = replace(degrees[v], weights=tuple(weights.tolist()))
    return total, spread


class Estimates:
    """Estimates for the items of one product, each made once.

    Attributes:
        sizes: the sizes of index variables.
    """

    def __init__(self, sizes: Mapping[IndexVar, int]) -> None:
        self.sizes = sizes
        self._projected: dict[tuple[object, Names], float] = {}
        self._skews: dict[tuple[object, object, IndexVar], float] = {}

    def volume(self, indices: Iterable[IndexVar]) -> float:
        """The number of index tuples."""
        return float(prod([self.sizes[v] for v in indices]))

    def entries(self, item: Item) -> float:
        """The numbers that an item stores."""
        return item.stored * self.volume([v for v in item.indices if v not in item.levels])

    def projected(self, item: Item, bound: Names) -> float:
        """The distinct tuples that an item stores of some index variables of its sparse levels."""
        if len(bound) == len(item.levels):
            return item.stored
        if not bound:
            return min(item.stored, 1.0)
        key = item.key, bound
        if key not in self._projected:
            sizes = {v: self.sizes[v] for v in item.levels if v in bound}
            self._projected[key] = max(distinct(item.stored, sizes, item.degrees)[0], LEAST)
        return self._projected[key]

    def tuples(self, items: Sequence[Item], bound: Names) -> float:
        """The tuples of index variables at which every sparse item stores something."""
        found, most = self.volume(bound), inf
        for item in items:
            own = bound & item.walked
            if own:
                stored = self.projected(item, own)
                found *= min(stored / max(self.volume(own), 1.0), 1.0)
                most = min(most, stored) if own == bound else most
        for v in bound:
            for first, second in pairwise([item for item in items if v in item.degrees]):
                found *= self._skew(first, second, v)
        return min(found, most)

    def _skew(self, first: Item, second: Item, var: IndexVar) -> float:
        key = first.key, second.key, var
        if key not in self._skews:
            self._skews[key] = skew(first.degrees[var], second.degrees[var])
        return self._skews[key]
