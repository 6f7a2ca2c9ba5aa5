"""Prices of loop nests and of steps, in scalar multiply-adds. A price is the sum of the costs of

tuples that meet     a multiply-add for each tuple, or less in vector lanes
positions visited    a visit for each position of the sparse levels, and a search where several patterns meet
entries to move      a gather into another order, if the level of a summed index is above the level of a kept index
entries of a result  a write and a later read for each entry of an intermediate result
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import inf

from jsparse.compiler.cpu_model import CpuModel
from jsparse.compiler.schedule.prices.cost import sort_cost
from jsparse.notation import IndexVar
from jsparse.planning.path.estimates import Estimates, Item, Names

FEW_MOVES = 0.1  # share of the cost of loops; if moves cost less than it, no second order of loops is tried


def nest(
    cpu: CpuModel, items: Sequence[Item], target: Sequence[IndexVar], estimates: Estimates, is_sparse: bool
) -> tuple[float, float]:
    """Price one loop nest over all items. Returns its work and the number of tuples at which the items meet.

    The result has the index variables `target`, and is sparse or dense.
    """
    sparse = [item for item in items if item.levels]
    walked = frozenset([v for item in sparse for v in item.levels])
    if not sparse:
        return _dense(cpu, items, target, estimates), 1.0
    dense = {v for item in items for v in item.indices if v not in walked}
    factors = _factors(items)
    assembled = is_sparse and len(sparse) > 1 and any(item.traced for item in sparse)
    kept = frozenset(target)
    visited, tuples = _price_loops(cpu, sparse, kept, assembled, estimates)
    lanes = min(cpu.lane_speedup, max([estimates.sizes[v] for v in dense], default=1) or 1)
    arrays = [*[item.indices for item in items if not item.levels], *([target] if not kept <= walked else [])]
    across = [names for names in arrays if names and names[-1] in walked and not walked.issuperset(names)]
    # The last axis of these arrays is a sparse level's, so lanes cannot load it. Either the array is moved, or the
    # patterns are walked once for each of its rows; that is cheaper if few entries are visited.
    again = inf if any(item.traced for item in sparse) else visited
    moved = 0.0
    for names in across:
        rows = estimates.volume([v for v in names if v not in walked]) * (cpu.path_across if names is target else 1.0)
        moved += min(cpu.path_moved * estimates.volume(names), again * rows)
    moved += 0.0 if is_sparse or kept.isdisjoint(walked) else estimates.volume(target)  # it is cleared first
    work = visited + tuples * estimates.volume(dense) * factors / lanes
    return work * (cpu.appended if assembled else 1.0) + moved, tuples


def _factors(items: Sequence[Item]) -> int:
    """The number of multiplications for each index tuple; at least 1, which stands for reading a single factor."""
    return max(sum([bool(item.indices) for item in items]) - 1, 1)


def _dense(cpu: CpuModel, items: Sequence[Item], target: Sequence[IndexVar], estimates: Estimates) -> float:
    """The work of a product of arrays, which XLA computes.

    If two arrays share a summed index variable, XLA multiplies matrices, or a matrix and a vector. Otherwise XLA
    computes the product element by element, and may have to transpose an array.
    """
    kept, names = set(target), [set(item.indices) for item in items]
    if not any(names):
        return 0.0  # a product of numbers starts no threads
    volume = estimates.volume(set().union(*names)) * _factors(items)
    apart = [((a - b) & kept, (b - a) & kept) for a, b in combinations(names, 2) if (a & b) - kept]
    if any(a and b for a, b in apart):
        return cpu.path_xla_call + volume / (cpu.lane_speedup * cpu.path_blocked)
    if any(a or b for a, b in apart):
        return cpu.path_xla_call + volume / cpu.lane_speedup
    if kept == set().union(*names) and all(item.indices == tuple(target) for item in items if len(item.indices) > 1):
        return cpu.path_xla_call + cpu.path_streamed * volume
    turned = [item for item in items if len(item.indices) > 1 and item.indices[-1:] != tuple(target[-1:])]
    strided = sum([estimates.volume(item.indices) for item in turned])
    return cpu.path_xla_call + cpu.path_element * volume + cpu.path_strided * strided


def _price_loops(
    cpu: CpuModel, items: Sequence[Item], kept: Names, assembled: bool, estimates: Estimates
) -> tuple[float, float]:
    """Price the loops over sparse levels. Returns the cost, and the number of tuples that the innermost loop reaches.

    The cost includes the work of moving entries into the order of the loops.
    Two orders of loops are compared: the order that leaves the fewest tuples, for which values may have to be moved,
    and the order that follows the storage orders as far as they agree.
    """
    having: dict[IndexVar, list[Item]] = {}
    for item in items:
        for v in item.levels:
            having.setdefault(v, []).append(item)
    levels = {v: tuple(of_var) for v, of_var in having.items()}
    first = kept & levels.keys() if assembled else Names()
    prices = list[tuple[float, float]]()
    for as_stored in (len(items) == 1, True):
        before = _before([item for item in items if as_stored or item.traced], levels, estimates.bits)
        order, cost, tuples = _loops(cpu, items, levels, before, first, estimates)
        moves = [_price_of_order(cpu, item, order, kept) for item in items]
        prices.append((cost + sum(moves), tuples))
        if as_stored or sum(moves) < FEW_MOVES * cost:
            break
    return min(prices)


def _price_of_order(cpu: CpuModel, item: Item, order: Sequence[IndexVar], kept: Names) -> float:
    """The cost that the order of the loops adds for an item.

    If the loops do not follow the item's storage order, a dynamic pattern is sorted, and values on a static pattern are
    gathered. If they follow it, sums are kept in memory where a summed variable is outside of a kept variable.
    """
    is_moved = [v for v in order if v in item.walked] != list(item.levels)
    if item.traced and (is_moved or (item.is_list and order[0] != item.levels[0])):
        return sort_cost(cpu, round(item.stored))
    if is_moved and not item.is_bare:
        return cpu.path_gathered * item.stored
    return cpu.path_moved * item.tuples_to_reorder(kept)


def _loops(
    cpu: CpuModel,
    items: Sequence[Item],
    levels: Mapping[IndexVar, tuple[Item, ...]],
    before: Mapping[IndexVar, int],
    first: Names,
    estimates: Estimates,
) -> tuple[list[IndexVar], float, float]:
    """Choose an order of loops over the sparse levels of the items, greedily.

    Returns the order, its cost, and the number of tuples that the innermost loop reaches.

    The next loop is over the index variable that leaves the fewest tuples; ties follow the order of storage. A loop
    visits the shortest of the levels that meet at its variable, and searches in the others.

    Args:
        levels: the items that have each index variable.
        before: for each index variable, the variables whose loops come first, as far as that is possible.
        first: index variables. Their loops, except for the last one, come before the loops over all other variables.
    """
    remaining, outer = dict(levels), set(first)
    order, bound, cost, tuples, unbounded = list[IndexVar](), 0, 0.0, 1.0, 1.0
    for count in range(1, len(remaining) + 1):
        open_ = [v for v in remaining if v in outer] if len(outer) > 1 else list(remaining)
        free = [v for v in open_ if not before[v] & ~bound] or open_
        bindings = [estimates.binding(remaining[v], v, bound, items) for v in free]
        inside, chosen = min([(binding.tuples(unbounded, count), n) for n, binding in enumerate(bindings)])
        visited = max(tuples * bindings[chosen].fan, inside)
        cost += visited * (cpu.path_visit + cpu.path_search * (bindings[chosen].items - 1))
        unbounded *= bindings[chosen].factor  # uncapped: entries that meet often do so in inner loops, too
        order.append(free[chosen])
        bound, tuples = bound | estimates.bits[free[chosen]], inside
        outer.discard(free[chosen])
        del remaining[free[chosen]]
    return order, cost, tuples


def _before(
    as_stored: Sequence[Item], levels: Mapping[IndexVar, tuple[Item, ...]], bits: Mapping[IndexVar, int]
) -> dict[IndexVar, int]:
    """Map each index variable to a bit mask of other variables.

    Their loops enclose its own loop if items are walked as stored.
    """
    enclosing = dict.fromkeys(levels, 0)
    for item in as_stored:
        outer = 0
        for v in item.levels:
            enclosing[v] |= outer
            outer |= bits[v]
    return enclosing
