"""Planned einsums and statements: a plan with its operands.

Operands are checked, and converted to what the primitives take. Operands of equal signatures share one plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.base.arrays import check_alive, jax_array
from jsparse.base.memo import remembered
from jsparse.compiler.semiring import PLUS_TIMES, Semiring
from jsparse.errors import FormatError, shortened
from jsparse.formats import Format, Pattern
from jsparse.notation import Access, parse_einsum
from jsparse.notation.statement import Product, Statement
from jsparse.planning.bare_pattern import BarePattern, IndexRelation
from jsparse.planning.compilations import log_planned
from jsparse.planning.execute import execute
from jsparse.planning.plan import ProgramPlan
from jsparse.planning.planned_product import ONE
from jsparse.planning.planner import plan
from jsparse.planning.scheduled import Schedules
from jsparse.planning.signature import OutFormat, OutputRequest, PatternRef, Request, Signature, signature, stored_on
from jsparse.settings import logged
from jsparse.tensor.dynamic_pattern import DynamicPattern
from jsparse.tensor.leaves import Name, check_pattern, with_sound_leaves
from jsparse.tensor.sparse_tensor import SparseTensor

__all__ = ["Operand", "Planned", "as_array", "as_operand", "plan_einsum", "plan_statement", "signatures"]

REMEMBERED = 256  # the most plans that are remembered; each keeps its static patterns alive

Operand: TypeAlias = SparseTensor | BarePattern | jax.Array


def as_array(x: Any, subscripts: str) -> jax.Array:
    """Convert a dense operand to an array of numbers. Raises DTypeError if it does not hold numbers."""
    return jax_array(
        x, f"the operands of '{shortened(subscripts)}' to be arrays of numbers or SparseTensors, or Patterns"
    )


def as_operand(x: Any, name: Name, subscripts: str) -> Operand:
    """Check an operand and convert it to what the primitives take. Messages call it `name`.

    Raises LeafError if the leaves of a SparseTensor or a dynamic pattern do not fit its type, DTypeError for
    anything that is neither a tensor, nor a pattern, nor an array of numbers.
    """
    if isinstance(x, SparseTensor):
        return with_sound_leaves(x, name)
    if isinstance(x, (Pattern, DynamicPattern)):
        bare = BarePattern(x)
        check_pattern(bare, name)
        return bare
    if isinstance(x, BarePattern):
        return x
    check_alive(x, name)
    return as_array(x, subscripts)


def signatures(
    text: str, operands: Sequence[Any], out_format: OutFormat
) -> tuple[tuple[Signature, ...], OutputRequest]:
    """The signatures of the operands and the request for the output.

    Raises FormatError if `out_format` is no format.
    """
    if isinstance(out_format, (SparseTensor, DynamicPattern)):
        given = BarePattern(out_format) if isinstance(out_format, DynamicPattern) else out_format
        check_pattern(given, lambda: f"out_format of '{text}'")
    *stored, requested = stored_on([*operands, out_format])
    out: Any = out_format if requested is None else requested
    if not isinstance(out, str | Format | PatternRef | None):
        raise FormatError(
            f"Expected out_format of '{text}' to be 'dense', a format, a SparseTensor, a Pattern or None, but got "
            f"{type(out).__name__}."
        )
    found = tuple(signature(x, on) for x, on in zip(operands, stored, strict=True))
    return _with_same(found, operands), out


def _with_same(found: tuple[Signature, ...], operands: Sequence[Any]) -> tuple[Signature, ...]:
    """The signatures, which also note repeated operands, so that equal steps on them are computed once."""
    arrays = [
        id(x.values if isinstance(x, SparseTensor) else x.pattern if isinstance(x, BarePattern) else x)
        for x in operands
    ]
    if len(set(arrays)) == len(arrays):
        return found
    first: dict[tuple[int, PatternRef | None], int] = {}
    numbers = [first.setdefault((a, x.stored), n) for n, (a, x) in enumerate(zip(arrays, found, strict=True))]
    return tuple(x if n == m else replace(x, same=m) for n, (m, x) in enumerate(zip(numbers, found, strict=True)))


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
    """Plan an einsum on these operands. `preferred` is the result's dtype, by default the one operands promote to.

    Raises:
        SubscriptError, ShapeError, DTypeError: the operands do not fit the subscripts, or each other.
        PatternError: a sparse result has more than `nse` entries, or nothing bounds its capacity.
        ScheduleError: a step of a schedule is illegal.
    """
    taken: list[Any] = [
        as_operand(x, partial("operand {} of '{}'".format, n, subscripts), subscripts) for n, x in enumerate(operands)
    ]
    given, requested = signatures(subscripts, taken, out_format)
    request = Request(requested, nse, preferred, None, schedules)
    found = Planned(_of_einsum(subscripts, given, request, semiring), taken, out_format)
    if logged.log_compiles:
        log_planned(shortened(subscripts), [f"operand {n}" for n in range(len(taken))], given, request)
    return found


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
    found = Planned(_of_statement(text, statement, given, request, semiring), operands, out_format)
    if logged.log_compiles:
        log_planned(text, names, given, request)
    return found


_of_statement = remembered(maxsize=REMEMBERED)(plan)


def _with_factors(statement: Statement, tensors: dict[str, Any]) -> tuple[Statement, dict[str, Any]]:
    """Add the factor 1 to each term in which no factor has values, so that every term is a product."""
    bare = [
        all(isinstance(tensors[factor.tensor], IndexRelation) for factor in term.factors) for term in statement.terms
    ]
    if not any(bare):
        return statement, {}
    one = Access(ONE, ())
    terms = (
        replace(term, factors=(one, *term.factors)) if alone else term
        for term, alone in zip(statement.terms, bare, strict=True)
    )
    return replace(statement, terms=tuple(terms)), {ONE: jnp.asarray(1)}
