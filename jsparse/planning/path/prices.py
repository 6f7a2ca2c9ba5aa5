"""Prices of loop nests and of steps, in scalar multiply-adds.

tuples that meet     multiply-adds, fewer in vector lanes
positions visited    the loops of sparse levels around them, with a search where several patterns meet
entries to move      those of factors that sum an index outside one kept are gathered into another order
entries of a result  written and read once more, at most the cells of its indices
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import inf

from jsparse.compiler.schedule.cost import sort_cost
from jsparse.compiler.schedule.ordered import ASSEMBLED
from jsparse.notation import IndexVar
from jsparse.planning.path.estimates import Estimates, Names
from jsparse.planning.path.items import Item

__all__ = ["ASSEMBLY", "STEP", "STORED", "VISIT", "WRITTEN", "nest"]

LANES = 8.0  # divisor for multiply-adds in vector lanes
BLOCKED = 4.0  # further divisor for a dense matrix product, which XLA blocks for the cache
ELEMENT = 2.0  # a multiply-add of another dense product, which XLA computes entry by entry
STREAMED = 0.5  # the same where nothing is summed, and all arrays are read in the order in which the result is written
TURNED = 6.0  # an element of an array that XLA reads across its rows then
STEP = 6_000.0  # the fixed cost of one more call
XLA_CALL = 150_000.0  # the fixed cost of an operation of XLA between kernels, since XLA wakes its own threads
ASSEMBLY = 50_000.0  # that of finding a dynamic pattern in the program
STORED = 4.0  # the cost of writing, reading and finding one entry of an intermediate result
WRITTEN = 1.0  # the same for a dense one, which is not searched
SEARCHED = 2.0  # the cost of looking up a coordinate in another pattern
VISIT = 1.0  # the cost of an iteration of a loop over a sparse level
FEW_MOVES = 0.1  # of the cost of loops: no other order is tried, which would save less
GATHERED = 5.0  # the cost of gathering an entry into another order
MOVED = 2.0  # the cost of adding an entry up in memory, or of an element of an array that is moved first
ACROSS = 8.0  # how many times as long it takes to write across the rows of a result


def nest(
    items: Sequence[Item], target: Sequence[IndexVar], estimates: Estimates, is_sparse: bool
) -> tuple[float, float]:
    """The work of one loop nest over all items, for a result with these index variables, which is sparse or dense; and
    the tuples that meet."""
    sparse = [item for item in items if item.levels]
    walked = frozenset([v for item in sparse for v in item.levels])
    if not sparse:
        return _dense(items, target, estimates), 1.0
    dense = {v for item in items for v in item.indices if v not in walked}
    factors = _factors(items)
    assembled = is_sparse and len(sparse) > 1 and any(item.traced for item in sparse)
    kept = frozenset(target)
    visited, tuples = _walked(sparse, kept, assembled, estimates)
    lanes = min(LANES, max([estimates.sizes[v] for v in dense], default=1) or 1)
    arrays = [*[item.indices for item in items if not item.levels], *([target] if not kept <= walked else [])]
    across = [names for names in arrays if names and names[-1] in walked and not walked.issuperset(names)]
    # Such an array is moved; or the patterns are walked for each of its rows, if few entries are known to be left.
    again = inf if any(item.traced for item in sparse) else visited
    moved = 0.0
    for names in across:
        rows = estimates.volume([v for v in names if v not in walked]) * (ACROSS if names is target else 1.0)
        moved += min(MOVED * estimates.volume(names), again * rows)
    moved += 0.0 if is_sparse or kept.isdisjoint(walked) else estimates.volume(target)  # it is cleared first
    work = visited + tuples * estimates.volume(dense) * factors / lanes
    return work * (ASSEMBLED if assembled else 1.0) + moved, tuples


def _factors(items: Sequence[Item]) -> int:
    """The multiplications for each index tuple; at least one for what is read."""
    return max(sum([bool(item.indices) for item in items]) - 1, 1)


def _dense(items: Sequence[Item], target: Sequence[IndexVar], estimates: Estimates) -> float:
    """The work of a product of arrays, which XLA computes.

    It is a product of matrices, or of a matrix and a vector, if two arrays share a summed index variable. Else it is
    computed element by element, where an array may have to be transposed.
    """
    kept, names = set(target), [set(item.indices) for item in items]
    if not any(names):
        return 0.0  # a product of numbers starts no threads
    volume = estimates.volume(set().union(*names)) * _factors(items)
    apart = [((a - b) & kept, (b - a) & kept) for a, b in combinations(names, 2) if (a & b) - kept]
    if any(a and b for a, b in apart):
        return XLA_CALL + volume / (LANES * BLOCKED)
    if any(a or b for a, b in apart):
        return XLA_CALL + volume / LANES
    if kept == set().union(*names) and all(item.indices == tuple(target) for item in items if len(item.indices) > 1):
        return XLA_CALL + STREAMED * volume
    turned = [item for item in items if len(item.indices) > 1 and item.indices[-1:] != tuple(target[-1:])]
    return XLA_CALL + ELEMENT * volume + TURNED * sum([estimates.volume(item.indices) for item in turned])


def _walked(items: Sequence[Item], kept: Names, assembled: bool, estimates: Estimates) -> tuple[float, float]:
    """The cost of the loops over sparse levels and of the entries to move, and the tuples inside of the loops.

    Either loops are in the order in which fewest tuples are left, for which values may have to be moved; or they follow
    the order of storage as far as that is one.
    """
    having: dict[IndexVar, list[Item]] = {}
    for item in items:
        for v in item.levels:
            having.setdefault(v, []).append(item)
    levels = {v: tuple(own) for v, own in having.items()}
    first = kept & levels.keys() if assembled else Names()
    found = list[tuple[float, float]]()
    for as_stored in (len(items) == 1, True):
        before = _before([item for item in items if as_stored or item.traced], levels, estimates.bits)
        order, cost, tuples = _loops(items, levels, before, first, estimates)
        moves = [_moved(item, order, kept) for item in items]
        found.append((cost + sum(moves), tuples))
        if as_stored or sum(moves) < FEW_MOVES * cost:
            break
    return min(found)


def _moved(item: Item, order: Sequence[IndexVar], kept: Names) -> float:
    """The cost of values that loops walk in another order, of a dynamic pattern to sort, or of sums in memory."""
    is_moved = [v for v in order if v in item.walked] != list(item.levels)
    if item.traced and (is_moved or (item.is_list and order[0] != item.levels[0])):
        return sort_cost(round(item.stored))
    if is_moved and not item.is_bare:
        return GATHERED * item.stored
    return MOVED * item.moved(kept)


def _loops(
    items: Sequence[Item],
    levels: Mapping[IndexVar, tuple[Item, ...]],
    before: Mapping[IndexVar, int],
    first: Names,
    estimates: Estimates,
) -> tuple[list[IndexVar], float, float]:
    """Loops over index variables, whose levels these items have: their order, their cost, and the tuples inside.

    The next loop is over the index variable that leaves the fewest tuples; ties follow the order of storage. Dynamic
    patterns are walked as they are stored, or one of them is sorted first. A loop visits the shortest of the levels
    that meet there, with searches in the others. All but one of the variables `first` come before others.
    """
    left, outer = dict(levels), set(first)
    order, bound, cost, tuples, unbounded = list[IndexVar](), 0, 0.0, 1.0, 1.0
    for count in range(1, len(left) + 1):
        open_ = [v for v in left if v in outer] if len(outer) > 1 else list(left)
        free = [v for v in open_ if not before[v] & ~bound] or open_
        bindings = [estimates.binding(left[v], v, bound, items) for v in free]
        inside, chosen = min([(binding.tuples(unbounded, count), n) for n, binding in enumerate(bindings)])
        visited = max(tuples * bindings[chosen].fan, inside)
        cost += visited * (VISIT + SEARCHED * (bindings[chosen].items - 1))
        unbounded *= bindings[chosen].factor  # entries that meet often do so at the variables inside, too
        order.append(free[chosen])
        bound, tuples = bound | estimates.bits[free[chosen]], inside
        outer.discard(free[chosen])
        del left[free[chosen]]
    return order, cost, tuples


def _before(
    as_stored: Sequence[Item], levels: Mapping[IndexVar, tuple[Item, ...]], bits: Mapping[IndexVar, int]
) -> dict[IndexVar, int]:
    """The index variables, as a bit mask, whose loops come before that of each one, where these items are walked as
    they are stored."""
    found = dict.fromkeys(levels, 0)
    for item in as_stored:
        outer = 0
        for v in item.levels:
            found[v] |= outer
            outer |= bits[v]
    return found
