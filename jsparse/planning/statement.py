"""Statements without indirect accesses on their tensors: checked, sorted anew where need be, computed."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jsparse.compiler.semiring import PLUS_TIMES, Semiring
from jsparse.formats import Format
from jsparse.notation import Access
from jsparse.notation.statement import Statement
from jsparse.planning.execute import in_format
from jsparse.planning.index_relation import is_index_relation
from jsparse.planning.operands import as_operand, asked
from jsparse.planning.request import OutFormat
from jsparse.planning.summation import Summation, summation, total

__all__ = ["Stated", "stated"]

ONE = "1"  # the factor of a term that has none; no tensor can be called so


class Stated(NamedTuple):
    """What a statement does, its operands, and the `out_format` that is asked for then."""

    work: Summation
    operands: list[Any]
    out_format: OutFormat

    def total(self) -> Any:
        """The result."""
        return total(*self)


def stated(
    text: str,
    statement: Statement,
    tensors: dict[str, Any],
    out_format: OutFormat,
    nse: int | None,
    preferred: np.dtype | None = None,
    semiring: Semiring = PLUS_TIMES,
    shape: tuple[int, ...] | None = None,
) -> Stated:
    """Plan a statement on these tensors. `text` is for messages; `shape` is the target's, None if the caller did not
    pass it."""
    statement, more = _with_factors(statement, tensors)
    names = tuple(dict.fromkeys(factor.tensor for term in statement.terms for factor in term.factors))
    every = {**tensors, **more}
    operands = [as_operand(every[name], partial("{} of '{}'".format, name, text), text) for name in names]
    signatures, out = asked(text, operands, out_format)
    work = summation(text, statement, names, signatures, out, nse, preferred, semiring, shape)
    if work.resorted:
        statement, taken = _converted(statement, work.resorted, every)
        out_format = work.format or out_format
        return stated(text, statement, {**every, **taken}, out_format, nse, preferred, semiring, shape)
    return Stated(work, operands, out_format)


def _converted(
    statement: Statement, resorted: tuple[tuple[int, int, Format], ...], tensors: dict[str, Any]
) -> tuple[Statement, dict[str, Any]]:
    """The statement with some factors in other formats, under names of their own."""
    terms, taken = list(statement.terms), {}
    for number, place, format in resorted:
        factors = list(terms[number].factors)
        name = f"{factors[place].tensor}'{number}.{place}"
        taken[name] = in_format(tensors[factors[place].tensor], format)
        factors[place] = replace(factors[place], tensor=name)
        terms[number] = replace(terms[number], factors=tuple(factors))
    return replace(statement, terms=tuple(terms)), taken


def _with_factors(statement: Statement, tensors: dict[str, Any]) -> tuple[Statement, dict[str, Any]]:
    """A term of a number only, or of tables besides, gets the factor 1, an operand."""
    bare = [all(is_index_relation(tensors[factor.tensor]) for factor in term.factors) for term in statement.terms]
    if not any(bare):
        return statement, {}
    one = Access(ONE, ())
    terms = (
        replace(term, factors=(one, *term.factors)) if alone else term
        for term, alone in zip(statement.terms, bare, strict=True)
    )
    return replace(statement, terms=tuple(terms)), {ONE: jnp.asarray(1)}
