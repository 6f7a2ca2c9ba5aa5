"""`min=` and `max=`: each element of the target keeps the smallest or the largest of the sums written to it.

A sum of terms is a product of the semiring whose multiplication is addition (Kepner and Gilbert, 2011), so

    D[i] min= L[p] + d[j]        is        D[i] = ⊕ L[p] ⊗ d[j]     by min and +.

A single term is a product by the semiring of min (or max) and ·. Numbers are factors like any other. Bare patterns only
restrict the points: a term of bare patterns alone is the number 1 at their entries. If there are several terms, each
term with several factors is computed first, as a tensor over all of its index variables.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from jsparse.compiler.semiring import Add, Semiring
from jsparse.formats import Pattern
from jsparse.notation import Access
from jsparse.notation.statement import Product, Statement
from jsparse.planning.bare_pattern import is_bare
from jsparse.tensor.dynamic_pattern import DynamicPattern

__all__ = ["as_product"]


def as_product(
    statement: Statement, tensors: dict[str, Any], multiplied: Callable[[Statement], Any]
) -> tuple[Statement, dict[str, Any], Semiring]:
    """The statement as one product by a semiring, with the tensors that it adds. `multiplied` evaluates a product."""
    add: Add = "min" if statement.operator == "min=" else "max"
    terms, more = [], dict[str, Any]()
    for number, term in enumerate(statement.terms):
        factors = [factor for factor in term.factors if not _is_pattern(tensors[factor.tensor])]
        terms.append(_Term(number, term.coefficient, factors))
    related = [f for term in statement.terms for f in term.factors if _is_pattern(tensors[f.tensor])]
    if len(terms) == 1:
        factors = terms[0].with_number(more)
    else:
        factors = [term.as_factor(tensors, more, multiplied) for term in terms]
    product = Product(1, (*factors, *dict.fromkeys(related)))
    return replace(statement, terms=(product,)), more, Semiring(add, "*" if len(terms) == 1 else "+")


def _is_pattern(x: Any) -> bool:
    return is_bare(x) or isinstance(x, (Pattern, DynamicPattern))


class _Term:
    def __init__(self, number: int, coefficient: complex, factors: list[Access]) -> None:
        self.name, self.coefficient, self.factors = f"'{number}", coefficient, factors

    def with_number(self, more: dict[str, Any]) -> list[Access]:
        """The factors, with the coefficient as one more factor unless it is 1."""
        if self.coefficient == 1 and self.factors:
            return self.factors
        more[self.name] = self.coefficient
        return [Access(self.name, ()), *self.factors]

    def as_factor(
        self, tensors: dict[str, Any], more: dict[str, Any], multiplied: Callable[[Statement], Any]
    ) -> Access:
        """The whole term as one factor."""
        if not self.factors:
            return self.with_number(more)[0]
        if len(self.factors) == 1:
            (factor,) = self.factors
            if self.coefficient == 1:
                return factor
            more[self.name] = tensors[factor.tensor] * self.coefficient
            return replace(factor, tensor=self.name)
        indices = tuple(dict.fromkeys(v for factor in self.factors for v in factor.variables()))
        target = Access(self.name, indices)
        more[self.name] = multiplied(Statement(target, (Product(self.coefficient, tuple(self.factors)),)))
        return target
