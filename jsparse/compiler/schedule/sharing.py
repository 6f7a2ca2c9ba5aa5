"""Shared loops: the outermost loops that all statements of a program can have in common.

A variable's loop can be shared if every statement has it, if whatever a statement reads of an earlier one is accessed at
the same coordinate of it, and if all walk it alike: as the outermost level of one pattern, or of patterns that visit all
of its coordinates. Threads divide the outermost loop, so its iterations own a part of every target.
"""

from __future__ import annotations

from jsparse.compiler.problem import Dense, Positions, Problem
from jsparse.compiler.statement import Statement
from jsparse.notation.assignment import IndexVar

__all__ = ["shared_loops"]

ENOUGH = 8  # iterations of a dense loop that can be divided over threads
Names = tuple[IndexVar, ...]


def shared_loops(problem: Problem) -> Names:
    """The variables of the loops that all statements share, outermost first; none if there are none.

    A dense index that tensors store behind the positions of a pattern is left to the loops inside, which can run it in
    lanes.
    """
    if len(problem.statements) < 2 or problem.derived or problem.is_assembly:
        return ()
    found = _common(problem)
    walked = _walked(problem, found)
    dense = tuple(v for v in _dense(problem, found) if v not in walked)
    owned = [v for v in (*dense, *walked) if _is_owned(problem, v)]
    wide = [v for v in owned if v in dense and (problem.size[v] or ENOUGH) >= ENOUGH]
    if wide:
        return (wide[0], *(v for v in (*dense, *walked) if v != wide[0]))
    if walked and walked[0] in owned:
        return (walked[0], *dense, *walked[1:])
    return (owned[0], *(v for v in (*dense, *walked) if v != owned[0])) if owned and owned[0] in dense else ()


def _common(problem: Problem) -> Names:
    """The variables that every statement loops over, and at which each reads what others write."""
    variables = [problem.variables_of(statement) for statement in problem.statements]
    every = [v for v, _ in problem.sizes if all(v in own for own in variables)]
    return tuple(v for v in every if all(_flows(problem, n, v) for n in range(len(problem.statements))))


def _flows(problem: Problem, number: int, var: IndexVar) -> bool:
    """Whether later statements read what one writes at the same coordinate of a variable."""
    target = problem.statements[number].target
    places = [n for n, index in enumerate(target.indices) if index == var]
    for reader in problem.statements[number + 1 :]:
        for access in reader.reads:
            if any(inner.tensor == target.tensor for inner in access.nested()):
                return False
            if access.tensor == target.tensor and not (places and all(access.indices[n] == var for n in places)):
                return False
    return True


def _walked(problem: Problem, common: Names) -> Names:
    """The variables among them that patterns store, in the order of levels in which all patterns store them."""
    found: list[IndexVar] = []
    for depth in range(max((len(names) for names in problem.level_variables), default=0)):
        here = {names[depth] if depth < len(names) else None for names in problem.level_variables}
        var = next(iter(here))
        if len(here) != 1 or var is None or var not in common or var in found:
            break
        if len(problem.patterns) > 1 or not all(s.patterns for s in problem.statements):
            if depth or not all(pattern.levels[0].kind.is_full for pattern in problem.patterns):
                break
        found.append(var)
    innermost = any(len(found) == len(names) for names in problem.level_variables)
    return tuple(found[:-1] if innermost and len(found) > 1 else found)


def _dense(problem: Problem, common: Names) -> Names:
    """The dense variables among them that tensors on patterns store before the positions."""
    levels = {v for names in problem.walks for v in names}
    return tuple(v for v in common if v not in levels and not _behind_positions(problem, v))


def _behind_positions(problem: Problem, var: IndexVar) -> bool:
    for access in problem.accesses:
        axes = problem.type_of[access.tensor].axes
        at = next((n for n, axis in enumerate(axes) if isinstance(axis, Positions)), len(axes))
        if any(isinstance(axis, Dense) and access.indices[axis.dim] == var for axis in axes[at:]):
            return True
    return False


def _is_owned(problem: Problem, var: IndexVar) -> bool:
    return all(_owns(statement, var) for statement in problem.statements)


def _owns(statement: Statement, var: IndexVar) -> bool:
    return var in statement.target.variables()
