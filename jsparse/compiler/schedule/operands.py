"""The storage of dense operands of a program of several statements.

A product such as `R[i, f] = P[i, k] * V[f, k]` reads V across its rows where f runs in lanes. The transpose of V costs
little beside the product, so the caller makes it: the problem says how operands are stored, and the planner of a single
statement prices it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from jsparse.compiler.problem import Problem, TensorType
from jsparse.compiler.schedule.select import plan
from jsparse.compiler.schedule.sharing import is_sum, shared_loops
from jsparse.compiler.statement import Statement

__all__ = ["with_moved_operands"]


def with_moved_operands(problem: Problem) -> Problem:
    """The problem in which dense operands are stored as the one dense product that reads them prefers.

    The axes of a moved operand are those of the given one in another order.
    """
    shared = shared_loops(problem)
    readers = Counter(name for s in problem.statements for name in {access.tensor for access in s.reads})
    movable = {t.name for t in problem.operands if t.positions is None and readers[t.name] == 1}
    moved: dict[str, TensorType] = {}
    for number, statement in enumerate(problem.statements):
        if statement.patterns or not _is_product(statement) or any(is_sum(problem, number, var) for var in shared):
            continue
        stored = plan(problem.alone(number), (), outer=shared).problem
        changed = {t.name: t for t in stored.tensors if t.axes != problem.type_of[t.name].axes}
        if movable.issuperset(changed):
            moved |= changed
    return replace(problem, tensors=tuple(moved.get(t.name, t) for t in problem.tensors)) if moved else problem


def _is_product(statement: Statement) -> bool:
    """Whether a statement sums over products of several tensors."""
    summed = {v for access in statement.reads for v in access.variables()} - set(statement.target.variables())
    return bool(summed) and len(statement.reads) > 1
