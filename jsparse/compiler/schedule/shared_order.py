"""The order of levels in which the statements of a program share loops.

The gradient of columns, `dV[j, l] = W[i, j] * dO[i, l]`, shares a loop over j with the statements that compute W, if
these walk the pattern column by column, too. A pattern can be walked in another order if it has no values in memory,
so that only temporaries lie on it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import islice, product

from jsparse.compiler.problem import PatternType, Problem
from jsparse.compiler.schedule.layout import reordered, with_patterns
from jsparse.compiler.schedule.sharing import shared_loops
from jsparse.compiler.schedule.stored import DynamicPatternInfo, Stored
from jsparse.formats.level import Level
from jsparse.formats.relayout import derived_format

__all__ = ["in_shared_order"]

MOST = 16  # the number of orders of all patterns together that are tried
Moves = tuple[tuple[int, ...], ...]


def in_shared_order(
    problem: Problem, patterns: Sequence[Stored], holds_results: bool = True
) -> tuple[Problem, tuple[Stored, ...]]:
    """The problem, and the patterns, in the first order of levels in which all statements share loops.

    Both stay as they are given if statements share loops in the given order, or in no order. Results keep their pattern
    in its order, unless `holds_results` is false: then further statements may turn these results into temporaries.
    """
    if len(problem.statements) > 1 and not shared_loops(problem):
        held = (*problem.operands, *(problem.results if holds_results else ()))
        fixed = {t.positions.pattern for t in held if t.positions is not None}
        for moves in islice(_moves(problem, patterns, fixed), MOST):
            types = tuple(map(_type, problem.patterns, patterns, moves))  # no index array is made for them
            if shared_loops(with_patterns(problem, types, moves)):
                used, moved = reordered(problem, patterns, moves)
                return moved, used
    return problem, tuple(patterns)


def _moves(problem: Problem, patterns: Sequence[Stored], fixed: Collection[int]) -> Iterator[Moves]:
    """Yield orders of the levels of all patterns, with other levels outermost; patterns `fixed` keep their order."""
    each = [
        [tuple(range(len(names)))] if n in fixed else list(_orders(len(names), pattern))
        for n, (names, pattern) in enumerate(zip(problem.level_variables, patterns, strict=True))
    ]
    return islice(product(*each), 1, None)


def _orders(count: int, pattern: Stored) -> Iterator[tuple[int, ...]]:
    """Yield the orders with each level outermost, as it is stored first."""
    if isinstance(pattern, DynamicPatternInfo):
        yield from pattern.orders
        return
    for first in range(count):
        yield (first, *(level for level in range(count) if level != first))


def _type(type_: PatternType, pattern: Stored, levels: tuple[int, ...]) -> PatternType:
    """The type of a pattern with its levels in another order, as far as `shared_loops` asks."""
    if levels == tuple(range(len(levels))):
        return type_
    order = tuple(pattern.format.order[level] for level in levels)
    format = (
        pattern.with_order(order).format if isinstance(pattern, DynamicPatternInfo) else derived_format(pattern, order)
    )
    own = tuple(Level(level.kind, n, level.unique) for n, level in enumerate(format.levels[: len(levels)]))
    return replace(type_, levels=own)
