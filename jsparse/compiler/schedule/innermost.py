"""The storage of the dense tensors of a program of several statements, where lanes decide it.

In a layer with sparse weights and the batch in front, `T[b, o] = X[b, i] * W[o, i]` and `Y[b, o] = max(T[b, o], 0)`,
loops over the entries of W can run b in lanes only if all tensors store b innermost. The caller transposes operands
and results, as it does for a product by itself. Of transposes between two kernels nothing is left, since XLA stores
what is between in the other layout.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jsparse.compiler.problem import Problem
from jsparse.compiler.schedule.layout import with_innermost
from jsparse.compiler.schedule.select import plan
from jsparse.compiler.schedule.sharing import shared_loops
from jsparse.compiler.schedule.statements import cost_of_sharing
from jsparse.compiler.schedule.stored import Stored
from jsparse.compiler.schedule.transformations.vectorize import Vectorize
from jsparse.notation.assignment import IndexVar

__all__ = ["shares_cheaply", "with_lanes_innermost"]

MOST_COST = 2.0
"""What shared loops may cost, relative to loops of each statement by itself. What they save is not in it: arrays that
are written and read, which cost less than loops do in most products."""

MOST_COST_MOVED = 1.1
"""The same where tensors are transposed for them. By themselves statements may walk panels of a product, whose packed
rows save more than a function of the result costs: 1.4 at 80 % zeros, 1.0 at 95 %."""


def shares_cheaply(problem: Problem, patterns: Sequence[Stored]) -> bool:
    """Whether loops that statements share, if there are any, do not cost much more than those that each prefers."""
    return _price(problem, patterns) <= MOST_COST


def with_lanes_innermost(problem: Problem, patterns: Sequence[Stored]) -> Problem:
    """The problem in which all dense tensors store one index variable innermost, if statements share loops cheaply then
    and do not otherwise; else the given one."""
    if shares_cheaply(problem, patterns):
        return problem
    dense = [tensor.name for tensor in problem.tensors if tensor.positions is None]
    for var in dict.fromkeys(_preferred(problem, patterns)):
        moved = with_innermost(problem, dense, var)
        if shared_loops(moved) and _price(moved, patterns) <= MOST_COST_MOVED:
            return moved
    return problem


def _price(problem: Problem, patterns: Sequence[Stored]) -> float:
    shared = shared_loops(problem)
    return cost_of_sharing(problem, patterns, shared) if shared else 0.0


def _preferred(problem: Problem, patterns: Sequence[Stored]) -> Iterator[IndexVar]:
    """Yield the index variables that statements would run in lanes if dense tensors stored them innermost."""
    for number, statement in enumerate(problem.statements):
        if statement.patterns:
            found = plan(problem.alone(number), [patterns[n] for n in statement.patterns])
            if any(t.axes != problem.type_of[t.name].axes for t in found.problem.tensors if t.positions is None):
                yield from (s.loop for s in found.schedule.steps if isinstance(s, Vectorize) and not s.lanes)
