"""Numbers with a bound on their error, and the operations of scalar expressions on them, in Python.

Numbers without an error are exact, and programs are compared with them exactly. Functions such as exp have errors,
which later operations pass on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["EXACT", "InexactError", "Near", "applied", "check", "rounded"]

EXACT = {"float32": 2**24, "float64": 2**53, "int32": 2**31 - 1, "int64": 2**62}  # integers up to here are exact
LARGEST = 1e4  # of numbers with an error
ULPS = 8  # more than the error of any function

ARITHMETIC: dict[str, Callable] = {
    "+": lambda a, b: a + b,
    "*": lambda a, b: a * b,
    "-": lambda a, b: a - b,
    "/": lambda a, b: a / b,
    "min": min,
    "max": max,
}
COMPARISONS: dict[str, Callable] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
}
CONDITIONS: dict[str, Callable] = {"&": lambda a, b: a and b, "|": lambda a, b: a or b, "not": lambda a: not a}
STEPS: dict[str, Callable] = {  # their results are exact
    "floor": math.floor,
    "ceil": math.ceil,
    "trunc": math.trunc,
    "round": round,
    "sign": lambda a: (a > 0) - (a < 0),
}
FUNCTIONS: dict[str, Callable] = {
    "exp": math.exp,
    "exp2": math.exp2,
    "expm1": math.expm1,
    "log": math.log,
    "log1p": math.log1p,
    "tanh": math.tanh,
    "logistic": lambda a: 1 / (1 + math.exp(-a)),
    "erf": math.erf,
    "erfc": math.erfc,
    "sqrt": math.sqrt,
    "rsqrt": lambda a: 1 / math.sqrt(a),
    "cbrt": math.cbrt,
    "pow": math.pow,
}


class InexactError(Exception):
    """A number that the dtype of arithmetic does not hold, or one whose error matters too much."""


@dataclass(frozen=True, slots=True)
class Near:
    """A number, or whether a condition holds, with a bound on its error."""

    value: float
    error: float = 0.0


def applied(operation: str, arguments: Sequence[Near], eps: float) -> Near:
    """An operation in arithmetic with a relative error of `eps`."""
    if operation == "select":
        return arguments[1] if arguments[0].value else arguments[2]
    if operation in ARITHMETIC:
        total = arguments[0]
        for argument in arguments[1:]:
            total = _arithmetic(operation, total, argument, eps)
        return total
    values = [argument.value for argument in arguments]
    if operation in CONDITIONS:
        return Near(CONDITIONS[operation](*values))
    if operation in COMPARISONS:
        return _compared(operation, *arguments)
    if operation == "is_finite":
        return Near(True)
    (first, *_) = arguments
    if operation in ("abs", "neg"):
        return Near(abs(first.value) if operation == "abs" else -first.value, first.error)
    if operation in STEPS:
        if not math.isfinite(first.value):
            raise InexactError
        found = {STEPS[operation](first.value + sign * first.error) for sign in (-1, 0, 1)}
        if len(found) > 1:
            raise InexactError
        return Near(found.pop())
    return _function(FUNCTIONS[operation], arguments, eps)


def _compared(operation: str, left: Near, right: Near) -> Near:
    error = left.error + right.error
    if error and abs(left.value - right.value) <= error:
        raise InexactError
    return Near(COMPARISONS[operation](left.value, right.value))


def _arithmetic(operation: str, left: Near, right: Near, eps: float) -> Near:
    found = ARITHMETIC[operation](left.value, right.value)
    if not (left.error or right.error):
        check(found, "float32")
        return Near(found)
    if operation in ("min", "max"):
        return Near(found, max(left.error, right.error))
    error = left.error + right.error
    if operation == "*":
        error = abs(left.value) * right.error + abs(right.value) * left.error + left.error * right.error
    if operation == "/":  # by exact numbers only
        error = left.error / abs(right.value)
    return _bounded(found, error, eps)


def _function(function: Callable, arguments: Sequence[Near], eps: float) -> Near:
    """A monotone function. Its slope at the ends of what an argument may be bounds the error."""
    values = [argument.value for argument in arguments]
    try:
        found, error = function(*values), 0.0
        for n, argument in enumerate(arguments):
            for sign in (-1, 1) if argument.error else ():
                moved = [value + sign * argument.error if k == n else value for k, value in enumerate(values)]
                error += abs(function(*moved) - found)
    except (ValueError, OverflowError, ZeroDivisionError) as bad:
        raise InexactError from bad
    return _bounded(found, error, ULPS * eps)


def _bounded(value: float, error: float, eps: float) -> Near:
    error += eps * abs(value) + 1e-30
    if not (abs(value) < LARGEST and error < 0.01):
        raise InexactError
    return Near(value, error)


def rounded(number: Near, dtype: str) -> Near:
    """The number rounded to a dtype."""
    with np.errstate(over="ignore"):
        kind = np.int64 if dtype.startswith("int") else np.float64
        found = kind(number.value).astype(dtype).item()
    if not np.isfinite(found):
        raise InexactError
    if not number.error:
        return Near(found)
    return _bounded(found, number.error, 2.0 ** -(10 if dtype == "float16" else 23))


def check(value: float, dtype: str) -> None:
    """Raise InexactError for a number that is none of the exact eighths that the dtype holds."""
    if not abs(value) <= EXACT[dtype] // 64 or value * 64 != int(value * 64):
        raise InexactError
