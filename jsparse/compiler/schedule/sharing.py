"""Shared loops: the outermost loops that all statements of a program can have in common.

A variable's loop can be shared if every statement has it, if whatever a statement reads of an earlier one is accessed
at the same coordinate of it, and if all walk it alike: as the outermost level of one pattern, or of patterns that visit
all of its coordinates. Threads divide the outermost loop, so its iterations own a part of every target.
"""

from __future__ import annotations

from itertools import takewhile

from jsparse.compiler.loops.fusion import reads_elsewhere
from jsparse.compiler.problem import Dense, Positions, Problem
from jsparse.compiler.statement import Statement
from jsparse.notation.assignment import IndexVar

__all__ = ["shared_loops"]

ENOUGH = 8  # iterations of a dense loop that can be divided over threads
Names = tuple[IndexVar, ...]


def shared_loops(problem: Problem) -> Names:
    """The variables of the loops that all statements share, outermost first; none if there are none.

    A dense index that a tensor stores innermost, or behind the positions of a pattern, is left to the loops inside,
    which can run it in lanes.
    """
    if len(problem.statements) < 2 or problem.derived or problem.is_assembly:
        return ()
    ordered = _ordered(problem, _common(problem))
    return tuple(takewhile(lambda var: all(_adds_inside(s, var, ordered) for s in problem.statements), ordered))


def _ordered(problem: Problem, common: Names) -> Names:
    """The loops from the outside in. The first one is divided over threads: it owns its part of every target, and has
    enough iterations."""
    walked = _walked(problem, common)
    dense = tuple(v for v in _dense(problem, common) if v not in walked)
    owned = [v for v in (*dense, *walked) if all(v in s.target.variables() for s in problem.statements)]
    wide = next((v for v in owned if v in dense and (problem.size[v] or ENOUGH) >= ENOUGH), None)
    first = wide or next((v for v in (*walked[:1], *dense) if v in owned), None)
    return () if first is None else (first, *(v for v in (*dense, *walked) if v != first))


def _adds_inside(statement: Statement, var: IndexVar, shared: Names) -> bool:
    """Whether a statement does not sum over a variable, or sums in memory anyway, because loops inside of the shared
    ones run over its target."""
    free = statement.target.variables()
    return var in free or not set(shared).issuperset(free)


def _common(problem: Problem) -> Names:
    """The variables that every statement loops over, and at which each reads what others write."""
    variables = [problem.variables_of(statement) for statement in problem.statements]
    every = [v for v, _ in problem.sizes if all(v in own for own in variables)]
    return tuple(v for v in every if all(_flows(problem, n, v) for n in range(len(problem.statements))))


def _flows(problem: Problem, number: int, var: IndexVar) -> bool:
    """Whether later statements read what one writes at the same coordinate of a variable."""
    readers = problem.statements[number + 1 :]
    return not any(reads_elsewhere(problem.statements[number], reader, var) for reader in readers)


def _walked(problem: Problem, common: Names) -> Names:
    """The variables among them that patterns store, in the order of levels in which all patterns store them."""
    found: list[IndexVar] = []
    for depth in range(max((len(names) for names in problem.level_variables), default=0)):
        here = {names[depth] if depth < len(names) else None for names in problem.level_variables}
        var = next(iter(here))
        if len(here) != 1 or var is None or var not in common or var in found:
            break
        alike = len(problem.patterns) == 1 and all(s.patterns for s in problem.statements)
        if not alike and (depth or not all(pattern.levels[0].kind.is_full for pattern in problem.patterns)):
            break
        found.append(var)
    innermost = any(len(found) == len(names) for names in problem.level_variables)
    return tuple(found[:-1] if innermost and len(found) > 1 else found)


def _dense(problem: Problem, common: Names) -> Names:
    """The dense variables among them that tensors store before the positions of a pattern, and not innermost."""
    levels = {v for names in problem.walks for v in names}
    return tuple(v for v in common if v not in levels and not _stands_inside(problem, v))


def _stands_inside(problem: Problem, var: IndexVar) -> bool:
    """Whether a tensor with other indices stores one of them innermost, or behind the positions of a pattern."""
    for access in problem.accesses:
        axes = problem.type_of[access.tensor].axes
        last = len(axes) - 1 if len(axes) > 1 else len(axes)
        at = next((n for n, axis in enumerate(axes) if isinstance(axis, Positions)), last)
        if any(isinstance(axis, Dense) and access.indices[axis.dim] == var for axis in axes[at:]):
            return True
    return False
