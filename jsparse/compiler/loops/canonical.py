"""The canonical nest of a statement: its definition as loops, which transformations start from.

Loops run over the patterns' variables as the patterns store them, then over the variables that only dense axes have.
The target is cleared, and every product is added to it in memory:

    C[i, k] = 0
    ∀ i ∈ P0.0
      ∀ j ∈ P0.1
        ∀ k ∈ range
          C[i, k] += A[i, j] * B[j, k]

After the last transformation, `completed` leaves out unnecessary steps: the clearing of a target whose elements are all
written, and the addition to elements that are written only once.
"""

from __future__ import annotations

from collections.abc import Sequence as Items
from dataclasses import replace

from jsparse.compiler.loops.chain import nested, path_to
from jsparse.compiler.loops.domain import Derivation, LevelIteration
from jsparse.compiler.loops.level_iterators import LevelIterators
from jsparse.compiler.loops.nest import (
    AppendCoord,
    Assign,
    Clear,
    Forall,
    LoopNest,
    Sequence,
    Stmt,
    Widened,
    with_children,
)
from jsparse.compiler.problem import Problem
from jsparse.compiler.statement import Statement, as_added
from jsparse.notation.assignment import IndexVar

__all__ = ["canonical_nest", "canonical_order", "completed", "places_target", "visits_all"]


def canonical_order(problem: Problem, statement: Statement) -> tuple[IndexVar, ...]:
    """The variables of the canonical nest's loops: batch axes, then the patterns' levels, then dense axes."""
    batch = (v for n in statement.patterns for v in problem.batch_variables[n])
    levels = (v for n in statement.patterns for v in problem.level_variables[n])
    named = statement.target.variables() if problem.is_assembly else statement.assignment.variables()
    every = tuple(dict.fromkeys((*batch, *levels, *named)))
    return problem.without_derived(every) if problem.derived else every


def canonical_nest(problem: Problem, number: int = 0) -> LoopNest:
    """The canonical nest of one of the problem's statements."""
    statement = problem.statements[number]
    iterators = LevelIterators.of(problem, statement)
    loops = [loop for var in canonical_order(problem, statement) for loop in iterators.bind(var)]
    iterators.check()
    headers = [Forall(loop.var, loop.domain, AppendCoord(statement.target)) for loop in loops]
    if problem.is_assembly:
        return LoopNest(problem, nested(headers, AppendCoord(statement.target)))
    monoid, dtype = problem.monoid_of(statement), problem.accumulator_of(statement)
    assert statement.value is not None
    value = as_added(statement.value, monoid, problem.type_of[statement.target.tensor].dtype, dtype)
    leaf = Assign(statement.target, value, dtype, monoid, True, statement.condition)
    return LoopNest(problem, Sequence((Clear(statement.target, monoid), nested(headers, leaf))))


def completed(nest: LoopNest) -> LoopNest:
    """The nest of one statement without clearing and additions in memory that change nothing."""
    if nest.problem.is_assembly or isinstance(nest.body, Widened):
        return nest
    problem, statement = nest.problem, nest.statement
    assert isinstance(nest.body, Sequence)
    (_, body), monoid = nest.body.stmts, problem.monoid_of(statement)
    loops = path_to(body, statement.target.tensor) or []
    if any(_reduces(loop, problem, statement) for loop in loops):
        return nest
    body = _stored(body, statement)
    if not _covers_target(loops, problem, statement):
        return replace(nest, body=Sequence((Clear(statement.target, monoid), body)))
    own = _own_pattern(problem, statement)
    if own is None or not problem.patterns[own].dynamic:
        return replace(nest, body=body)
    return replace(nest, body=Sequence((Clear(statement.target, monoid, _writes_in_use(loops, problem, own)), body)))


def _stored(stmt: Stmt, statement: Statement) -> Stmt:
    """The statement that writes the target in place of adding to it."""
    if isinstance(stmt, Assign):
        return replace(stmt, accumulate=False) if stmt.target.tensor == statement.target.tensor else stmt
    return with_children(stmt, lambda inner: _stored(inner, statement))


def _reduces(loop: Forall, problem: Problem, statement: Statement) -> bool:
    """Whether several iterations of the loop write one element of the target."""
    free = problem.with_parts(statement.target.variables())
    return not loop.is_lookup and any(v not in free for v in loop.variables)


def places_target(loop: Forall, problem: Problem, statement: Statement) -> bool:
    """Whether the loop determines where the target is written: by its variable, or by a position it looks up."""
    free = problem.with_parts(statement.target.variables())
    if not loop.is_lookup or isinstance(loop.domain, Derivation):
        return any(v in free for v in loop.variables)
    return isinstance(loop.domain, LevelIteration) and loop.domain.pattern == _own_pattern(problem, statement)


def _own_pattern(problem: Problem, statement: Statement) -> int | None:
    """The pattern that the target lies on; None if it is dense."""
    positions = problem.type_of[statement.target.tensor].positions
    return None if positions is None else positions.pattern


def _covers_target(loops: Items[Forall], problem: Problem, statement: Statement) -> bool:
    """Whether the loops visit every element of the target.

    They do not if a sparse level leaves coordinates out, if a repeated index restricts them to a diagonal, or if an
    index is a sum of other variables, which may leave coordinates out.
    """
    indices = statement.target.indices
    if len(set(indices)) < len(indices) or not set(indices).isdisjoint(problem.derivations):
        return False
    own = _own_pattern(problem, statement)
    return all(visits_all(loop, problem, own) for loop in loops)


def _writes_in_use(loops: Items[Forall], problem: Problem, own: int) -> bool:
    """Whether loops that visit every coordinate of dynamic pattern `own` write at all positions in use, whatever its
    index arrays hold. Where a coordinate is out of range, loops in lanes write a zero, other loops nothing."""
    pattern, domains = problem.patterns[own], [loop.domain for loop in loops]
    walked = [x for x in domains if isinstance(x, LevelIteration) and x.pattern == own]
    if [x.level for x in walked] != list(range(len(pattern.levels))) or pattern.batch_axes:
        return False
    if not all(problem.size[name] for name in problem.level_variables[own]):
        return False
    if any(loop.parallel is not None and loop.parallel.mode == "split" for loop in loops):
        return False
    return all(level.kind.is_full for level in pattern.levels[:-1]) and walked[-1].lanes > 0 and not walked[-1].panel


def visits_all(loop: Forall, problem: Problem, own: int | None) -> bool:
    """Whether the loop visits every coordinate of the target, which lies on pattern `own` or is dense. A derived
    variable may be out of range even though all of its parts are in range."""
    if isinstance(loop.domain, Derivation):
        return loop.domain.derived.stays_below(problem.size)
    if not isinstance(loop.domain, LevelIteration):
        return True
    level = problem.patterns[loop.domain.pattern].levels[loop.domain.level]
    return level.kind.is_full or (loop.domain.pattern == own and not loop.domain.bound)
