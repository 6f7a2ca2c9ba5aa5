"""Statements: sums of products of accesses, in which products are distributed over sums."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from jsparse.notation.assignment import Access, IndexVar

__all__ = ["Operator", "Product", "Statement"]

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
class Statement:
    """The statement `target = Σ terms`. Each term is summed over its index variables that the target lacks.

    A term that lacks an index variable of the target is repeated along it.

    Attributes:
        target: the access that is written.
        terms: the terms.
        operator: the combination of values that are written to one element, and with its previous content. `=` writes
            an element once and replaces its content; the others add, or keep the smallest or the largest.
    """

    target: Access
    terms: tuple[Product, ...]
    operator: Operator = "="

    def __str__(self) -> str:
        first, *others = map(str, self.terms or (Product(0, ()),))
        signed = (f" - {text[1:]}" if text.startswith("-") else f" + {text}" for text in others)
        return f"{self.target} {self.operator} {first}{''.join(signed)}"

    def variables(self) -> tuple[IndexVar, ...]:
        """Every index variable once: the target's, then the others in order of appearance."""
        accesses = (self.target, *(factor for term in self.terms for factor in term.factors))
        return tuple(dict.fromkeys(v for access in accesses for v in access.variables()))

    def tensors(self) -> tuple[str, ...]:
        """The name of every tensor that is read, once, in order of appearance."""
        factors = (factor for term in self.terms for factor in term.factors)
        read = [*(index for index in self.target.indices if isinstance(index, Access)), *factors]
        return tuple(dict.fromkeys(name for access in read for name in _names(access)))


def _names(access: Access) -> Iterator[str]:
    yield access.tensor
    for index in access.indices:
        if isinstance(index, Access):
            yield from _names(index)
