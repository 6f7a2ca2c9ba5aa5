"""The orders in which the variables of patterns can be visited so that each pattern is walked in an order it has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, permutations, product

from jsparse.compiler.problem import Problem
from jsparse.compiler.schedule.stored import Stored, TracedPattern
from jsparse.compiler.schedule.trip_counts import walked_levels
from jsparse.notation.assignment import IndexVar

__all__ = ["has_legal_order", "is_concordant", "legal_orders"]

MAX_PERMUTED = 4  # variables of patterns up to which every order is priced
MAX_ORDERS = 120  # orders tried beyond that, where several patterns have to agree

Names = tuple[IndexVar, ...]


def legal_orders(problem: Problem, patterns: Sequence[Stored] = ()) -> Iterator[Names]:
    """Orders of all variables that patterns carry, in which each pattern can be walked; some come twice."""
    every = tuple(dict.fromkeys(v for names in problem.level_variables for v in names))
    known = list(zip(problem.level_variables, patterns, strict=True)) if patterns else []
    if len(problem.level_variables) == 1:
        yield every
    for walk in permutations(every) if len(every) <= MAX_PERMUTED else _some_orders(problem, every, known):
        if all(is_concordant(names, walk, pattern) for names, pattern in known):
            yield walk


def is_concordant(names: Names, walk: Sequence[IndexVar], pattern: Stored) -> bool:
    """Whether a pattern, whose levels have `names`, can be walked where variables are visited in the order `walk`: one
    that is known in any, since its transposed indices are made on need; a traced one in those that it has."""
    return not isinstance(pattern, TracedPattern) or walked_levels(names, walk) in pattern.orders


def has_legal_order(names: Sequence[Names], patterns: Sequence[Stored]) -> bool:
    """Whether there is an order of all variables in which each pattern, whose levels have `names`, can be walked."""
    every = tuple(dict.fromkeys(v for of in names for v in of))
    return any(True for _ in _agreeing(every, list(zip(names, patterns, strict=True))))


def _agreeing(every: Names, known: Sequence[tuple[Names, Stored]]) -> Iterator[Names]:
    """Orders of all variables in which each traced pattern, given with the names of its levels, can be walked: for each
    choice among the orders that these have, as many as can be priced."""
    legal = [_orders(names, pattern) for names, pattern in known if isinstance(pattern, TracedPattern)]
    for chosen in product(*legal):
        yield from islice(_merged(every, chosen), MAX_ORDERS)


def _orders(names: Names, pattern: TracedPattern) -> list[Names]:
    """The names of a pattern's levels in each order in which it can be walked. Levels of a repeated variable keep their
    order among each other when they are visited together, so a transposed index may not be one of them."""
    named = [(levels, tuple(names[level] for level in levels)) for levels in pattern.orders]
    return [walk for levels, walk in named if walked_levels(names, walk) == levels]


def _some_orders(problem: Problem, every: Names, known: Sequence[tuple[Names, Stored]]) -> Iterator[Names]:
    """Where there are too many orders to price: the stored one, the target's variables first, each of them first; of
    several patterns, as many as can be priced of those in which each has one of its orders."""
    target = problem.assignment.target.variables()
    first = [v for v in every if v in target]
    yield every
    yield (*first, *(v for v in every if v not in target))
    yield (*(v for v in target if v in every), *(v for v in every if v not in target))
    yield from ((v, *(w for w in every if w != v)) for v in first)
    if len(problem.level_variables) > 1:
        yield from _agreeing(every, known)


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
