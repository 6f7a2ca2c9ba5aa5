"""Statements: sums of products of accesses and calls, in which products are distributed over sums."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

from jsparse.base.dataclass import dataclass
from jsparse.notation.assignment import Access, IndexVar
from jsparse.notation.functions import FUNCTIONS

Operator: TypeAlias = Literal["=", "+=", "min=", "max="]


@dataclass(frozen=True, slots=True)
class Product:
    """The term `coefficient * Π factors`. Without factors it is the coefficient."""

    coefficient: int | float | complex
    factors: tuple[Access, ...]

    def __str__(self) -> str:
        factors = " * ".join(map(str, self.factors))
        unit = isinstance(self.coefficient, int) and abs(self.coefficient) == 1
        if factors and unit:
            return factors if self.coefficient == 1 else f"-{factors}"
        return f"{self.coefficient} * {factors}" if factors else str(self.coefficient)

    def variables(self) -> tuple[IndexVar, ...]:
        """Every index variable once, in order of appearance."""
        return tuple(dict.fromkeys(v for factor in self.factors for v in factor.variables()))


@dataclass(frozen=True, slots=True)
class Call:
    """A function of sums of products, computed at each point of their index variables: no index is summed inside.

    As a factor, a call has the form of an access to a separate tensor, whose name is the text of the call and whose
    indices are the variables of the call.

    Attributes:
        function: a name of `FUNCTIONS`, a comparison, or "" for a sum in parentheses.
        arguments: the terms of each argument.
    """

    function: str
    arguments: tuple[tuple[Product, ...], ...]

    def __str__(self) -> str:
        sums = [_sum(terms) for terms in self.arguments]
        if self.function in FUNCTIONS or not self.function:
            return f"{self.function}({', '.join(sums)})"
        return f"({f' {self.function} '.join(sums)})"

    @property
    def factors(self) -> tuple[Access, ...]:
        """The accesses of the arguments, from left to right."""
        return tuple(factor for terms in self.arguments for term in terms for factor in term.factors)

    def variables(self) -> tuple[IndexVar, ...]:
        """Every index variable once, in order of appearance."""
        return tuple(dict.fromkeys(v for factor in self.factors for v in factor.variables()))


@dataclass(frozen=True, slots=True)
class Statement:
    """The statement `target = Σ terms`. Each term is summed over its index variables that the target lacks.

    A term that lacks an index variable of the target is repeated along it.

    Attributes:
        target: the access that is written.
        terms: the terms.
        operator: how values written to the same element are combined with each other and with the previous value
            of the element. `=` writes an element once and replaces its value; the other operators add, or keep the
            smallest or the largest value.
        calls: the calls. If a call is in an argument of another call, the inner call comes first.
    """

    target: Access
    terms: tuple[Product, ...]
    operator: Operator = "="
    calls: tuple[Call, ...] = ()

    def __str__(self) -> str:
        return f"{self.target} {self.operator} {_sum(self.terms or (Product(0, ()),))}"

    def variables(self) -> tuple[IndexVar, ...]:
        """Every index variable once: the variables of the target, then the others in order of appearance."""
        accesses = (self.target, *(factor for term in self.terms for factor in term.factors))
        return tuple(dict.fromkeys(v for access in accesses for v in access.variables()))

    def read(self) -> tuple[Access, ...]:
        """The accesses to tensors in terms and calls. Index tables, which are nested in accesses, are left out."""
        of_terms = (factor for term in self.terms for factor in term.factors)
        of_calls = (factor for call in self.calls for factor in call.factors)
        return tuple(access for access in (*of_terms, *of_calls) if not access.is_call)

    def tensors(self) -> tuple[str, ...]:
        """The name of every tensor that is read, once, in order of appearance."""
        read = [*(index for index in self.target.indices if isinstance(index, Access)), *self.read()]
        return tuple(dict.fromkeys(name for access in read for name in _names(access)))


def _sum(terms: Sequence[Product]) -> str:
    first, *others = map(str, terms)
    signed = (f" - {text[1:]}" if text.startswith("-") else f" + {text}" for text in others)
    return f"{first}{''.join(signed)}"


def _names(access: Access) -> Iterator[str]:
    yield access.tensor
    for index in access.indices:
        if isinstance(index, Access):
            yield from _names(index)
