"""Shared loops: the outermost loops that all statements of a program can have in common.

A variable's loop can be shared on three conditions. Every statement has the variable. A statement reads the result of
an earlier statement only at the variable's current coordinate. All statements have the same loop over the variable: a
dense loop, a loop over a level of the only pattern, or a loop over outermost levels that store every coordinate.

Threads divide the outermost loop, so each iteration of this loop must own a part of every target. A small target is
exempt, because each chunk adds to a copy of it. An example is the gradient of a dense layer's weights, a sum over rows.

Patterns may be reordered, so that statements share loops. The gradient of columns, `dV[j, l] = W[i, j] * dO[i, l]`,
shares a loop over j with the statements that compute W, if these statements also walk the pattern column by column. A
pattern can be reordered if only temporaries are stored on it, so that none of its values are in memory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import islice, product, takewhile

import numpy as np

from jsparse.compiler.dtypes import accumulator
from jsparse.compiler.loops.fusion import has_copies, reads_elsewhere
from jsparse.compiler.problem import Dense, Positions, Problem, StorageType
from jsparse.compiler.schedule.layout import AnyPattern, reorder_patterns, with_patterns
from jsparse.compiler.schedule.prices.gathers import extent
from jsparse.compiler.statement import Statement
from jsparse.formats import Pattern
from jsparse.formats.levels import Level
from jsparse.formats.relayout import index_format
from jsparse.notation.assignment import IndexVar

ENOUGH = 8  # iterations of a dense loop that can be divided over threads
MOST_ORDERS = 16  # the number of orders of all patterns together that are tried
Names = tuple[IndexVar, ...]
Moves = tuple[tuple[int, ...], ...]


def find_shared_loops(problem: Problem) -> Names:
    """Return the variables of the loops that all statements share, outermost first; empty if there are no such loops.

    The loop over a dense index is not shared if a tensor stores the index innermost, or after the positions of a
    pattern. Each statement then has its own loop over the index, and can run it in lanes.
    """
    if len(problem.statements) < 2 or problem.derived or problem.is_assembly:
        return ()
    if any(map(problem.adds, problem.statements)):
        return ()
    ordered = _order_loops(problem, _common(problem))
    return tuple(takewhile(lambda var: all(_adds_inside(s, var, ordered) for s in problem.statements), ordered))


def is_sum(problem: Problem, number: int, var: IndexVar) -> bool:
    """Whether a statement sums a variable into a dense target that the second-level cache holds, so that each chunk of
    the variable's loop can have a copy of the target.

    If the statement is dense, the variable must be divisible into panels: the statement then reads and writes the copy
    only once for each panel. The result is false for sums that stored entries scatter, as in `A.T @ G`. There, a loop
    over the columns of A is faster, because its iterations own the sums.
    """
    statement = problem.statements[number]
    if var in statement.target.variables() or not has_copies(problem, statement):
        return False
    stored = {v for n in statement.patterns for v in problem.level_variables[n]}
    if not stored.isdisjoint(statement.target.variables()) or not (stored or is_full(problem, var)):
        return False
    dtype = accumulator(problem.type_of[statement.target.tensor].dtype)
    return extent(problem, statement.target.variables()) * np.dtype(dtype).itemsize <= problem.cpu.second_cache_bytes


def is_full(problem: Problem, var: IndexVar) -> bool:
    """Whether all patterns have every coordinate of a variable, so that arithmetic finds the entries of a panel."""
    levels = zip(problem.level_variables, problem.patterns, strict=True)
    return all(p.levels[n].kind.is_full for names, p in levels for n, v in enumerate(names) if v == var)


def _order_loops(problem: Problem, common: Names) -> Names:
    """Return the shared loops, outermost first. Threads divide the outermost loop, so a loop with enough iterations is
    preferred. Its iterations own their parts of every target, or each chunk has its own sums."""
    walked = _common_level_variables(problem, common)
    dense = tuple(v for v in _dense(problem, common) if v not in walked)
    owned = [v for v in (*dense, *walked) if _is_divisible(problem, v)]
    wide = next((v for v in owned if v in dense and (problem.size[v] or ENOUGH) >= ENOUGH), None)
    first = wide or next((v for v in (*walked[:1], *dense) if v in owned), None)
    free = [set(s.target.variables()) for s in problem.statements]
    inside = (v for v in dense if all(v in own for own in free))  # a sum of heads goes on in registers
    order = () if first is None else (first, *(v for v in (*inside, *walked) if v != first))
    # If patterns differ, loops inside of the shared level begin by finding the level of each other pattern.
    several = next((n + 1 for n, v in enumerate(order) if v in walked), None) if len(problem.patterns) > 1 else None
    return order[:several]


def _is_divisible(problem: Problem, var: IndexVar) -> bool:
    """Whether threads can divide a variable's loop: the targets of statements that sum the variable are small."""
    return all(var in s.target.variables() or is_sum(problem, n, var) for n, s in enumerate(problem.statements))


def _adds_inside(statement: Statement, var: IndexVar, shared: Names) -> bool:
    """Whether a statement has a variable in its target, or sums over the variable in memory. It sums in memory if the
    shared loops do not run over all indices of its target."""
    free = statement.target.variables()
    return var in free or not set(shared).issuperset(free)


def _common(problem: Problem) -> Names:
    """Find the variables that all statements have.

    A variable is left out if a statement reads an earlier result at another coordinate of the variable.
    """
    variables = [problem.variables_of(statement) for statement in problem.statements]
    every = [v for v, _ in problem.sizes if all(v in own for own in variables)]
    return tuple(v for v in every if all(_flows(problem, n, v) for n in range(len(problem.statements))))


def _flows(problem: Problem, number: int, var: IndexVar) -> bool:
    """Whether later statements read the result of statement `number` only at their current coordinate of `var`."""
    readers = problem.statements[number + 1 :]
    return not any(reads_elsewhere(problem.statements[number], reader, var) for reader in readers)


def _common_level_variables(problem: Problem, common: Names) -> Names:
    """Return the common variables that patterns store, in the order of levels that all patterns share."""
    variables: list[IndexVar] = []
    for depth in range(max((len(names) for names in problem.level_variables), default=0)):
        here = {names[depth] if depth < len(names) else None for names in problem.level_variables}
        var = next(iter(here))
        if len(here) != 1 or var is None or var not in common or var in variables:
            break
        alike = len(problem.patterns) == 1 and all(s.patterns for s in problem.statements)
        if not alike and (depth or not all(pattern.levels[0].kind.is_full for pattern in problem.patterns)):
            break
        variables.append(var)
    innermost = any(len(variables) == len(names) for names in problem.level_variables)
    return tuple(variables[:-1] if innermost and len(variables) > 1 else variables)


def _dense(problem: Problem, common: Names) -> Names:
    """Return the common dense variables that tensors store before the positions of a pattern, and not innermost."""
    levels = {v for names in problem.walks for v in names}
    return tuple(v for v in common if v not in levels and not _stands_inside(problem, v))


def _stands_inside(problem: Problem, var: IndexVar) -> bool:
    """Whether `var` is the innermost of several indices of a dense tensor, or an index of an entry's block."""
    for access in problem.accesses:
        axes = problem.type_of[access.tensor].axes
        last = len(axes) - 1 if len(axes) > 1 else len(axes)
        at = next((n for n, axis in enumerate(axes) if isinstance(axis, Positions)), last)
        if any(isinstance(axis, Dense) and access.indices[axis.dim] == var for axis in axes[at:]):
            return True
    return False


def in_shared_order(
    problem: Problem, patterns: Sequence[AnyPattern], holds_results: bool = True
) -> tuple[Problem, tuple[AnyPattern, ...]]:
    """Return the problem and its patterns with levels in the first order in which all statements share loops.

    Problem and patterns are unchanged if statements share loops in the given order, or in no order. With
    `holds_results`, patterns of results keep their order. Without it, they are reordered as well, because these results
    may become temporaries once more statements are added.
    """
    if len(problem.statements) > 1 and not find_shared_loops(problem):
        held = (*problem.operands, *(problem.results if holds_results else ()))
        fixed = {t.positions.pattern for t in held if t.positions is not None}
        for moves in islice(_moves(problem, patterns, fixed), MOST_ORDERS):
            types = tuple(map(_reorder_type, problem.patterns, patterns, moves))  # no index array is made for them
            if find_shared_loops(with_patterns(problem, types, moves)):
                used, moved = reorder_patterns(problem, patterns, moves)
                return moved, used
    return problem, tuple(patterns)


def _moves(problem: Problem, patterns: Sequence[AnyPattern], fixed: Collection[int]) -> Iterator[Moves]:
    """Yield other orders of levels for all patterns together. The patterns `fixed` keep their order."""
    each = [
        [tuple(range(len(names)))] if n in fixed else list(_orders(len(names), pattern))
        for n, (names, pattern) in enumerate(zip(problem.level_variables, patterns, strict=True))
    ]
    return islice(product(*each), 1, None)


def _orders(count: int, pattern: AnyPattern) -> Iterator[tuple[int, ...]]:
    """Yield the stored order of levels, then an order for each other level that may be outermost."""
    if pattern.orders is not None:
        yield from pattern.orders
        return
    for first in range(count):
        yield (first, *(level for level in range(count) if level != first))


def _reorder_type(type_: StorageType, pattern: AnyPattern, levels: tuple[int, ...]) -> StorageType:
    """Return a pattern's type with its levels reordered. Only the facts that `find_shared_loops` reads are valid."""
    if levels == tuple(range(len(levels))):
        return type_
    order = tuple(pattern.format.order[level] for level in levels)
    format = index_format(pattern, order) if isinstance(pattern, Pattern) else pattern.with_order(order).format
    own = tuple(Level(level.kind, n, level.unique) for n, level in enumerate(format.levels[: len(levels)]))
    return replace(type_, levels=own)
