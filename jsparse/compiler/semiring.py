"""Semirings: how products are added up and how factors are multiplied (Kepner and Gilbert, 2011).

    R = ⊕ X₁ ⊗ X₂ ⊗ … ⊗ Xₙ        over all combinations of stored entries; ⊕ of none is `zero`, ⊗ of none is `one`

Everything below the table of names works on the two operations alone, so any pair is possible.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np

from jsparse.errors import SemiringError, represented, shortened

__all__ = ["PLUS_TIMES", "SEMIRINGS", "Add", "EqualityMask", "Multiply", "Semiring", "identity", "semiring_named"]

Add: TypeAlias = Literal["+", "min", "max", "*", "|"]
Multiply: TypeAlias = Literal["*", "+", "&"]

# a ⊗ (b ⊕ c) = (a ⊗ b) ⊕ (a ⊗ c) for all values; `max` and `*` do not, since a negative factor turns the order.
_DISTRIBUTIVE = {("+", "*"), ("min", "+"), ("max", "+"), ("|", "&")}
# a ⊗ zero = zero, but for NaN and ±inf. Not so of min and +: the largest integer wraps around, inf - inf is NaN.
_ANNIHILATING = {("+", "*"), ("|", "&")}


@dataclass(frozen=True, slots=True)
class Semiring:
    """The operations ⊕ and ⊗. `min` and `max` of NaN are NaN; `|` and `&` are bitwise. ValueError for any others."""

    add: Add = "+"
    multiply: Multiply = "*"

    def __post_init__(self) -> None:
        if self.add not in get_args(Add) or self.multiply not in get_args(Multiply):
            raise ValueError(f"{self.add!r} and {self.multiply!r} are no operations of a semiring")

    def __str__(self) -> str:
        return next((name for name, known in SEMIRINGS.items() if known == self), f"{self.add} of {self.multiply}")

    def zero(self, dtype: str) -> float:
        """What no products add up to, in a dtype of that name."""
        return identity(self.add, dtype)

    def one(self, dtype: str) -> float:
        """The product of no factors."""
        return identity(self.multiply, dtype)

    @property
    def is_linear(self) -> bool:
        """Whether a sum of products is linear in each factor."""
        return (self.add, self.multiply) == ("+", "*")

    @property
    def is_selective(self) -> bool:
        """Whether a sum is one of its products. To find out which, they are computed again: always in one order."""
        return self.add in ("min", "max")

    @property
    def distributes(self) -> bool:
        """Whether what only one factor carries can be summed before it is multiplied."""
        return (self.add, self.multiply) in _DISTRIBUTIVE

    @property
    def distributes_empty(self) -> bool:
        """The same where the sum may be of nothing, which then must add nothing."""
        return self.distributes and (self.add, self.multiply) in _ANNIHILATING


PLUS_TIMES = Semiring()

SEMIRINGS = {
    "plus_times": PLUS_TIMES,
    "min_plus": Semiring("min", "+"),
    "max_plus": Semiring("max", "+"),
    "max_times": Semiring("max", "*"),
    "or_and": Semiring("|", "&"),
}


@dataclass(frozen=True, slots=True)
class EqualityMask:
    """A mask of products: the first `count` factors, multiplied by `multiply` in their order, must equal the next
    factor. The factors after that are the product."""

    multiply: Multiply
    count: int

    def __post_init__(self) -> None:
        if self.multiply not in get_args(Multiply) or self.count < 1:
            raise ValueError(f"{self.count} factors, multiplied by {self.multiply!r}, are no mask")

    @property
    def operands(self) -> int:
        """How many factors are compared instead of multiplied."""
        return self.count + 1


def identity(operation: Add | Multiply, dtype: str) -> float:
    """What changes nothing under an operation on the dtype: a float, or an integer for integers and bool."""
    if operation in ("min", "max"):
        return _extreme(dtype, largest=operation == "min")
    if operation == "&":
        return 1 if dtype == "bool" else -1 if dtype.startswith("int") else int(np.iinfo(dtype).max)
    return 1 if operation == "*" else 0


def _extreme(dtype: str, largest: bool) -> float:
    if dtype == "bool":
        return int(largest)
    if "float" in dtype:
        return float("inf") if largest else float("-inf")
    return int(np.iinfo(dtype).max if largest else np.iinfo(dtype).min)


def semiring_named(name: object, text: str) -> Semiring:
    """The semiring of that name, for an expression. Raises SemiringError that lists the known ones."""
    if isinstance(name, Semiring):
        return name
    if not isinstance(name, str) or name not in SEMIRINGS:
        raise SemiringError(
            f"Expected semiring= of '{shortened(text)}' to be one of {', '.join(SEMIRINGS)}, but got "
            f"{represented(name)}."
        )
    return SEMIRINGS[name]
