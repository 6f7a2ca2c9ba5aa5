"""Items: the operands of a product and the results of its steps, as the search for a contraction path sees them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from jsparse.base.dataclass import dataclass
from jsparse.compiler.schedule.degrees import degree_groups
from jsparse.formats import Pattern
from jsparse.notation import IndexVar
from jsparse.planning.term import Term

__all__ = ["Degrees", "Item", "form_of", "operand_item"]


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
    """An operand or the result of a step. A search has one item for each set of members and index variables.

    Attributes:
        members: the indices of the operands whose product it is.
        indices: its index variables, each once.
        stored: the expected number of index tuples that its sparse levels store; 1 if it is dense.
        levels: the index variables of its sparse levels, in the order of storage; none if it is dense.
        form: a key that is equal for items with equal values, up to the names of index variables.
        spread: a function that returns how the stored tuples are spread over each index variable, where that is known.
        traced: its pattern is dynamic.
        relates: it is an index relation. Two of them are not multiplied, since their product would have values.
        restricts: it has values, or loops walk it. Otherwise it is a bare pattern that stores every element.
        repeats: an index variable stands for several of its dimensions.
        is_bare: it is a pattern without values.
        is_list: its coordinates are a list, in which loops over other patterns cannot locate a row.
        pattern: the static pattern of an operand, which has an index variable for each dimension.
        dims: the dimension of each index variable.
        bounds: the static operands of two or more dimensions whose patterns contain all entries of a result.
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
        """The result of `spread`, which is computed at first use, since not every item is multiplied."""
        if not self._degrees:
            self._degrees.append(self.spread())
        return self._degrees[0]

    @property
    def within(self) -> tuple[Item, ...]:
        """The static operands of two or more dimensions whose patterns contain all of its index tuples."""
        return (self,) if self.pattern is not None and len(self.levels) > 1 else self.bounds

    def moved(self, kept: frozenset[IndexVar]) -> float:
        """The stored tuples to reorder in a product that keeps these index variables.

        An entry is out of order if a summed variable is stored outside of a kept one.
        """
        kinds = [v in kept for v in self.levels]
        return self.stored if any(not a and b for a, b in pairwise(kinds)) else 0.0


def operand_item(product: Term, number: int) -> Item:
    """The item of one operand."""
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
    """The accesses with index variables numbered in the order in which they appear."""
    numbers: dict[IndexVar, int] = {}
    return tuple(tuple(numbers.setdefault(v, len(numbers)) for v in indices) for indices in accesses)
