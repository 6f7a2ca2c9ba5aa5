"""Choose the contraction path: the steps in which a product of three or more operands is computed.

A step multiplies two values (operands or results of earlier steps) and sums the index variables that nothing else
needs. The last step multiplies all remaining values in one loop nest. The search prices every sequence of steps: its
states are partitions of the operands. Expected entries of intermediate results assume evenly spread entries:

    entries of a step    ∏ sizes · ∏ densities of its sparse factors         multiply-adds, fewer in vector lanes
    entries of a result  at most that, and at most ∏ sizes of its indices    written and read once more
    entries to move      those of factors that sum an index outside one kept gathered into another order

Three rules exclude steps. A product that a sparse operand samples is never formed densely (`ij,ik,jk->ij`). The pattern
of a sparse result comes from sparse intermediates only. A dense intermediate is at most `LARGER` times as large as all
operands together, or as the result. With more than `EXHAUSTIVE` + 1 operands, the first steps are chosen greedily.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from math import prod

from jsparse.formats import Pattern
from jsparse.notation import IndexVar
from jsparse.planning.typed_product import TypedProduct

__all__ = ["Step", "contraction_path"]

# Costs are in scalar multiply-adds.
LANES = 8.0  # divisor for multiply-adds in vector lanes
DENSE = 4.0  # further divisor for a dense product, which XLA blocks for the cache
STEP = 20_000.0  # the fixed cost of one more call
STORED = 4.0  # the cost of writing, reading and finding one entry of an intermediate result
LARGER = 2  # the entries of a dense intermediate, at most, relative to those of operands and result
SEARCHED = 2.0  # the cost of looking up an entry in another pattern
MOVED = 2.0  # the cost of gathering an entry into another order, or of adding it up in memory
EXHAUSTIVE = 7  # the largest number of values for which every sequence of steps is priced: about 3 ms


@dataclass(frozen=True, slots=True)
class Step:
    """A product that is computed before the last one.

    Attributes:
        operands: operand indices; numbers from the count of operands on are results of earlier steps.
        indices: the index variables of the step's result.
        is_dense: the result is a dense array.
    """

    operands: tuple[int, ...]
    indices: tuple[IndexVar, ...]
    is_dense: bool


@dataclass(frozen=True, slots=True)
class _Item:
    """An operand or an intermediate result.

    Attributes:
        members: the indices of the operands that it is a product of.
        entries: the expected number of stored entries.
        walked: the index variables of its sparse levels; none if it is dense.
        levels: the variables in `walked`, in the order of storage.
        traced: its pattern is dynamic.
        relates: it is an index relation. Two of them are not multiplied, since their product would have values.
        restricts: it has values, or loops walk it. Else it is a bare pattern that stores every entry.
    """

    members: frozenset[int]
    indices: tuple[IndexVar, ...]
    entries: float
    walked: frozenset[IndexVar]
    traced: bool
    relates: bool = False
    restricts: bool = True
    levels: tuple[IndexVar, ...] = ()

    def moved(self, kept: frozenset[IndexVar]) -> float:
        """The entries to reorder in a product that keeps these index variables.

        An entry is out of order if a summed variable is stored outside of a kept one.
        """
        kinds = [v in kept for v in self.levels]
        return self.entries if any(not a and b for a, b in pairwise(kinds)) else 0.0


_State = tuple[_Item, ...]
_Plan = tuple[float, tuple[tuple[_Item, _Item, _Item], ...]]  # the cost; for each step (left factor, right, result)


def contraction_path(product: TypedProduct, is_sparse: bool) -> tuple[Step, ...]:
    """The steps before the last one. There are none if one nest over all operands is cheapest.

    Args:
        is_sparse: the result gets a pattern of its own. Every step then has to store exactly the entries it reaches.
    """
    if len(product.operands) < 3 or not product.sums_apart:
        return ()
    search = _Search(product, is_sparse)
    _, merges = search.cheapest()
    numbers = {item.members: next(iter(item.members)) for item in search.items}
    steps = []
    for left, right, merged in merges:
        operands = tuple(sorted((numbers[left.members], numbers[right.members])))
        steps.append(Step(operands, merged.indices, not merged.walked))
        numbers[merged.members] = len(product.operands) + len(steps) - 1
    return tuple(steps)


class _Search:
    def __init__(self, product: TypedProduct, is_sparse: bool) -> None:
        self.product, self.is_sparse, self.sizes = product, is_sparse, product.sizes
        self.kept = frozenset(product.kept)
        self.items = tuple(self._operand(n) for n in range(len(product.operands)))
        self.largest_dense = LARGER * max(sum(item.entries for item in self.items), self._volume(product.kept))
        self.plans: dict[frozenset[frozenset[int]], _Plan] = {}

    def cheapest(self) -> _Plan:
        """The plan of the whole product: greedy steps while there are many values, then the best sequence of steps.

        A greedy step is the one after which it and a nest over all that is left cost least. It need not pay by itself,
        so the search also considers to stop after each.
        """
        state, cost = self.items, 0.0
        steps: tuple[tuple[_Item, _Item, _Item], ...] = ()
        found: _Plan = (self._nest(state, self.kept), ())
        while len(state) > EXHAUSTIVE:
            choice = min(self._steps(state), key=lambda step: step[0] + self._nest(step[2], self.kept), default=None)
            if choice is None:
                return found
            cost, steps, state = cost + choice[0], (*steps, choice[1]), choice[2]
            found = min(found, (cost + self._nest(state, self.kept), steps), key=lambda plan: plan[0])
        below, merges = self.best(state)
        return min(found, (cost + below, (*steps, *merges)), key=lambda plan: plan[0])

    def best(self, state: _State) -> _Plan:
        """The cheapest plan that leads from a partition of the operands to the result."""
        key = frozenset(item.members for item in state)
        if key not in self.plans:
            best: _Plan = (self._nest(state, self.kept), ())
            for cost, step, rest in self._steps(state):
                if cost < best[0]:
                    below, merges = self.best(rest)
                    if cost + below < best[0]:
                        best = (cost + below, (step, *merges))
            self.plans[key] = best
        return self.plans[key]

    def _steps(self, state: _State) -> Iterator[tuple[float, tuple[_Item, _Item, _Item], _State]]:
        """(cost, step, values after it) of every step that the rules allow."""
        for left, right in combinations(state, 2):
            found = self._step(left, right, state)
            if found is not None:
                cost, merged = found
                rest = tuple(item for item in state if item not in (left, right))
                yield cost, (left, right, merged), (*rest, merged)

    def _operand(self, n: int) -> _Item:
        x, indices = self.product.operands[n], self.product.indices[n]
        distinct = tuple(dict.fromkeys(indices))
        core = x.core
        if core is None:
            return _Item(frozenset({n}), distinct, self._volume(distinct), frozenset(), False, restricts=not x.is_bare)
        assert x.stored is not None
        levels = [indices[level.dim] for level in x.stored.pattern.format.levels]
        walked, behind = levels[: core.ndim], [v for v in levels[core.ndim :] if v not in levels[: core.ndim]]
        entries = core.pattern.nse * self._volume(behind)
        repeated = self._volume(walked) / max(self._volume(tuple(dict.fromkeys(walked))), 1.0)
        traced = not isinstance(core.pattern, Pattern)
        entries /= max(repeated, 1.0)
        return _Item(frozenset({n}), distinct, entries, frozenset(walked), traced, x.is_relation, levels=tuple(walked))

    def _volume(self, indices: Sequence[IndexVar] | frozenset[IndexVar]) -> float:
        return float(prod(self.sizes[v] for v in indices))

    def _entries(self, items: Sequence[_Item]) -> float:
        """The expected number of index tuples at which every item stores an entry."""
        every = {v for item in items for v in item.indices}
        met = self._volume(frozenset(every))
        for item in items:
            if item.walked:
                met *= min(item.entries / max(self._volume(item.indices), 1.0), 1.0)
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
        """The cost and the result of multiplying two items first; None if the rules exclude the step."""
        others = {v for item in state if item not in (left, right) for v in item.indices} | self.kept
        every = tuple(dict.fromkeys((*left.indices, *right.indices)))
        if not set(left.indices) & set(right.indices):
            return None  # an outer product has more entries than both factors, and saves no multiplication
        if (left.relates and right.relates) or not (left.restricts or right.restricts):
            return None
        indices = tuple(v for v in every if v in others)
        walked = left.walked | right.walked
        reached = min(self._entries((left, right)), self._volume(indices))
        traced = left.traced or right.traced
        if self._is_stored(left, right, indices):
            carriers = [item for item in (left, right) if item.walked and set(indices) & walked <= item.walked]
            if traced and not carriers:
                return None
            merged = _Item(left.members | right.members, indices, reached, walked & set(indices), traced)
        elif (walked and not self._may_fill_empty_sums) or not self._may_be_dense(left, right, indices, state):
            return None
        else:
            merged = _Item(left.members | right.members, indices, self._volume(indices), frozenset(), False)
        return self._nest((left, right), frozenset(indices)) + STEP + STORED * merged.entries, merged

    @property
    def _may_fill_empty_sums(self) -> bool:
        """Whether a dense intermediate may store the semiring's zero where no product contributes.

        The zero must vanish in later products, and must not become a stored entry of a sparse result.
        """
        return self.product.semiring.distributes_empty and not self.is_sparse

    def _is_stored(self, left: _Item, right: _Item, indices: tuple[IndexVar, ...]) -> bool:
        """Whether the einsum of the two items has a sparse result (see `planning.output.rules`)."""
        sparse = [item for item in (left, right) if item.walked and not item.relates]
        if any(set(item.indices) <= set(indices) for item in sparse):
            return True
        return len(indices) >= 2 and set(indices) <= {v for item in sparse for v in item.indices}

    def _may_be_dense(self, left: _Item, right: _Item, indices: tuple[IndexVar, ...], state: _State) -> bool:
        """Whether a dense result is small enough, and no sparse item of a later step samples it."""
        sampled = any(item.walked and item.walked <= set(indices) for item in state if item not in (left, right))
        return not sampled and self._volume(indices) <= self.largest_dense
