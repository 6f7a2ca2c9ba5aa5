"""Which sums are worth computing before the factors that lack their variables are multiplied in."""

from __future__ import annotations

from math import prod

from jsparse.compiler.schedule.summary import Summary
from jsparse.notation.assignment import IndexVar

__all__ = ["dense_first", "summed_first"]


def summed_first(nest: Summary) -> tuple[IndexVar, ...]:
    """The innermost reductions that only factors without dense indices carry: summing these first always pays."""
    if not nest.sums_first or not nest.dense:
        return ()
    chosen: tuple[IndexVar, ...] = ()
    factors, dense = nest.factor_vars, set(nest.dense)
    for start in range(len(nest.tail) - 1, -1, -1):
        names = set(nest.tail[start:])
        inner = [own for own in factors if names & own]
        if len(inner) == len(factors) or any(dense & own for own in inner):
            break
        chosen = nest.tail[start:]
    return chosen


def dense_first(nest: Summary) -> tuple[IndexVar, ...]:
    """The reductions over dense indices that some factor lacks: summing these first saves its product in each step."""
    if not nest.sums_first or nest.vector not in nest.free_vars or not nest.contracted:
        return ()
    names = set(nest.contracted)
    lacking = sum(names.isdisjoint(own) for own in nest.factor_vars)
    sizes = [nest.problem.size[v] or 0 for v in nest.contracted]
    return nest.contracted if 0 < lacking < len(nest.factors) and 0 not in sizes and prod(sizes) > 1 else ()
