"""The cost of values that lie in another order than the loops: moved before a nest and after it, or looked up.

Reading a pattern in another order takes one entry from each segment after the other. So a few cache lines of each
segment have to stay near. They are fewer bytes than all values if segments are long.
"""

from __future__ import annotations

from itertools import pairwise
from math import inf, log2

from jsparse.compiler.schedule.gathers import extent, itemsize, read_before
from jsparse.compiler.schedule.machine import LAST_CACHE_BYTES, LINE_BYTES, gather_cost
from jsparse.compiler.schedule.stored import Stored
from jsparse.compiler.schedule.summary import Summary
from jsparse.compiler.schedule.trip_counts import walked_as
from jsparse.formats import Pattern

__all__ = ["kept_as_stored", "permuted", "transposed"]

MOVE_CALL = 1e4  # a permutation of values to another storage order, however few they are
MOVE = 3.5  # a value of such a permutation
COORDINATE_BYTES = 4  # the bytes of a coordinate in an index array
AHEAD = 4  # cache lines of a segment that are near once one of them is read: the processor fetches the next ones
COPY = 1.0  # an element of a dense tensor transposed
FAR_COPY = 2.5  # an element of a transposed tensor that is too large for the last cache
LOCATED = 2.0  # a segment found, and a coordinate compared, besides the steps of a bisection


def permuted(nest: Summary, patterns: tuple[Stored, ...]) -> float:
    """The cost of gathering values into the order of the loops, or of lookups in the stored order if cheaper."""
    return sum(min(move, _lookups(nest, patterns, n)[0]) for n, move in _moves(nest, patterns).items())


def kept_as_stored(nest: Summary, patterns: tuple[Stored, ...]) -> dict[int, int]:
    """The patterns whose values stay as they are stored although loops have another order.

    Each is mapped to the pattern whose few entries are looked up in it.
    """
    found = {n: (move, *_lookups(nest, patterns, n)) for n, move in _moves(nest, patterns).items()}
    return {n: binding for n, (move, lookups, binding) in found.items() if lookups < move}


def _moves(nest: Summary, patterns: tuple[Stored, ...]) -> dict[int, float]:
    """For each pattern that loops walk in another order than the stored one, the cost of moving the values on it."""
    problem, moved = nest.problem, dict[int, float]()
    for access in problem.assignment.accesses:
        axis = problem.type_of[access.tensor].positions
        if axis is None:
            continue
        names = problem.level_variables[axis.pattern]
        walked = walked_as(names, nest.walk)
        if walked != names:
            inner, pattern = extent(problem, [v for v in access.variables() if v not in names]), patterns[axis.pattern]
            shared = next(n for n, (stored, var) in enumerate(zip(names, walked, strict=True)) if stored != var)
            # Levels whose coordinates may repeat have fewer segments than they store coordinates.
            apart = min(pattern.level_sizes[shared - 1], extent(problem, names[:shared])) if shared else 1
            cost = MOVE_CALL + pattern.nse * _move(pattern, max(apart, 1), inner, itemsize(problem, access))
            moved[axis.pattern] = moved.get(axis.pattern, 0.0) + cost
    return moved


def _lookups(nest: Summary, patterns: tuple[Stored, ...], number: int) -> tuple[float, int]:
    """The cost of looking up another pattern's entries in pattern `number`, whose levels contradict the loops.

    The second result is the number of the other pattern. The cost is infinite if no other pattern binds all variables,
    or if the result's values lie on pattern `number`.
    """
    names, pattern = nest.problem.level_variables, patterns[number]
    own, on = names[number], nest.problem.type_of[nest.problem.target.tensor].positions
    if not isinstance(pattern, Pattern) or (on is not None and on.pattern == number) or len(set(own)) < len(own):
        return inf, -1
    # A lookup needs the coordinates of all variables of the pattern: the other one binds the walk down to the last.
    around = set(nest.walk[: max(map(nest.walk.index, own)) + 1])
    others = [
        (patterns[n].nse, n)
        for n in nest.statement.patterns
        if n != number and around <= set(names[n]) and walked_as(names[n], nest.walk) == names[n]
    ]
    entries, binding = min(others, default=(inf, -1))
    levels = zip(pattern.format.levels, pairwise((1, *pattern.level_sizes)), strict=True)
    located = sum(_bisection(n / max(above, 1), n) for level, (above, n) in levels if not level.kind.is_full)
    return entries * located, binding


def _bisection(segment: float, stored: int) -> float:
    """The cost of locating a coordinate in a segment of a level that stores `stored` coordinates in all.

    The last steps of the bisection are in one cache line. Each earlier step reads another line anywhere in the level.
    """
    # A line has 16 coordinates, so the last log2(16) = 4 steps read no further line.
    steps, size = log2(1 + segment), COORDINATE_BYTES * stored
    return LOCATED + steps + max(steps - log2(LINE_BYTES / COORDINATE_BYTES), 1.0) * gather_cost(size)


def _move(pattern: Stored, apart: int, inner: int, item: int) -> float:
    """The cost of moving the `inner` values of one entry, of `item` bytes each, which lie side by side.

    The levels that both orders begin with have `apart` segments. A value stays within its segment, so only the values
    of one of them have to be near. In a band or a mesh neighbours stay neighbours, so most values lie near the value
    before. In the new order one segment after the other is read from, and a few lines of each stay near. If segments
    are long, these lines are fewer bytes than all values.
    """
    if not pattern.format.levels:
        return MOVE * inner
    segments, lines = (1, *pattern.level_sizes)[-2], -(-inner * item // LINE_BYTES)
    # The bytes that have to stay near.
    near = min(pattern.nse * inner * item, segments * AHEAD * lines * LINE_BYTES) / apart
    far = 1 - read_before(pattern, len(pattern.format.levels) - 1)
    # A cache line is missed once, however many values of the entry are in it.
    return MOVE * inner + lines * far * gather_cost(near)


def transposed(nest: Summary) -> float:
    """The cost of transposing dense tensors."""
    if not nest.moved_dense:
        return 0.0
    moved = (access for access in nest.problem.assignment.accesses if access.tensor in nest.moved_dense)
    sizes = ((extent(nest.problem, access.variables()), itemsize(nest.problem, access)) for access in moved)
    return sum(n * (FAR_COPY if n * bytes_ >= LAST_CACHE_BYTES else COPY) for n, bytes_ in sizes)
