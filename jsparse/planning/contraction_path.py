"""In which steps a product of three or more operands is computed: all in one loop nest, or some of them before.

A step takes two operands, or results of steps, and sums the indices that nothing else needs; the last step takes all
that are left in one nest. Every sequence is priced (the states are partitions of the operands, few enough to look at
all), with the entries that intermediate results are expected to have, as if stored entries were spread evenly:

    entries of a step    ∏ sizes · ∏ densities of its sparse factors         multiply-adds, fewer in vector lanes
    entries of a result  at most that, and at most ∏ sizes of its indices    written and read once more
    entries to move      those of factors that sum an index outside one kept gathered into another order

What is sampled by a sparse operand is never formed densely (`ij,ik,jk->ij`), a sparse result's structure comes from
sparse intermediates only, and a dense intermediate is not larger than what there is anyway. Up to six operands or so;
with more, the sequence grows greedily.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from math import prod

from jsparse.formats import Pattern
from jsparse.notation import IndexVar
from jsparse.planning.typed_product import TypedProduct

__all__ = ["Step", "contraction_path"]

LANES = 8.0  # multiply-adds in vector lanes cost this much less
DENSE = 4.0  # and of dense products, which blocks of cache serve, so much less again
STEP = 20_000.0  # multiply-adds in the time of one more call
STORED = 4.0  # an entry of an intermediate result, written, read, and found again
LARGER = 2  # a dense intermediate has at most so many times the entries of operands and result
SEARCHED = 2.0  # an entry that is looked up in another pattern
MOVED = 2.0  # an entry gathered into another order, or added up in memory
EXHAUSTIVE = 6  # operands up to which all sequences are priced


@dataclass(frozen=True, slots=True)
class Step:
    """A product of its own: of which operands (later numbers are results of steps), its indices, if it is dense."""

    places: tuple[int, ...]
    indices: tuple[IndexVar, ...]
    is_dense: bool


@dataclass(frozen=True, slots=True)
class _Item:
    """An operand or an intermediate result.

    Attributes:
        members: the operands in it.
        entries: how many it stores.
        walked: the indices of its sparse levels; none if it is dense.
        levels: the same in the order in which they are stored.
        traced: its pattern is known only in the program.
        valued: it has values; what has none is multiplied with something that does.
    """

    members: frozenset[int]
    indices: tuple[IndexVar, ...]
    entries: float
    walked: frozenset[IndexVar]
    traced: bool
    valued: bool = True
    levels: tuple[IndexVar, ...] = ()

    def moved(self, kept: frozenset[IndexVar]) -> float:
        """Entries that a product keeping these indices does not find in the order in which it adds them up."""
        kinds = [v in kept for v in self.levels]
        return self.entries if any(not a and b for a, b in pairwise(kinds)) else 0.0


_State = tuple[_Item, ...]
_Plan = tuple[float, tuple[tuple[_Item, _Item, _Item], ...]]  # cost, and of each step both factors and the result


def contraction_path(product: TypedProduct, is_sparse: bool) -> tuple[Step, ...]:
    """The steps before the last one, none if all operands go into one nest. `is_sparse`: the result gets a pattern of
    its own, so what the steps store must be what they reach."""
    if len(product.operands) < 3 or not product.sums_apart:
        return ()
    search = _Search(product, is_sparse)
    _, merges = search.best(search.items)
    numbers = {item.members: next(iter(item.members)) for item in search.items}
    steps = []
    for left, right, merged in merges:
        places = tuple(sorted((numbers[left.members], numbers[right.members])))
        steps.append(Step(places, merged.indices, not merged.walked))
        numbers[merged.members] = len(product.operands) + len(steps) - 1
    return tuple(steps)


class _Search:
    def __init__(self, product: TypedProduct, is_sparse: bool) -> None:
        self.product, self.is_sparse, self.sizes = product, is_sparse, product.sizes
        self.kept = frozenset(product.kept)
        self.items = tuple(self._operand(n) for n in range(len(product.operands)))
        self.room = LARGER * max(sum(item.entries for item in self.items), self._places(product.kept))
        self.known: dict[frozenset[frozenset[int]], _Plan] = {}

    def best(self, state: _State) -> _Plan:
        """The cheapest way to the result from a partition of the operands."""
        key = frozenset(item.members for item in state)
        if key not in self.known:
            best: _Plan = (self._nest(state, self.kept), ())
            for left, right in combinations(state, 2):
                step = self._step(left, right, state)
                if step is None or step[0] >= best[0]:
                    continue
                cost, merged = step
                rest = tuple(item for item in state if item not in (left, right))
                below, merges = self._below((*rest, merged))
                if cost + below < best[0]:
                    best = (cost + below, ((left, right, merged), *merges))
            self.known[key] = best
        return self.known[key]

    def _below(self, state: _State) -> _Plan:
        if len(self.items) <= EXHAUSTIVE or len(state) <= EXHAUSTIVE:
            return self.best(state)
        return self._nest(state, self.kept), ()

    def _operand(self, place: int) -> _Item:
        x, indices = self.product.operands[place], self.product.indices[place]
        distinct = tuple(dict.fromkeys(indices))
        core = x.core
        if core is None:
            return _Item(frozenset({place}), distinct, self._places(distinct), frozenset(), False)
        assert x.stored is not None
        levels = [indices[level.dim] for level in x.stored.pattern.format.levels]
        walked, behind = levels[: core.ndim], [v for v in levels[core.ndim :] if v not in levels[: core.ndim]]
        entries = core.pattern.nse * self._places(behind)
        repeated = self._places(walked) / max(self._places(tuple(dict.fromkeys(walked))), 1.0)
        traced = not isinstance(core.pattern, Pattern)
        entries /= max(repeated, 1.0)
        return _Item(frozenset({place}), distinct, entries, frozenset(walked), traced, not x.is_relation, tuple(walked))

    def _places(self, indices: Sequence[IndexVar] | frozenset[IndexVar]) -> float:
        return float(prod(self.sizes[v] for v in indices))

    def _entries(self, items: Sequence[_Item]) -> float:
        """Combinations of entries that meet."""
        every = {v for item in items for v in item.indices}
        met = self._places(frozenset(every))
        for item in items:
            if item.walked:
                met *= min(item.entries / max(self._places(item.indices), 1.0), 1.0)
        return met

    def _nest(self, items: Sequence[_Item], kept: frozenset[IndexVar]) -> float:
        """The work of one loop nest over all items."""
        met = self._entries(items)
        walked = {v for item in items for v in item.walked}
        dense = [self.sizes[v] for item in items for v in item.indices if v not in walked]
        if not walked:
            return met * max(len(items) - 1, 1) / (LANES * DENSE)
        searched = 1 + SEARCHED * (sum(1 for item in items if item.walked) - 1)
        moved = MOVED * sum(item.moved(kept) for item in items)
        return met * (len(items) - 1) * searched / min(LANES, max(dense, default=1) or 1) + moved

    def _step(self, left: _Item, right: _Item, state: _State) -> tuple[float, _Item] | None:
        """The cost and the result of multiplying two items first; None if that must not be."""
        others = {v for item in state if item not in (left, right) for v in item.indices} | self.kept
        every = tuple(dict.fromkeys((*left.indices, *right.indices)))
        if not set(left.indices) & set(right.indices) or not (left.valued or right.valued):
            return None  # an outer product only makes more of it
        indices = tuple(v for v in every if v in others)
        walked = left.walked | right.walked
        reached = min(self._entries((left, right)), self._places(indices))
        traced = left.traced or right.traced
        if self._is_stored(left, right, indices):
            carriers = [item for item in (left, right) if item.walked and set(indices) & walked <= item.walked]
            if traced and not carriers:
                return None
            merged = _Item(left.members | right.members, indices, reached, walked & set(indices), traced)
        elif (walked and not self._may_be_of_nothing) or not self._may_be_dense(left, right, indices, state):
            return None
        else:
            merged = _Item(left.members | right.members, indices, self._places(indices), frozenset(), False)
        return self._nest((left, right), frozenset(indices)) + STEP + STORED * merged.entries, merged

    @property
    def _may_be_of_nothing(self) -> bool:
        """Whether a dense intermediate may hold sums of no products, which must then be none of the result's."""
        return self.product.semiring.distributes_empty and not self.is_sparse

    def _is_stored(self, left: _Item, right: _Item, indices: tuple[IndexVar, ...]) -> bool:
        """Whether einsum of the two gives a sparse result (see `planning.output.rules`)."""
        sparse = [item for item in (left, right) if item.walked and item.valued]
        if any(set(item.indices) <= set(indices) for item in sparse):
            return True
        return len(indices) >= 2 and set(indices) <= {v for item in sparse for v in item.indices}

    def _may_be_dense(self, left: _Item, right: _Item, indices: tuple[IndexVar, ...], state: _State) -> bool:
        """Whether a dense result is neither too large nor sampled by a sparse item that is still to come."""
        sampled = any(item.walked and item.walked <= set(indices) for item in state if item not in (left, right))
        return not sampled and self._places(indices) <= self.room
