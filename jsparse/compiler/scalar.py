"""Scalar expressions: the right-hand sides of statements, at one point of the iteration space.

    Scalar := Access | Number | Apply(operation, arguments) | Rounded(value, dtype)

`A[i, j] * B[j, k]` is `Apply("*", (A[i, j], B[j, k]))`. All arithmetic is in the statement's dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any, Literal, TypeAlias

import numpy as np

from jsparse.notation.assignment import Access

__all__ = [
    "ASSOCIATIVE",
    "NUMPY",
    "Apply",
    "Number",
    "Operation",
    "Rounded",
    "Scalar",
    "accesses_of",
    "as_stored",
    "evaluate",
    "factors_of",
    "product_of",
    "replaced",
]

Operation: TypeAlias = Literal["+", "*", "min", "max", "&", "|", "-", "/", "==", "!=", "<", "<=", "select"]

NUMPY: dict[str, Any] = {
    "+": np.add,
    "*": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "&": np.bitwise_and,
    "|": np.bitwise_or,
    "-": np.subtract,
    "/": np.true_divide,
    "==": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    "select": np.where,
}
ASSOCIATIVE = ("+", "*", "min", "max", "&", "|")  # operations of two or more arguments
_CALLS = ("min", "max", "select")  # printed as calls


@dataclass(frozen=True, slots=True)
class Number:
    """A number."""

    value: float

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True, slots=True)
class Apply:
    """An operation on scalars. Comparisons give conditions, which only `select(condition, then, otherwise)` takes, and
    a statement as its own condition. `/` is for floats.

    Raises ValueError for an unknown operation, or a wrong number of arguments.
    """

    operation: Operation
    arguments: tuple[Scalar, ...]

    def __post_init__(self) -> None:
        wanted = 3 if self.operation == "select" else 2
        count = len(self.arguments)
        if self.operation not in NUMPY or (count != wanted and not (self.operation in ASSOCIATIVE and count > wanted)):
            raise ValueError(f"expected an operation with its arguments, but got {self.operation!r} of {count}")

    def __str__(self) -> str:
        if self.operation in _CALLS:
            return f"{self.operation}({', '.join(map(str, self.arguments))})"
        return f" {self.operation} ".join(f"({x})" if _is_infix(x) else str(x) for x in self.arguments)


@dataclass(frozen=True, slots=True)
class Rounded:
    """A value rounded to a dtype, as a number of the dtype of arithmetic."""

    value: Scalar
    dtype: str

    def __str__(self) -> str:
        return f"{self.dtype}({self.value})"


Scalar: TypeAlias = Access | Number | Apply | Rounded


def accesses_of(*values: Scalar | None) -> tuple[Access, ...]:
    """The accesses of expressions, from left to right, without those inside of indices."""
    found: list[Access] = []
    for value in values:
        match value:
            case Access():
                found.append(value)
            case Apply(arguments=arguments):
                found += accesses_of(*arguments)
            case Rounded(value=inner):
                found += accesses_of(inner)
    return tuple(found)


def replaced(value: Scalar, old: Access, new: Access) -> Scalar:
    """The expression with one access in place of another."""
    match value:
        case Access():
            return new if value == old else value
        case Apply(operation=operation, arguments=arguments):
            return Apply(operation, tuple(replaced(argument, old, new) for argument in arguments))
        case Rounded(value=inner, dtype=dtype):
            return Rounded(replaced(inner, old, new), dtype)
    return value


def product_of(multiply: Operation, factors: tuple[Scalar, ...], one: float = 1) -> Scalar:
    """The product of factors by an operation; `one` if there are none."""
    if not factors:
        return Number(one)
    return factors[0] if len(factors) == 1 else Apply(multiply, factors)


def factors_of(value: Scalar) -> tuple[Access, ...] | None:
    """The factors of a product of accesses; None for any other expression."""
    match value:
        case Access():
            return (value,)
        case Apply(operation="*" | "+" | "&", arguments=arguments):
            found = tuple(x for x in arguments if isinstance(x, Access))
            return found if len(found) == len(arguments) else None
    return None


def evaluate(value: Scalar, read: Callable[[Access], Any], dtype: np.dtype) -> Any:
    """The value of an expression on numpy numbers or arrays. `read` gives an access's elements in `dtype`."""
    match value:
        case Access():
            return read(value)
        case Number(value=number):
            return dtype.type(number)
        case Rounded(value=inner, dtype=name):
            return as_stored(evaluate(inner, read, dtype), np.dtype(name)).astype(dtype)
        case Apply(operation=operation, arguments=arguments):
            found = [evaluate(argument, read, dtype) for argument in arguments]
            combined = NUMPY[operation](*found) if operation == "select" else reduce(NUMPY[operation], found)
            return combined if combined.dtype == np.bool_ else combined.astype(dtype)


def as_stored(exact: Any, dtype: np.dtype) -> Any:
    """Exact results in the dtype in which they are stored: rounded, wrapped, or whether they are not 0."""
    with np.errstate(over="ignore"):
        return exact.astype(dtype)


def _is_infix(value: Scalar) -> bool:
    return isinstance(value, Apply) and value.operation not in _CALLS
