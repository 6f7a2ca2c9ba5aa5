"""The storage of the dense tensors of a program of several statements, where lanes decide it.

In a layer with sparse weights and the batch in front, `T[b, o] = X[b, i] * W[o, i]` and `Y[b, o] = max(T[b, o], 0)`,
loops over the entries of W can run b in lanes only if all tensors store b innermost. The caller transposes operands
and results, as it does for a product by itself. Transposes between two kernels cost nothing, since XLA stores the
tensor between them in the other layout.
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
"""The most that shared loops may cost, relative to loops of each statement by itself. The costs leave out the arrays
that shared loops need not write and read; in most products these cost less than the loops do."""

MOST_COST_MOVED = 1.1
"""The same if tensors are transposed for shared loops. A product by itself may run in panels, whose packed rows save
more than a separate function of the result costs: 1.4 at 80 % zeros, 1.0 at 95 %."""


def shares_cheaply(problem: Problem, patterns: Sequence[Stored]) -> bool:
    """Whether shared loops, if there are any, cost little more than the loops that each statement prefers by itself."""
    return _price(problem, patterns) <= MOST_COST


def with_lanes_innermost(problem: Problem, patterns: Sequence[Stored]) -> Problem:
    """The problem with all dense tensors storing one index variable innermost, if only then statements share loops
    cheaply; else the given problem."""
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
