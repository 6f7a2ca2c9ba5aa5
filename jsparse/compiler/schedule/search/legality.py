"""Legal loop orders. They are concordant: loops walk every pattern in an order in which the pattern is stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, permutations, product

from jsparse.compiler.problem import Problem
from jsparse.compiler.schedule.layout import DynamicPatternInfo, Stored
from jsparse.compiler.schedule.trip_counts import levels_in_walk_order
from jsparse.notation.assignment import IndexVar

MAX_PERMUTED = 4  # with at most this many variables of patterns, every order is priced
MAX_ORDERS = 120  # orders tried beyond that, where several patterns have to agree

Names = tuple[IndexVar, ...]


def legal_orders(problem: Problem, patterns: Sequence[Stored] = ()) -> Iterator[Names]:
    """Yield the orders of the patterns' variables that are concordant with every pattern. Some occur more than once."""
    every = tuple(dict.fromkeys(v for names in problem.level_variables for v in names))
    named = zip(problem.level_variables, patterns, strict=True) if patterns else ()
    known = [(names, pattern) for names, pattern in named if isinstance(pattern, DynamicPatternInfo)]
    if len(problem.level_variables) == 1:
        yield every
    for walk in permutations(every) if len(every) <= MAX_PERMUTED else _some_orders(problem, every, known):
        if all(is_concordant(names, walk, pattern) for names, pattern in known):
            yield walk


def concordant_orders(problem: Problem) -> Iterator[Names]:
    """Yield orders of the patterns' variables that are concordant with every pattern as it is stored.

    If patterns contradict each other, the orders are concordant with one of them, and loops search in the others.
    """
    every = tuple(dict.fromkeys(v for names in problem.level_variables for v in names))
    found = tuple(islice(_topological_orders(every, problem.level_variables), MAX_ORDERS))
    each = (
        walk for names in problem.level_variables for walk in islice(_topological_orders(every, [names]), MAX_ORDERS)
    )
    yield from found or each


def is_concordant(names: Names, walk: Sequence[IndexVar], pattern: Stored) -> bool:
    """Whether loops in the order `walk` can walk a pattern whose levels have the variables `names`.

    A static pattern is concordant with every order, because its transposed indices are made on demand. A dynamic one is
    concordant with its own order and with the orders of its transposed indices.
    """
    return not isinstance(pattern, DynamicPatternInfo) or levels_in_walk_order(names, walk) in pattern.orders


def has_legal_order(names: Sequence[Names], patterns: Sequence[Stored]) -> bool:
    """Whether an order of all variables is concordant with every pattern; `names` are the variables of their levels."""
    every = tuple(dict.fromkeys(v for of in names for v in of))
    return any(True for _ in _agreeing(every, list(zip(names, patterns, strict=True))))


def _agreeing(every: Names, known: Sequence[tuple[Names, Stored]]) -> Iterator[Names]:
    """Yield orders of all variables that are concordant with every dynamic pattern.

    There are at most `MAX_ORDERS` for each choice of one stored order of every dynamic pattern.
    """
    legal = [_orders(names, pattern) for names, pattern in known if isinstance(pattern, DynamicPatternInfo)]
    for chosen in product(*legal):
        yield from islice(_topological_orders(every, chosen), MAX_ORDERS)


def _orders(names: Names, pattern: DynamicPatternInfo) -> list[Names]:
    """The variables of a dynamic pattern's levels, in each of its stored orders that loops can walk.

    A transposed index is left out if it exchanges two levels of the same variable. Loops cannot walk it, since they
    always walk these two levels in their original order.
    """
    named = [(levels, tuple(names[level] for level in levels)) for levels in pattern.orders]
    return [walk for levels, walk in named if levels_in_walk_order(names, walk) == levels]


def _some_orders(problem: Problem, every: Names, known: Sequence[tuple[Names, Stored]]) -> Iterator[Names]:
    """Yield some of the orders. This is for problems with too many orders to price all of them.

    The selection has the stored order, orders with the target's variables first, and orders with one variable of the
    target first. For several patterns, it also has orders that agree with all of them.
    """
    target = problem.target.variables()
    first = [v for v in every if v in target]
    yield every
    yield (*first, *(v for v in every if v not in target))
    yield (*(v for v in target if v in every), *(v for v in every if v not in target))
    yield from ((v, *(w for w in every if w != v)) for v in first)
    if len(problem.level_variables) > 1:
        yield from _agreeing(every, known)


def _topological_orders(every: Names, orders: Sequence[Names]) -> Iterator[Names]:
    """Yield the topological orders of all variables under `orders`; none if these contradict each other."""
    earlier: dict[IndexVar, set[IndexVar]] = {v: set() for v in every}
    for order in orders:
        first = tuple(dict.fromkeys(order))
        for n, var in enumerate(first):
            earlier[var] |= set(first[:n])
    if _is_acyclic(earlier):
        yield from _complete_order((), earlier)


def _is_acyclic(earlier: dict[IndexVar, set[IndexVar]]) -> bool:
    done: set[IndexVar] = set()
    for _ in earlier:
        done |= {v for v, before in earlier.items() if before <= done}
    return len(done) == len(earlier)


def _complete_order(walk: Names, earlier: dict[IndexVar, set[IndexVar]]) -> Iterator[Names]:
    if len(walk) == len(earlier):
        yield walk
    for var, before in earlier.items():
        if var not in walk and before <= set(walk):
            yield from _complete_order((*walk, var), earlier)
