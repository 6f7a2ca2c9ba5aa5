"""The orders in which the variables of patterns can be visited so that each pattern is walked in an order it has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, permutations, product

from jsparse.compiler.problem import Problem
from jsparse.compiler.schedule.stored import Stored, TracedPattern
from jsparse.compiler.schedule.visits import walked_as
from jsparse.notation.assignment import IndexVar

__all__ = ["can_walk", "walks"]

MAX_PERMUTED = 4  # variables of patterns up to which every order is priced
MAX_WALKS = 120  # orders tried beyond that, where several patterns have to agree

Names = tuple[IndexVar, ...]


def walks(problem: Problem, patterns: Sequence[Stored] = ()) -> Iterator[Names]:
    """Orders of all variables that patterns carry, in which each pattern can be walked; some come twice."""
    every = tuple(dict.fromkeys(v for names in problem.level_variables for v in names))
    legal = [_orders(names, patterns[n] if patterns else None) for n, names in enumerate(problem.level_variables)]
    if len(legal) == 1:
        yield every
    for walk in permutations(every) if len(every) <= MAX_PERMUTED else _some_walks(problem, every, legal):
        named = zip(problem.level_variables, legal, strict=True)
        if all(orders is None or walked_as(names, walk) in orders for names, orders in named):
            yield walk


def can_walk(names: Sequence[Names], patterns: Sequence[Stored]) -> bool:
    """Whether there is an order of all variables in which each pattern, whose levels have `names`, can be walked."""
    every = tuple(dict.fromkeys(v for of in names for v in of))
    legal = [_orders(of, pattern) for of, pattern in zip(names, patterns, strict=True)]
    found = (next(_merged(every, chosen), None) for chosen in product(*(orders for orders in legal if orders)))
    return any(walk is not None for walk in found)


def _orders(names: Names, pattern: Stored | None) -> list[Names] | None:
    """The orders in which a pattern can be walked; None for any."""
    if not isinstance(pattern, TracedPattern):
        return None
    if len(set(names)) < len(names):  # which of the equal names comes first is lost among the other orders
        return [names]
    return [names, *(tuple(names[level] for level in order) for order in pattern.orders)]


def _some_walks(problem: Problem, every: Names, legal: Sequence[list[Names] | None]) -> Iterator[Names]:
    """Where there are too many orders to price: the stored one, the target's variables first, each of them first; of
    several patterns, as many as can be priced of those in which each has one of its orders."""
    target = problem.assignment.target.variables()
    first = [v for v in every if v in target]
    yield every
    yield (*first, *(v for v in every if v not in target))
    yield (*(v for v in target if v in every), *(v for v in every if v not in target))
    yield from ((v, *(w for w in every if w != v)) for v in first)
    if len(legal) > 1:
        for chosen in product(*(orders for orders in legal if orders is not None)):
            yield from islice(_merged(every, chosen), MAX_WALKS)


def _merged(every: Names, orders: Sequence[Names]) -> Iterator[Names]:
    """The orders of all variables that have each of `orders` in them; none if these contradict each other."""
    earlier: dict[IndexVar, set[IndexVar]] = {v: set() for v in every}
    for order in orders:
        first = tuple(dict.fromkeys(order))
        for place, var in enumerate(first):
            earlier[var] |= set(first[:place])
    if _is_acyclic(earlier):
        yield from _extended((), earlier)


def _is_acyclic(earlier: dict[IndexVar, set[IndexVar]]) -> bool:
    placed: set[IndexVar] = set()
    for _ in earlier:
        placed |= {v for v, before in earlier.items() if before <= placed}
    return len(placed) == len(earlier)


def _extended(walk: Names, earlier: dict[IndexVar, set[IndexVar]]) -> Iterator[Names]:
    if len(walk) == len(earlier):
        yield walk
    for var, before in earlier.items():
        if var not in walk and before <= set(walk):
            yield from _extended((*walk, var), earlier)
