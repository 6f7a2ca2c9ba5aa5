"""Semirings: an operation that adds products, and one that multiplies factors (Kepner and Gilbert, 2011).

    R = ⊕ X₁ ⊗ X₂ ⊗ … ⊗ Xₙ        over all combinations of stored entries; ⊕ of none is `zero`, ⊗ of none is `one`

The compiler uses only the two operations and never the name of a semiring, so any pair of operations is possible.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import numpy as np

from jsparse.base.dataclass import dataclass
from jsparse.errors import SemiringError, short_repr, shorten

Add: TypeAlias = Literal["+", "min", "max", "*", "|"]
Multiply: TypeAlias = Literal["*", "+", "&"]
_ADD, _MULTIPLY = get_args(Add), get_args(Multiply)

# Pairs with a ⊗ (b ⊕ c) = (a ⊗ b) ⊕ (a ⊗ c) for all values. `max` and `*` are not such a pair, because a negative
# factor reverses order.
_DISTRIBUTIVE = {("+", "*"), ("min", "+"), ("max", "+"), ("|", "&")}
# Pairs with a ⊗ zero = zero, except for NaN and ±inf. `min` and `+` are not such a pair: the largest integer wraps
# around, and inf - inf is NaN.
_ANNIHILATING = {("+", "*"), ("|", "&")}


@dataclass(frozen=True, slots=True)
class Semiring:
    """The operations ⊕ and ⊗. `min` and `max` of NaN are NaN, and `|` and `&` are bitwise.

    Raises ValueError for other operations.
    """

    add: Add = "+"
    multiply: Multiply = "*"

    def __post_init__(self) -> None:
        if self.add not in _ADD or self.multiply not in _MULTIPLY:
            raise ValueError(f"{self.add!r} and {self.multiply!r} are not operations of a semiring")

    def __str__(self) -> str:
        return next((name for name, known in SEMIRINGS.items() if known == self), f"{self.add} of {self.multiply}")

    def zero(self, dtype: str) -> float:
        """The sum of no products, in the dtype with this name."""
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
        """Whether a sum equals one of its products, as a minimum or maximum does.

        The derivative computes the products again to find the one that equals the sum. Factors are multiplied in a
        fixed order, so that the products are equal bit for bit.
        """
        return self.add in ("min", "max")

    @property
    def distributes(self) -> bool:
        """Whether a nonempty sum over an index variable that only one factor has may be computed before the product."""
        return (self.add, self.multiply) in _DISTRIBUTIVE

    @property
    def distributes_empty(self) -> bool:
        """Whether even an empty sum may be computed before the product: the zero of ⊕ must be absorbing for ⊗."""
        return self.distributes and (self.add, self.multiply) in _ANNIHILATING


@dataclass(frozen=True, slots=True)
class Monoid:
    """An operation ⊕ with its identity element, the zero of a sum, in the dtype in which the sum is stored."""

    add: Add = "+"
    zero: float = 0

    @staticmethod
    def of(add: Add, dtype: str) -> Monoid:
        """Return the monoid of an operation on a dtype."""
        return Monoid(add, identity(add, dtype))

    @property
    def is_selective(self) -> bool:
        """Whether a sum equals one of its terms."""
        return self.add in ("min", "max")


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
    """A mask: the product of the first `count` factors, by `multiply` in their order, must equal the next factor.

    The factors of this comparison are not multiplied into the result.
    """

    multiply: Multiply
    count: int

    def __post_init__(self) -> None:
        if self.multiply not in _MULTIPLY or self.count < 1:
            raise ValueError(f"{self.count} factors, multiplied by {self.multiply!r}, are not a mask")

    @property
    def operands(self) -> int:
        """The number of factors in the comparison: the multiplied ones and the next one."""
        return self.count + 1


def identity(operation: Add | Multiply, dtype: str) -> float:
    """Return the identity element of an operation on a dtype: a float, or an int for integer dtypes and bool."""
    if operation in ("min", "max"):
        largest = operation == "min"
        if dtype == "bool":
            return int(largest)
        if "float" in dtype:
            return float("inf") if largest else float("-inf")
        return int(np.iinfo(dtype).max if largest else np.iinfo(dtype).min)
    if operation == "&":
        return 1 if dtype == "bool" else -1 if dtype.startswith("int") else int(np.iinfo(dtype).max)
    return 1 if operation == "*" else 0


def semiring_named(name: object, text: str) -> Semiring:
    """Return the semiring `name`. For an unknown name, raise SemiringError with the known names and the expression."""
    if isinstance(name, Semiring):
        return name
    if not isinstance(name, str) or name not in SEMIRINGS:
        raise SemiringError(
            f"Expected semiring= of '{shorten(text)}' to be one of {', '.join(SEMIRINGS)}, but got "
            f"{short_repr(name)}. Pass one of these names."
        )
    return SEMIRINGS[name]
