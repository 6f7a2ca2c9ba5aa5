"""Arithmetic of sums of products during parsing. It is exact as long as only integers are involved.

A power `x[i] ** -1` is represented as an access to a separate tensor named "x**-1".
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import TypeAlias

from jsparse.notation.assignment import Access
from jsparse.notation.statement import Product

MAX_BITS = 1024  # of a denominator

Number: TypeAlias = Fraction | float
# A sum of products, of at least one term. A number is always a single term without factors.
Terms: TypeAlias = list[tuple[Number, tuple[Access, ...]]]


def read_number(text: str) -> Number:
    """Read a literal. It is exact if it has digits only, and infinite if it exceeds the range of float64."""
    number = float(text)
    return Fraction(int(text.lstrip("0") or "0")) if text.isdigit() and math.isfinite(number) else number


def as_number(terms: Terms) -> Number | None:
    """Return the value of terms that consist of a single number; None for other terms."""
    (coefficient, factors), *others = terms
    return None if factors or others else coefficient


def scale_terms(terms: Terms, scale: Number) -> Terms:
    """Multiply the terms by a number."""
    return terms if scale == 1 and isinstance(scale, Fraction) else [(c * scale, factors) for c, factors in terms]


def times(left: Terms, right: Terms) -> Terms:
    """Multiply two sums. The result is a sum of products."""
    return [(a * b, (*factors, *others)) for a, factors in left for b, others in right]


def is_finite(number: Number) -> bool:
    """Whether the number, rounded to float64, is finite."""
    try:
        return math.isfinite(number)
    except OverflowError:  # a fraction of large integers
        return False


def bound_denominator(number: Number) -> Number:
    """The number, converted to float if its denominator is so long that exact arithmetic would become slow."""
    return float(number) if isinstance(number, Fraction) and number.denominator.bit_length() > MAX_BITS else number


def as_products(terms: Terms) -> tuple[Product, ...]:
    """Convert terms to products. Coefficients become integers if they are exact and whole, else floats."""
    return tuple(Product(_integer_or_float(coefficient), factors) for coefficient, factors in terms)


def _integer_or_float(number: Number) -> int | float:
    return number.numerator if isinstance(number, Fraction) and number.denominator == 1 else float(number)


SYMBOL = "**"


def power_of(access: Access, exponent: Number) -> Access:
    """Return the access to a power of a tensor. The exponents of nested powers are multiplied."""
    base, exponent_before = base_and_exponent(access.tensor)
    total = exponent * (Fraction(exponent_before) if isinstance(exponent_before, int) else exponent_before)
    return replace(access, tensor=base if total == 1 else f"{base}{SYMBOL}{_integer_or_float(total)!r}")


def base_and_exponent(name: str) -> tuple[str, int | float]:
    """Split a name in a statement into a tensor's name and the exponent of its elements: 1 for a plain name."""
    base, symbol, exponent = name.rpartition(SYMBOL)
    if not symbol or name.endswith(")"):  # powers in a call's text are of its arguments
        return name, 1
    number = float(exponent)
    return base, int(number) if number.is_integer() and abs(number) < 2**53 else number
