"""Scalar expressions: the right-hand sides of statements, at one point of the iteration space.

    Scalar := Access | Number | Apply(operation, arguments) | Rounded(value, dtype)
            | Let(name, value, body) | Local(name)

`A[i, j] * B[j, k]` is `Apply("*", (A[i, j], B[j, k]))`. All arithmetic is in the statement's dtype.
`compiler.operations` lists the operations. `Let` names a value that its body uses several times, so shared values are
written once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from operator import is_
from typing import TypeAlias

from jsparse.base.dataclass import dataclass
from jsparse.compiler.operations import OPERATIONS
from jsparse.notation.assignment import Access


@dataclass(frozen=True, slots=True, eq=False)
class Number:
    """A number; a float may be infinite, NaN or -0.0. In comparisons, NaN equals NaN, and 0.0 differs from -0.0."""

    value: float

    @property
    def _same(self) -> tuple[object, float]:
        return ("nan", 0) if self.value != self.value else (self.value, math.copysign(1, self.value))

    def __eq__(self, other: object) -> bool:
        return self._same == other._same if isinstance(other, Number) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._same)

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True, slots=True)
class Apply:
    """An operation on scalars. A comparison gives a condition: an argument of `select(condition, then, otherwise)`, of
    `&`, `|` or `not`, or the condition of a statement. `/` and functions such as `exp` are for floats.

    Raises ValueError for an unknown operation, or a wrong number of arguments.
    """

    operation: str
    arguments: tuple[Scalar, ...]

    def __post_init__(self) -> None:
        entry, count = OPERATIONS.get(self.operation), len(self.arguments)
        if entry is None or (count != entry.arity and not (entry.is_associative and count > entry.arity)):
            raise ValueError(f"expected an operation with its arguments, but got {self.operation!r} of {count}")

    def __str__(self) -> str:
        if not OPERATIONS[self.operation].is_infix:
            return f"{self.operation}({', '.join(map(str, self.arguments))})"
        texts = []
        for x in self.arguments:  # a `Let`, or an operation that is infix itself, needs parentheses beside an operator
            is_open = isinstance(x, Let) or (isinstance(x, Apply) and OPERATIONS[x.operation].is_infix)
            texts.append(f"({x})" if is_open else str(x))
        return f" {self.operation} ".join(texts)


@dataclass(frozen=True, slots=True)
class Rounded:
    """A value that is rounded to `dtype` and then converted back to the dtype of arithmetic."""

    value: Scalar
    dtype: str

    def __str__(self) -> str:
        return f"{self.dtype}({self.value})"


@dataclass(frozen=True, slots=True)
class Let:
    """The value of `body`, in which `name` stands for `value`. An inner `Let` may give the same name another value."""

    name: str
    value: Scalar
    body: Scalar

    def __str__(self) -> str:
        return f"let {self.name} = {self.value} in {self.body}"


@dataclass(frozen=True, slots=True)
class Local:
    """The name of a value. The innermost enclosing `Let` with this name defines the value."""

    name: str

    def __str__(self) -> str:
        return self.name


Scalar: TypeAlias = Access | Number | Apply | Rounded | Let | Local


def parts_of(value: Scalar) -> tuple[Scalar, ...]:
    """The expressions directly inside of an expression, from left to right."""
    match value:
        case Apply(arguments=arguments):
            return arguments
        case Rounded(value=inner):
            return (inner,)
        case Let(value=inner, body=body):
            return inner, body
    return ()


def accesses_of(*values: Scalar | None) -> tuple[Access, ...]:
    """Find the accesses in expressions, from left to right. Accesses inside of indices are left out."""
    accesses: list[Access] = []
    for value in values:
        if value is not None:
            accesses += (value,) if isinstance(value, Access) else accesses_of(*parts_of(value))
    return tuple(accesses)


def operations_of(value: Scalar) -> frozenset[str]:
    """Return the names of the operations in an expression."""
    name = {value.operation} if isinstance(value, Apply) else ()
    return frozenset(name).union(*map(operations_of, parts_of(value)))


def unbound_locals(value: Scalar, bound: frozenset[str] = frozenset()) -> frozenset[str]:
    """Return the local names in an expression that no enclosing `Let` binds."""
    match value:
        case Local(name=name):
            return frozenset({name}) - bound
        case Let(name=name, value=inner, body=body):
            return unbound_locals(inner, bound) | unbound_locals(body, bound | {name})
    return frozenset[str]().union(*(unbound_locals(part, bound) for part in parts_of(value)))


def rewrite(value: Scalar, replacement: Callable[[Scalar], Scalar | None]) -> Scalar:
    """Put another expression in place of each part for which `replacement` gives one, from the outside in."""
    new = replacement(value)
    if new is not None:
        return new
    match value:
        case Apply(operation=operation, arguments=arguments):
            replaced = tuple(rewrite(argument, replacement) for argument in arguments)
            return value if all(map(is_, replaced, arguments)) else Apply(operation, replaced)
        case Rounded(value=inner, dtype=dtype):
            return Rounded(rewrite(inner, replacement), dtype)
        case Let(name=name, value=inner, body=body):
            return Let(name, rewrite(inner, replacement), rewrite(body, replacement))
    return value


def replace_accesses(value: Scalar, new: Mapping[Access, Scalar]) -> Scalar:
    """Replace accesses in an expression by other expressions."""
    return rewrite(value, lambda x: new.get(x) if isinstance(x, Access) else None)


def product_of(multiply: str, factors: tuple[Scalar, ...], one: float = 1) -> Scalar:
    """Combine factors by the operation `multiply`; return the number `one` if there are no factors."""
    if not factors:
        return Number(one)
    return factors[0] if len(factors) == 1 else Apply(multiply, factors)


def power_of(value: Scalar, exponent: int, name: str) -> Scalar:
    """Return an integer power by repeated squaring. The local names of the squares are `name` followed by a number.

    x⁻ⁿ is 1 / xⁿ, and x⁰ is 1.
    """
    if exponent < 0:
        return Apply("/", (Number(1), power_of(value, -exponent, name)))
    if exponent < 2:
        return value if exponent else Number(1)
    squares: list[Scalar] = [Local(f"{name}{n}") for n in range(exponent.bit_length())]
    body = product_of("*", tuple(square for n, square in enumerate(squares) if exponent >> n & 1))
    for n in range(len(squares) - 1, 0, -1):
        body = Let(f"{name}{n}", Apply("*", (squares[n - 1], squares[n - 1])), body)
    return Let(f"{name}0", value, body)


def factors_of(value: Scalar) -> tuple[Access, ...] | None:
    """Return the factors if the expression is a product of accesses; else None."""
    match value:
        case Access():
            return (value,)
        case Apply(operation="*" | "+" | "&", arguments=arguments):
            factors = tuple(x for x in arguments if isinstance(x, Access))
            return factors if len(factors) == len(arguments) else None
    return None
