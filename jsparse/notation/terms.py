"""Arithmetic of sums of products while they are read: exact as long as only integers are involved."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TypeAlias

from jsparse.notation.assignment import Access
from jsparse.notation.statement import Product

__all__ = ["Number", "Terms", "as_number", "as_products", "bounded", "is_finite", "read_number", "scaled", "times"]

MAX_BITS = 1024  # of a denominator

Number: TypeAlias = Fraction | float
# A sum of products, of at least one term. A number is always a single term without factors.
Terms: TypeAlias = list[tuple[Number, tuple[Access, ...]]]


def read_number(text: str) -> Number:
    """A literal: exact if it is digits only. One that no float64 holds is infinite."""
    number = float(text)
    return Fraction(int(text.lstrip("0") or "0")) if text.isdigit() and math.isfinite(number) else number


def as_number(terms: Terms) -> Number | None:
    """The value of terms that are a number, None for others."""
    (coefficient, factors), *others = terms
    return None if factors or others else coefficient


def scaled(terms: Terms, scale: Number) -> Terms:
    """The terms times a number."""
    return terms if scale == 1 and isinstance(scale, Fraction) else [(c * scale, factors) for c, factors in terms]


def times(left: Terms, right: Terms) -> Terms:
    """The product, distributed."""
    return [(a * b, (*factors, *others)) for a, factors in left for b, others in right]


def is_finite(number: Number) -> bool:
    """Whether a float64 holds the number, rounded."""
    try:
        return math.isfinite(number)
    except OverflowError:  # a fraction of large integers
        return False


def bounded(number: Number) -> Number:
    """The same, as a float if the fraction has grown so long that exact arithmetic would take time."""
    return float(number) if isinstance(number, Fraction) and number.denominator.bit_length() > MAX_BITS else number


def as_products(terms: Terms) -> tuple[Product, ...]:
    """The terms with coefficients that are integers where they are exact and whole, and floats elsewhere."""
    return tuple(Product(_plain(coefficient), factors) for coefficient, factors in terms)


def _plain(number: Number) -> int | float:
    if isinstance(number, Fraction) and number.denominator == 1:
        return number.numerator
    return float(number)
