"""Powers of tensors in statements. `x[i] ** -1` is an access to a tensor of its own, named "x**-1"."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from jsparse.notation.assignment import Access
from jsparse.notation.terms import Number

__all__ = ["base_and_exponent", "raised"]

SYMBOL = "**"


def raised(access: Access, exponent: Number) -> Access:
    """The access to the power of a tensor. Powers of a power multiply."""
    base, own = base_and_exponent(access.tensor)
    total = exponent * (Fraction(own) if isinstance(own, int) else own)
    return replace(access, tensor=base if total == 1 else f"{base}{SYMBOL}{_text(total)}")


def base_and_exponent(name: str) -> tuple[str, int | float]:
    """The tensor that a name of a statement refers to, and the exponent of its elements: 1 for a plain name."""
    base, symbol, exponent = name.rpartition(SYMBOL)
    if not symbol or name.endswith(")"):  # powers in a call's text are of its arguments
        return name, 1
    number = float(exponent)
    return base, int(number) if number.is_integer() and abs(number) < 2**53 else number


def _text(exponent: Number) -> str:
    whole = isinstance(exponent, Fraction) and exponent.denominator == 1
    return str(exponent.numerator) if whole and isinstance(exponent, Fraction) else repr(float(exponent))
