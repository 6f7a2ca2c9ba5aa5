"""Prices of loop nests and of steps, in scalar multiply-adds.

tuples that meet     multiply-adds, fewer in vector lanes
positions visited    the loops of sparse levels around them, with a search where several patterns meet
entries to move      those of factors that sum an index outside one kept are gathered into another order
entries of a result  written and read once more, at most the cells of its indices
"""

from __future__ import annotations

from collections.abc import Sequence

from jsparse.notation import IndexVar
from jsparse.planning.path.estimates import Estimates, Names
from jsparse.planning.path.items import Item

__all__ = ["ASSEMBLY", "SEARCHED", "STEP", "STORED", "VISIT", "nest"]

LANES = 8.0  # divisor for multiply-adds in vector lanes
DENSE = 4.0  # further divisor for a dense product, which XLA blocks for the cache
STEP = 6_000.0  # the fixed cost of one more call
ASSEMBLY = 50_000.0  # that of finding a dynamic pattern in the program
STORED = 4.0  # the cost of writing, reading and finding one entry of an intermediate result
SEARCHED = 2.0  # the cost of looking up a coordinate in another pattern
VISIT = 1.0  # the cost of an iteration of a loop over a sparse level
MOVED = 2.0  # the cost of gathering an entry into another order, or of adding it up in memory


def nest(items: Sequence[Item], target: Sequence[IndexVar], estimates: Estimates) -> tuple[float, float]:
    """The work of one loop nest over all items, for a result with these index variables; and the tuples that meet."""
    sparse = [item for item in items if item.levels]
    walked = frozenset([v for item in sparse for v in item.levels])
    dense = {v for item in items for v in item.indices if v not in walked}
    factors = max(sum([bool(item.indices) for item in items]) - 1, 1)
    if not sparse:
        return estimates.volume(dense) * factors / (LANES * DENSE), 1.0
    visited, tuples = _walked(sparse, walked, estimates)
    lanes = min(LANES, max([estimates.sizes[v] for v in dense], default=1) or 1)
    kept = frozenset(target)
    arrays = [*[item.indices for item in items if not item.levels], *([target] if not kept <= walked else [])]
    across = [names for names in arrays if names and names[-1] in walked and not walked.issuperset(names)]
    moved = MOVED * (sum([item.moved(kept) for item in sparse]) + sum(map(estimates.volume, across)))
    return visited + tuples * estimates.volume(dense) * factors / lanes + moved, tuples


def _walked(items: Sequence[Item], walked: Names, estimates: Estimates) -> tuple[float, float]:
    """The cost of the loops over sparse levels, and the tuples inside of them.

    The next loop is over the index variable that leaves the fewest tuples; ties follow the order of storage. Dynamic
    patterns are walked as they are stored, or one of them is sorted first. A loop visits the shortest of the levels
    that meet there, with searches in the others.
    """
    having: dict[IndexVar, list[Item]] = {}
    for item in items:
        for v in item.levels:
            having.setdefault(v, []).append(item)
    left = {v: tuple(own) for v, own in having.items()}
    bound, cost, tuples, unbounded = Names(), 0.0, 1.0, 1.0
    for count in range(1, len(left) + 1):
        free = [v for v, own in left.items() if all(_is_next(item, v, bound) for item in own)] or list(left)
        bindings = [estimates.binding(left[v], v, bound) for v in free]
        inside, chosen = min([(binding.tuples(unbounded, count), n) for n, binding in enumerate(bindings)])
        visited = max(tuples * bindings[chosen].fan, inside)
        cost += visited * (VISIT + SEARCHED * (bindings[chosen].items - 1))
        unbounded *= bindings[chosen].factor  # entries that meet often do so at the variables inside, too
        bound, tuples = bound | {free[chosen]}, inside
        del left[free[chosen]]
    return cost, tuples


def _is_next(item: Item, var: IndexVar, bound: Names) -> bool:
    """Whether a loop over an index variable walks an item as it is stored, or in another order that it may have."""
    return not item.traced or bound.issuperset(item.levels[: item.levels.index(var)])
