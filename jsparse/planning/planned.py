"""Planned einsums and statements: a plan with its operands. Operands of equal signatures share one plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jsparse.base.memo import remembered
from jsparse.compiler.semiring import PLUS_TIMES, Semiring
from jsparse.errors import shortened
from jsparse.notation import Access, parse_einsum
from jsparse.notation.statement import Product, Statement
from jsparse.planning.execute import execute
from jsparse.planning.index_relation import is_index_relation
from jsparse.planning.ones import ONE
from jsparse.planning.operands import as_operand, signatures
from jsparse.planning.plan import ProgramPlan
from jsparse.planning.planner import plan
from jsparse.planning.request import OutFormat, Request
from jsparse.planning.scheduled import Schedules
from jsparse.planning.signature import Signature

__all__ = ["Planned", "plan_einsum", "plan_statement"]

REMEMBERED = 256  # the most plans that are remembered; each keeps its static patterns alive


class Planned(NamedTuple):
    """A plan, the operands that it was made for, and the caller's `out_format`."""

    plan: ProgramPlan
    operands: list[Any]
    out_format: OutFormat

    def run(self) -> Any:
        """Execute the plan. The result is an array or a SparseTensor."""
        return execute(self.plan, self.operands, self.out_format)


def plan_einsum(
    subscripts: str,
    operands: Sequence[Any],
    out_format: OutFormat,
    nse: int | None = None,
    preferred: np.dtype | None = None,
    semiring: Semiring = PLUS_TIMES,
    schedules: Schedules = (),
) -> Planned:
    """Plan an einsum on these operands. `preferred` is the dtype of the result, by default what operands promote to.

    Raises:
        SubscriptError, ShapeError, DTypeError: the operands do not fit the subscripts, or each other.
        PatternError: a sparse result has more than `nse` entries, or nothing bounds its capacity.
        ScheduleError: a step of a schedule is illegal.
    """
    taken: list[Any] = [
        as_operand(x, partial("operand {} of '{}'".format, n, subscripts), subscripts) for n, x in enumerate(operands)
    ]
    given, requested = signatures(subscripts, taken, out_format)
    return Planned(
        _of_einsum(subscripts, given, Request(requested, nse, preferred, None, schedules), semiring), taken, out_format
    )


@remembered(maxsize=REMEMBERED)
def _of_einsum(subscripts: str, operands: tuple[Signature, ...], request: Request, semiring: Semiring) -> ProgramPlan:
    assignment = parse_einsum(subscripts, [x.shape for x in operands])
    statement = Statement(assignment.target, (Product(1, assignment.factors),))
    return plan(shortened(subscripts), statement, operands, request, semiring)


def plan_statement(
    text: str,
    statement: Statement,
    tensors: dict[str, Any],
    out_format: OutFormat,
    nse: int | None,
    preferred: np.dtype | None = None,
    semiring: Semiring = PLUS_TIMES,
    shape: tuple[int, ...] | None = None,
    schedules: Schedules = (),
) -> Planned:
    """Plan a statement on these tensors. Messages quote `text`. `shape` is the target's, if the caller passed it.

    Raises the errors of `plan_einsum`.
    """
    statement, more = _with_factors(statement, tensors)
    names = tuple(dict.fromkeys(factor.tensor for term in statement.terms for factor in term.factors))
    every = {**tensors, **more}
    operands: list[Any] = [as_operand(every[name], partial("{} of '{}'".format, name, text), text) for name in names]
    given, requested = signatures(text, operands, out_format)
    request = Request(requested, nse, preferred, shape, schedules)
    return Planned(_of_statement(text, statement, given, request, semiring), operands, out_format)


_of_statement = remembered(maxsize=REMEMBERED)(plan)


def _with_factors(statement: Statement, tensors: dict[str, Any]) -> tuple[Statement, dict[str, Any]]:
    """Add the factor 1 to each term in which no factor has values, so that every term is a product."""
    bare = [all(is_index_relation(tensors[factor.tensor]) for factor in term.factors) for term in statement.terms]
    if not any(bare):
        return statement, {}
    one = Access(ONE, ())
    terms = (
        replace(term, factors=(one, *term.factors)) if alone else term
        for term, alone in zip(statement.terms, bare, strict=True)
    )
    return replace(statement, terms=tuple(terms)), {ONE: jnp.asarray(1)}
