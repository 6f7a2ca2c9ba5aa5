"""Trip counts of the loops over one or several patterns, and the merge leader where patterns meet.

If several patterns have a level of a variable, the loop walks the leader's entries. Each other pattern is assumed to
store a given coordinate with probability entries / size, as if coordinates were spread evenly. Counts of stored entries
are exact for a pattern that is walked as stored, else the smaller of nse and the product of the sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import log2
from operator import mul

from jsparse.compiler.problem import Problem
from jsparse.compiler.schedule.stored import Stored
from jsparse.notation.assignment import IndexVar

__all__ = ["UNKNOWN", "TripCounts", "trip_counts", "walked_as", "walked_levels"]

UNKNOWN = 1 << 10  # the size of an index variable that is known only at run time
DERIVED_DENSE = 4  # a transposed index has a dense outermost level if its size is at most this many times nse
SEARCH = 1.0  # the cost of a step of a bisection, relative to loading a coordinate in a loop


@dataclass(frozen=True, slots=True)
class TripCounts:
    """Counts for each variable of a loop order.

    Attributes:
        iterations: the coordinates that the variable's loop visits, over all of its executions, with searches.
        entries: the combinations of entries that are left below it.
        merge_leaders: (variable, pattern) where several patterns meet.
    """

    iterations: tuple[float, ...]
    entries: tuple[float, ...]
    merge_leaders: tuple[tuple[IndexVar, int], ...]


def walked_levels(names: Sequence[IndexVar], walk: Sequence[IndexVar]) -> tuple[int, ...]:
    """A pattern's levels in the order of the walk.

    Levels of a repeated variable become neighbours, unless the stored order already agrees with the walk.
    """
    first = list(dict.fromkeys(names))
    levels = range(len(names))
    return tuple(
        levels if first == sorted(first, key=walk.index) else sorted(levels, key=lambda n: walk.index(names[n]))
    )


def walked_as(names: Sequence[IndexVar], walk: Sequence[IndexVar]) -> tuple[IndexVar, ...]:
    """A pattern's level variables in the order of the walk."""
    return tuple(names[level] for level in walked_levels(names, walk))


def trip_counts(problem: Problem, walk: Sequence[IndexVar], patterns: Sequence[Stored]) -> TripCounts:
    """The trip counts of loops in the order `walk`."""
    left = [_fans(problem, names, walk, p) for names, p in zip(problem.level_variables, patterns, strict=True)]
    bound: set[IndexVar] = set()
    iterations, entries, merge_leaders = [], [], []
    count = 1.0
    for var in walk:
        met = [(fan, n) for n, fans in enumerate(left) if fans and fans[0][0] == var for fan in [fans[0][1:]]]
        size = max(problem.size[var] or UNKNOWN, 1)
        sparse = sorted((fan, n) for (fan, dense), n in met if not dense)
        (fan, leader), *others = sparse or [(float(size), met[0][1] if met else 0)]
        searched = sum(SEARCH * log2(1 + other) for other, _ in others)
        here = count * fan * (1 + searched)
        count *= fan
        for other, _ in others:
            count *= min(other / size, 1.0)
        bound.add(var)
        for n, fans in enumerate(left):
            del fans[: any(n == number for _, number in met)]
            while fans and fans[0][0] in bound:  # a diagonal, or a level whose variable another pattern has bound
                name, other, dense = fans.pop(0)
                if not dense:
                    here += count * SEARCH * log2(1 + other)
                    count *= min(other / max(problem.size[name] or UNKNOWN, 1), 1.0)
        iterations.append(here)
        entries.append(count)
        if others:
            merge_leaders.append((var, leader))
    return TripCounts(tuple(iterations), tuple(entries), tuple(merge_leaders))


def _fans(
    problem: Problem, names: Sequence[IndexVar], walk: Sequence[IndexVar], pattern: Stored
) -> list[tuple[IndexVar, float, bool]]:
    """For each level in the order walked: its variable, its entries per position of the level above, if it is dense."""
    order = walked_as(names, walk)
    if order == tuple(names):
        kinds = [level.kind.is_full for level in pattern.format.levels]
        counts = [float(size) for size in pattern.level_sizes]
    else:
        sizes = [float(problem.size[var] or UNKNOWN) for var in order]
        dense_outermost = sizes[0] <= DERIVED_DENSE * pattern.nse  # an approximation of `formats.derived_format`
        kinds = [dense_outermost, *[False] * (len(order) - 1)]
        counts = [min(float(pattern.nse), product) for product in accumulate(sizes, mul)]
        counts[0] = sizes[0] if dense_outermost else counts[0]
    above = [1.0, *counts]
    return [(v, c / max(a, 1.0), d) for v, c, a, d in zip(order, counts, above, kinds, strict=False)]
