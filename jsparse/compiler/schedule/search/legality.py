"""Legal loop orders. They are concordant: loops walk every pattern in an order in which the pattern is stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, permutations, product

from jsparse.compiler.problem import Problem
from jsparse.compiler.schedule.layout import AnyPattern
from jsparse.compiler.schedule.trip_counts import levels_in_walk_order
from jsparse.notation.assignment import IndexVar

MAX_PERMUTED = 4  # with at most this many variables of patterns, every order is priced
MAX_ORDERS = 120  # orders tried beyond that, where several patterns have to agree

Names = tuple[IndexVar, ...]


def legal_orders(problem: Problem, patterns: Sequence[AnyPattern] = ()) -> Iterator[Names]:
    """Yield the orders of the patterns' variables that are concordant with every pattern. Some occur more than once."""
    every = tuple(dict.fromkeys(v for names in problem.level_variables for v in names))
    named = list(zip(problem.level_variables, patterns, strict=True)) if patterns else []
    if len(problem.level_variables) == 1:
        yield every
    for walk in permutations(every) if len(every) <= MAX_PERMUTED else _some_orders(problem, every, named):
        if all(is_concordant(names, walk, pattern) for names, pattern in named):
            yield walk


def concordant_orders(problem: Problem) -> Iterator[Names]:
    """Yield orders of the patterns' variables that are concordant with every pattern as it is stored.

    If patterns contradict each other, the orders are concordant with one of them, and loops search in the others.
    """
    every = tuple(dict.fromkeys(v for names in problem.level_variables for v in names))
    common = tuple(islice(_topological_orders(every, problem.level_variables), MAX_ORDERS))
    each = (
        walk for names in problem.level_variables for walk in islice(_topological_orders(every, [names]), MAX_ORDERS)
    )
    yield from common or each


def is_concordant(names: Names, walk: Sequence[IndexVar], pattern: AnyPattern) -> bool:
    """Whether loops in the order `walk` can walk a pattern whose levels have the variables `names`.

    A static pattern is concordant with every order, because its transposed indices are made on demand. A dynamic one is
    concordant with its own order and with the orders of its transposed indices.
    """
    return pattern.orders is None or levels_in_walk_order(names, walk) in pattern.orders


def has_legal_order(names: Sequence[Names], patterns: Sequence[AnyPattern]) -> bool:
    """Whether an order of all variables is concordant with every pattern; `names` are the variables of their levels."""
    every = tuple(dict.fromkeys(v for of in names for v in of))
    return any(True for _ in _agreeing(every, list(zip(names, patterns, strict=True))))


def _agreeing(every: Names, named: Sequence[tuple[Names, AnyPattern]]) -> Iterator[Names]:
    """Yield orders of all variables that are concordant with every dynamic pattern.

    There are at most `MAX_ORDERS` for each choice of one stored order of every dynamic pattern.
    """
    legal: list[list[Names]] = []
    for names, pattern in named:
        if pattern.orders is not None:
            walks = [(levels, tuple(names[level] for level in levels)) for levels in pattern.orders]
            # An order that exchanges two levels of one variable is left out: loops walk these in their original order.
            legal.append([walk for levels, walk in walks if levels_in_walk_order(names, walk) == levels])
    for chosen in product(*legal):
        yield from islice(_topological_orders(every, chosen), MAX_ORDERS)


def _some_orders(problem: Problem, every: Names, named: Sequence[tuple[Names, AnyPattern]]) -> Iterator[Names]:
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
        yield from _agreeing(every, named)


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
