"""Choose the contraction path: the sequence of steps that compute a product.

A step computes the product of some values (operands, or results of earlier steps) and sums the index variables that
neither the result nor another value has. The last step multiplies all remaining values in one loop nest. The steps are

    a value alone          its index variables that no other value has are summed, or its diagonal is taken
    two values
    a sparse value and     all in one nest: `ij,ik,jk->ij`, where a product of the dense values alone would be large
    several dense values
    a bucket: all values   all in one nest, which eliminates the variable, or both variables (Dechter, Bucket
    that have a chosen     elimination, 1999)
    summed index variable,
    or either of two
    a bucket, and a sparse all in one nest, which computes the bucket's product only where the sparse value stores
    value that only has    entries (a masked product in GraphBLAS): the first three values of `ij,il,lj,jk->ik`
    index variables of
    the bucket's product

The search prices every sequence of steps: its states are partitions of the operands. Equal steps, such as the two
products A·A in `ij,jk,kl,li->`, are computed once.

Three rules exclude steps. A product that a sparse operand samples is never formed densely (`ij,ik,jk->ij`). If the
result is sparse, an intermediate that keeps an index variable of a sparse factor is sparse, too. A dense intermediate
has at most `LARGER` times the entries of all operands together, or of the result. It may have more entries if its step
takes many multiply-adds for each of them. With more than `EXHAUSTIVE` operands, the first steps are chosen greedily.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from math import inf

from jsparse.base.dataclass import dataclass
from jsparse.compiler.cpu_model import CPU, CpuModel
from jsparse.compiler.schedule.degrees import stores_every
from jsparse.notation import IndexVar
from jsparse.planning.output import is_sparse_by_rule
from jsparse.planning.path.estimates import Cells, Estimates, Item, form_of, operand_item
from jsparse.planning.path.prices import nest
from jsparse.planning.term import Term

# the maximum number of entries of a dense intermediate, relative to the entries of all operands or of the result
LARGER = 2
WORK = 2  # a dense result may be larger if its step takes at least this many multiply-adds for each entry
DENSE_WORK = 256  # the same if all factors are dense
LARGEST = 1 << 26  # the maximum number of entries of such a larger result
EXHAUSTIVE = 5  # the largest number of values for which every sequence of steps is priced: a few milliseconds
EMPTY = (
    4  # a step's result may be sparse if it has more than this many cells for each combination that falls into a cell
)
MEETING = 6  # a step finds where operands meet if together they store at least this many entries for each shared entry
FOUND = 1e7  # the work by which planning may find where operands meet: about 10 ms
GROUPED = 4  # dense values that may be multiplied with a sparse one in a step


Result = tuple[frozenset[int], frozenset[IndexVar]]
"""The key of a result: the set of operands whose product is the result, and the result's index variables."""


@dataclass(frozen=True, slots=True)
class Step:
    """A product that is computed before the last product.

    Attributes:
        operands: the number of each factor. Numbers count the operands first, then the results of earlier steps.
        indices: the index variables of the step's result.
        is_dense: whether the result is a dense array.
        members: the operands of the full product whose product is the step's result.
        stored: the expected number of index tuples that the sparse levels of the result store.
    """

    operands: tuple[int, ...]
    indices: tuple[IndexVar, ...]
    is_dense: bool
    members: frozenset[int]
    stored: float

    @property
    def key(self) -> Result:
        """The key of the step's result, which is equal in all paths that compute this result."""
        return self.members, frozenset(self.indices)


_State = tuple[Item, ...]
_Merge = tuple[tuple[Item, ...], Item]  # the factors of a step, and its result
_Plan = tuple[float, tuple[_Merge, ...]]


def contraction_path(
    product: Term, is_sparse: bool, counts: Mapping[Result, float] | None = None, cpu: CpuModel = CPU
) -> tuple[Step, ...]:
    """Find the steps before the last step. There are none if one nest over all operands is cheapest.

    Args:
        is_sparse: whether the result gets a new pattern. Every step then has to store exactly the entries that it
            reaches.
        counts: the known numbers of index tuples that results store; other numbers are estimated.
    """
    if not product.sums_apart:
        return ()
    search = _PathSearch(product, is_sparse, counts or {}, cpu)
    if not search.may_pay():
        return ()
    _, merges = search.cheapest()
    numbers = {item: n for n, item in enumerate(search.items)}
    steps = []
    for factors, merged in merges:
        chosen = tuple(numbers[x] for x in factors)
        steps.append(Step(chosen, merged.indices, not merged.levels, merged.members, merged.stored))
        numbers[merged] = len(product.operands) + len(steps) - 1
    return tuple(steps)


def prices(product: Term, is_sparse: bool) -> tuple[float, float]:
    """The prices of the cheapest path and of one nest over all operands. For arguments, see `contraction_path`."""
    search = _PathSearch(product, is_sparse, {}, CPU)
    return search.cheapest()[0], search.nest(search.items)


class _PathSearch:
    def __init__(self, product: Term, is_sparse: bool, counts: Mapping[Result, float], cpu: CpuModel) -> None:
        self.product, self.is_sparse, self.estimates = product, is_sparse, Estimates(product.sizes)
        self.counts, self.cpu = counts, cpu
        self.kept = frozenset(product.result_vars)
        self.items = tuple(operand_item(product, n) for n in range(len(product.operands)))
        operands = sum(self.estimates.entries(item) for item in self.items)
        self.largest_dense = LARGER * max(operands, self.estimates.volume(product.result_vars))
        self.results: dict[tuple[frozenset[int], tuple[IndexVar, ...], bool], Item] = {}
        self.plans: dict[frozenset[Item], _Plan] = {}
        self.merged: dict[tuple[frozenset[Item], bool, bool], tuple[float, float, Item] | None] = {}
        self.nests: dict[frozenset[Item], float] = {}

    def may_pay(self) -> bool:
        """Whether a path can have steps at all. If it cannot, no search is needed.

        Three operands can be multiplied in steps. With fewer operands, a step may find the common entries of static
        operands before a sum. Or it may sum an index variable that only one sparse operand has. This operand must lack
        some index variable of the other operand (or of the result, if there is one operand).
        """
        operands, names = self.product.operands, [set(indices) for indices in self.product.indices]
        if len(operands) > 2 or any(not self.kept.issuperset(_names(group)) for group in _meetings(self.items)):
            return True
        others = [set(self.kept), *names] if len(names) == 1 else [names[1], names[0]]
        pairs = zip(operands, names, others, strict=False)
        return any(x.core is not None and not own <= self.kept | other and not other <= own for x, own, other in pairs)

    def cheapest(self) -> _Plan:
        """Find the cheapest of several plans. They differ in the index variables that are summed before other steps.

        An index variable that only one operand has may be summed first. This is done in no operand, in all operands, or
        in all operands but one. An operand is left out only if all sparse operands in its connected component have
        something to sum first (`_component_of`).
        """
        alone = [item for item in self.items if self._alone(item, self.items) is not None]
        plans = [self._from(self.items)]
        if alone:
            plans.append(self._after(alone))
        plans += [
            self._after([item for item in alone if item is not omitted])
            for omitted in (alone if len(alone) > 1 else ())
            if all(item in alone or not item.levels for item in _component_of(omitted, self.items))
        ]
        return min(plans, key=lambda plan: plan[0])

    def _after(self, alone: Sequence[Item]) -> _Plan:
        """Make the plan whose first steps sum, in each item of `alone`, the index variables that no other value has."""
        state, cost, merges = self.items, 0.0, list[_Merge]()
        for item in alone:
            step = self._alone(item, state)
            if step is not None:
                state = tuple(step[1] if item is other else other for other in state)
                cost, merges = cost + step[0], [*merges, ((item,), step[1])]
        below, later = self._from(state)
        return cost + below, (*merges, *later)

    def _from(self, state: _State) -> _Plan:
        """The plan of a product of these values: greedy steps while there are many values, then the best steps.

        A greedy step minimizes its own cost plus the cost of one nest over all values that remain after it. Later
        greedy steps may not pay, so the plans that stop after each greedy step are compared, too.
        """
        cost, merges = 0.0, tuple[_Merge, ...]()
        best: _Plan = (self.nest(state), ())
        while len(state) > EXHAUSTIVE:
            choice = self._next(state, best[0] - cost)
            if choice is None:
                return best
            cost, merges, state = cost + choice[0], (*merges, choice[1]), choice[2]
            best = min(best, (cost + self.nest(state), merges), key=lambda plan: plan[0])
        below, later = self._best(state)
        return min(best, (cost + below, (*merges, *later)), key=lambda plan: plan[0])

    def _next(self, state: _State, most: float) -> tuple[float, _Merge, _State] | None:
        """Find the best greedy step; None if all steps cost `most` or more.

        The best step has the least sum of its own cost and the cost of one nest over the values that remain.
        """
        chosen, least = None, inf
        for step in sorted(self._steps(state), key=lambda step: step[0]):
            if step[0] >= min(least, most):
                break  # steps are sorted by cost, and the nest after a step costs 0 or more
            total = step[0] + self.nest(step[2])
            if total < least:
                chosen, least = step, total
        return chosen

    def _best(self, state: _State) -> _Plan:
        """Find the cheapest plan that leads from a partition of the operands to the result."""
        key = frozenset(state)
        if key not in self.plans:
            best: _Plan = (self.nest(state), ())
            for cost, merge, remaining in sorted(self._steps(state), key=lambda step: step[0]):
                if cost >= best[0]:
                    break  # branch and bound: no later step is cheaper, and the rest of the plan costs 0 or more
                below, later = self._best(remaining)
                if cost + below < best[0]:
                    best = (cost + below, (merge, *later))
            self.plans[key] = best
        return self.plans[key]

    def nest(self, state: _State) -> float:
        """The work of one loop nest over all values."""
        key = frozenset(state)
        if key not in self.nests:
            work, tuples = nest(self.cpu, state, self.product.result_vars, self.estimates, self.is_sparse)
            self.nests[key] = (
                _at_entries(self.cpu, work, tuples, state, self.product.result_vars) if self.is_sparse else work
            )
        return self.nests[key]

    def _steps(self, state: _State) -> Iterator[tuple[float, _Merge, _State]]:
        """Yield every allowed step: its cost, its factors with its result, and the values after the step."""
        # A step that multiplies all values would be the last one, which `nest` prices.
        groups = [(factors, False) for factors in _groups(state, self.kept) if len(factors) < len(state)]
        groups += [
            (met, True) for met in _meetings(state) if not self._variables_outside(met, state).issuperset(_names(met))
        ]
        for factors, keeps_all in groups:
            others = tuple(item for item in state if item not in factors)
            # Planning can find a new pattern, to save work with a mostly empty product, if all patterns are static.
            is_static = any(item.levels for item in factors) and not any(item.traced for item in factors)
            for as_pattern in (False, True) if is_static else (False,):
                priced = self._step(factors, state, keeps_all, as_pattern)
                if priced is not None:
                    cost, merged = priced
                    yield cost, (_in_order(factors), merged), (*others, merged)

    def _alone(self, item: Item, state: _State) -> tuple[float, Item] | None:
        """Price a step on one sparse item: sum the variables that only the item has, or take its diagonal."""
        if not item.levels or item.relates:
            return None
        others = self._variables_outside((item,), state)
        return self._step((item,), state) if item.repeats or not others.issuperset(item.indices) else None

    def _variables_outside(self, factors: tuple[Item, ...], state: _State) -> frozenset[IndexVar]:
        """The index variables of the result and of all values other than `factors`."""
        return self.kept.union(*(item.indices for item in state if item not in factors))

    def _step(
        self, factors: tuple[Item, ...], state: _State, keeps_all: bool = False, as_pattern: bool = False
    ) -> tuple[float, Item] | None:
        """The cost and the result of a step that multiplies some items; None if the step is not allowed.

        Args:
            keeps_all: whether the result keeps all index variables, or only the variables that are needed later.
            as_pattern: whether to price a mostly empty result as a sparse one, although it would be dense by the rules
                in `planning.output`.
        """
        key = frozenset(factors), keeps_all, as_pattern
        if key not in self.merged:
            names = frozenset(v for item in factors for v in item.indices)
            needed = names if keeps_all else self._variables_outside(factors, state)
            self.merged[key] = self._product(factors, needed, as_pattern)
        priced = self.merged[key]
        if priced is None or (not priced[2].levels and not self._may_be_dense(priced[1], priced[2], factors, state)):
            return None
        work, _, merged = priced
        if keeps_all and MEETING * merged.stored > sum(item.stored for item in factors):
            return None
        if any(item.form == merged.form for item in state):
            return 0.0, merged  # an equal value exists already, so the step is free
        assembly = self.cpu.path_assembly if merged.traced and not self._lies_on(merged, factors) else 0.0
        each = self.cpu.path_stored if merged.levels else self.cpu.path_written
        return work + self.cpu.path_step + assembly + each * self.estimates.entries(merged), merged

    def _product(
        self, factors: tuple[Item, ...], needed: frozenset[IndexVar], as_pattern: bool
    ) -> tuple[float, float, Item] | None:
        """The price of a product's loops, its number of multiply-adds, and its result; None if it cannot be a step."""
        factors = _in_order(factors)
        every = tuple(dict.fromkeys(v for item in factors for v in item.indices))
        indices = tuple(v for v in every if v in needed)
        form = (tuple(item.form for item in factors), form_of(*(item.indices for item in factors), indices), as_pattern)
        members = frozenset[int]().union(*(item.members for item in factors))
        sparse = [item for item in factors if item.levels]
        walked = frozenset(v for item in sparse for v in item.levels)
        is_stored = is_sparse_by_rule(indices, [item.indices for item in sparse if not item.relates])
        work, tuples = nest(self.cpu, factors, indices, self.estimates, is_stored)
        if not walked.issubset(indices):
            work = _work_of_product(self.cpu, work, tuples, sparse)
        multiply_adds = tuples * self.estimates.volume([v for v in every if v not in walked])
        if as_pattern and (is_stored or EMPTY * tuples >= self.estimates.volume(walked.intersection(indices))):
            return None  # sparse anyway, or not empty enough for a pattern to pay
        if not is_stored and not as_pattern:
            if not sparse or self._may_fill_empty_sums(walked.intersection(indices)):
                return work, multiply_adds, self._item(Item(members, indices, 1.0, (), form))
            if not self.is_sparse or not walked.issuperset(indices):
                return None
        levels = tuple(v for v in indices if v in walked)
        if levels == indices and self._is_full(sparse, levels):  # a step whose new pattern stores everything is dense
            return work, multiply_adds, self._item(Item(members, indices, 1.0, (), form))
        traced = any(item.traced for item in sparse)
        if traced and not any(item.walked.issuperset(levels) for item in sparse):
            return None  # no factor bounds the capacity of a dynamic result
        degrees = {v: item.degrees[v] for item in reversed(sparse) for v in levels if v in item.degrees}
        cells = Cells(tuples, {v: self.product.sizes[v] for v in levels}, degrees)
        reached = cells.total if walked.difference(levels) else tuples  # without sums the tuples are distinct
        stored = self.counts.get((members, frozenset(indices)), reached)
        work = _at_entries(self.cpu, work, stored, factors, indices)
        bounds = tuple([x for item in sparse for x in item.within if x.walked.issubset(levels)])
        result = Item(members, indices, stored, levels, form, cells.spread, traced, bounds=bounds)
        if self._lies_on(result, factors):
            one = sparse[0]
            result = replace(result, levels=one.levels, spread=one.spread, pattern=one.pattern, dims=one.dims)
        return work, multiply_adds, self._item(result)

    @staticmethod
    def _is_full(sparse: Sequence[Item], levels: tuple[IndexVar, ...]) -> bool:
        """Whether a result with one level is known to have an entry at every coordinate.

        This is known if its only sparse factor is static, and has an entry at every coordinate of that index variable.
        """
        if len(sparse) != 1 or len(levels) != 1 or sparse[0].pattern is None:
            return False
        return stores_every(sparse[0].pattern, sparse[0].dims[levels[0]])

    def _item(self, item: Item) -> Item:
        """Return the item equal to `item` that another order of steps has made before, or else `item` itself."""
        return self.results.setdefault((item.members, item.indices, bool(item.levels)), item)

    @staticmethod
    def _lies_on(merged: Item, factors: tuple[Item, ...]) -> bool:
        """Whether a sparse result has the pattern of the only sparse factor."""
        sparse = [item for item in factors if item.levels]
        return len(sparse) == 1 and sparse[0].walked == merged.walked

    def _may_fill_empty_sums(self, walked: frozenset[IndexVar]) -> bool:
        """Whether a dense intermediate may store the semiring's zero where no product contributes.

        The product of the zero and any value has to be zero, and the zero must not become a stored entry of a sparse
        result. `walked` are the index variables that the intermediate keeps of sparse factors. An intermediate without
        such variables does not decide which entries the result stores.
        """
        return self.product.semiring.distributes_empty and not (self.is_sparse and walked)

    def _may_be_dense(self, multiply_adds: float, merged: Item, factors: tuple[Item, ...], state: _State) -> bool:
        """Whether a dense result is small enough, and no sparse item of a later step samples it."""
        indices, entries = set(merged.indices), self.estimates.entries(merged)
        if any(item.levels and item.walked <= indices for item in state if item not in factors):
            return False
        least = WORK if any(item.levels for item in factors) else DENSE_WORK
        return entries <= self.largest_dense or (entries <= LARGEST and least * entries <= multiply_adds)


def _meetings(state: Sequence[Item]) -> list[tuple[Item, ...]]:
    """The groups of static operands whose common entries planning may find before anything is summed.

    A group is all static operands, or two operands such that one has all index variables of the other. If the operands
    of a group share few entries, finding them first saves work in each call: loops visit these entries, and merge no
    segments.
    """
    static = tuple([item for item in state if item.pattern is not None])
    groups = list[tuple[Item, ...]]()
    for one, other in combinations(static, 2):
        if one.walked >= other.walked or one.walked <= other.walked:
            groups.append((one, other))
    return [*groups, static] if len(static) > 2 else groups


def _component_of(item: Item, state: _State) -> list[Item]:
    """The connected component of an item, where items that share an index variable are neighbours."""
    component, names = [item], set(item.indices)
    while new := [x for x in state if x not in component and not names.isdisjoint(x.indices)]:
        component += new
        names.update(_names(new))
    return component


def _at_entries(cpu: CpuModel, work: float, entries: float, items: Sequence[Item], target: Sequence[IndexVar]) -> float:
    """Price a product whose result has `entries` entries and the index variables `target`.

    One nest over the stored operands takes `work`. But if nothing is summed and all patterns are static, planning can
    find the entries once, as long as `work` is small. The kernel then looks up each entry in all operands.
    """
    sparse = [item for item in items if item.levels]
    if not sparse or any(item.traced for item in sparse) or not _names(items).issubset(target) or work >= FOUND:
        return work
    return min(work, entries * (cpu.path_visit + cpu.path_lookup * len(sparse)))


def _work_of_product(cpu: CpuModel, work: float, entries: float, sparse: Sequence[Item]) -> float:
    """The work of a step that multiplies these sparse items and sums the product. One nest would take `work`.

    If two items share few entries, the step is planned as two steps: find the shared entries, then sum.
    """
    if len(sparse) != 2 or work >= FOUND or not _meetings(sparse) or MEETING * entries > sum(x.stored for x in sparse):
        return work
    return min(work, cpu.path_step + entries * (cpu.path_visit + cpu.path_lookup * len(sparse) + cpu.path_stored))


def _names(items: Sequence[Item]) -> set[IndexVar]:
    """The index variables that some items have."""
    return {v for item in items for v in item.indices}


def _groups(state: _State, kept: frozenset[IndexVar]) -> Iterator[tuple[Item, ...]]:
    """Yield the groups of values that a step may multiply.

    There are three kinds of groups: two values that share an index variable; the groups of `_buckets`, which eliminate
    summed index variables; and a sparse value with some dense values.
    """
    for pair in combinations(state, 2):
        left, right = pair
        if set(left.indices).isdisjoint(right.indices):
            continue  # an outer product has more entries than both factors, and saves no multiplication
        if not (left.relates and right.relates) and (left.restricts or right.restricts):
            yield pair
    yield from _buckets(state, kept)
    for item in state:
        if item.levels:
            dense = [other for other in state if not other.levels and not set(other.indices).isdisjoint(item.indices)]
            for count in range(2, min(len(dense), GROUPED, len(state) - 2) + 1):
                yield from ((item, *group) for group in combinations(dense, count))


def _buckets(state: _State, kept: frozenset[IndexVar]) -> Iterator[tuple[Item, ...]]:
    """Yield groups of values whose product eliminates one or two summed variables, for each choice of variables.

    A bucket is all values that have one of the chosen variables. A sparse value is a mask of a bucket if the bucket's
    product has all of the value's index variables. A group is a bucket of three or more values, or a bucket and its
    masks.
    """
    summed = list(dict.fromkeys(v for item in state for v in item.indices if v not in kept))
    groups = dict[tuple[Item, ...], None]()
    for chosen in (*((v,) for v in summed), *combinations(summed, 2)):
        bucket = tuple([item for item in state if any(v in item.indices for v in chosen)])
        names = _names(bucket).difference(chosen)
        masks = [x for x in state if x not in bucket and len(x.walked) > 1 and x.walked <= names and not x.relates]
        is_sparse = any(item.levels and item.restricts and not item.relates for item in bucket)
        for group, is_step in ((bucket, is_sparse), ((*bucket, *masks), bool(masks))):
            if is_step and 3 <= len(group) < len(state):
                groups[group] = None
    yield from groups


def _in_order(factors: tuple[Item, ...]) -> tuple[Item, ...]:
    """Sort two factors independently of the names of index variables, so that equal steps have equal `Item.form`."""
    if len(factors) != 2 or factors[0].form != factors[1].form:
        return factors
    return min(factors, factors[::-1], key=lambda pair: form_of(*(item.indices for item in pair)))
