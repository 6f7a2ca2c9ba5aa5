"""Which sums are worth computing before the factors that lack their variables are multiplied in."""

from __future__ import annotations

from math import prod
from typing import Literal

from jsparse.compiler.loops.chain import outer_name
from jsparse.compiler.schedule.summary import Summary
from jsparse.notation.assignment import IndexVar

__all__ = ["dense_first", "summed_first", "tiles_among_sums"]


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


def tiles_among_sums(nest: Summary) -> Literal["outside", "inside"] | None:
    """Where the loop over register tiles stands if only the inner part of the sums over stored entries comes first.

    If the loop stands outside of that part, each tile computes the part again. If it stands inside of the sums around
    the part, each of these sums adds to the target in memory.
    """
    if not nest.sums_entries_first or nest.summed == nest.tail or nest.vector not in nest.free_vars:
        return None
    tiles = outer_name(nest.problem, str(nest.vector))
    is_inside = tiles in nest.loops and nest.loops.index(tiles) > nest.loops.index(nest.summed[0])
    return "inside" if is_inside else "outside"
