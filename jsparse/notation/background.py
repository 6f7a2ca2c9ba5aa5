"""The background of an expression: its value where tensors store nothing.

A background is absent, a known number, or unknown. An *absent* value contributes nothing. A product is absent if one
factor is absent, whatever the other factors are (NaN included). A sum is absent if all terms are absent. A quotient, a
bit shift or copysign is absent if its first argument is absent. A function takes 0 for an absent argument, and is
absent if its value is then 0. These rules are the annihilators of a merge lattice (Kjolstad et al., The Tensor Algebra
Compiler, 2017), with Finch's fill values for functions.

Statements, `sparsify`, operators on tensors and fused kernels all use this module. They have different names for the
same operation, which `KINDS` maps to one kind, and different ways to compute a function of numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from math import prod
from typing import TypeAlias

from jsparse.errors import PatternError, shorten

__all__ = ["ABSENT", "UNKNOWN", "Background", "State", "background", "dense_background", "is_zero"]


class State(Enum):
    """A background (the value of an expression where nothing is stored) that is not a number."""

    __hash__ = object.__hash__  # Enum hashes names, in Python

    ABSENT = "absent"
    UNKNOWN = "unknown"


Background: TypeAlias = complex | State
"""A known number, or a `State`: absent or unknown."""

ABSENT, UNKNOWN = State.ABSENT, State.UNKNOWN

KINDS = {
    "product": "product", "*": "product", "mul": "product", "and": "product", "&": "product", "bitwise_and": "product",
    "logical_and": "product",
    "total": "total",
    "quotient": "quotient", "/": "quotient", "div": "quotient", "copysign": "quotient", "left_shift": "quotient",
    "right_shift": "quotient", "shift_left": "quotient", "shift_right_arithmetic": "quotient",
    "shift_right_logical": "quotient",
    "where": "where", "select": "where",
    "or": "or", "|": "or",
}  # fmt: skip


def is_zero(value: Background) -> bool:
    """Whether a background, the value of an expression where nothing is stored, is known to be 0."""
    return value is ABSENT or (value is not UNKNOWN and value == 0)


def background(
    operation: str, arguments: Sequence[Background], of_numbers: Callable[[Sequence[complex]], complex]
) -> Background:
    """The background of an operation: its value where nothing is stored, given the backgrounds of its arguments.

    Args:
        operation: a function, or a name of `KINDS`.
        of_numbers: the operation on numbers. It is given 0 for an absent argument.
    """
    kind = KINDS.get(operation)
    if kind == "where":
        condition, *cases = arguments
        if condition is not UNKNOWN:
            case = cases[1] if is_zero(condition) else cases[0]
        elif all(map(is_zero, cases)):
            case = ABSENT
        else:
            case = cases[0] if cases[0] == cases[1] else UNKNOWN
        return ABSENT if is_zero(case) else case
    if kind == "product" and ABSENT in arguments:
        return ABSENT
    if kind == "quotient" and arguments[0] is ABSENT:
        return ABSENT
    if kind == "total":
        arguments = [x for x in arguments if x is not ABSENT]
        if not arguments:
            return ABSENT
    if kind == "or" and any(x is True for x in arguments):
        return True
    numbers = [0 if x is ABSENT else x for x in arguments]
    known = [x for x in numbers if not isinstance(x, State)]
    if len(known) < len(numbers):
        return UNKNOWN
    value = prod(known) if kind == "product" else sum(known) if kind == "total" else of_numbers(known)
    return ABSENT if kind is None and not value else value


def dense_background(
    what: str, value: Background | None, advice: str = "", shape: Sequence[int] | None = None
) -> PatternError:
    """Return the error for a sparse result that may differ from 0 where nothing is stored.

    Args:
        what: the operation that gives the result.
        value: the result's background, if it is known.
        advice: a sentence on the cause, or on what else to do.
        shape: the shape of the array that the result would be.
    """
    number = value.real if isinstance(value, complex) and not value.imag else value
    known = number is not None and not isinstance(number, State)
    array = "dense" if shape is None else f"a dense array of shape {shorten(shape)}"
    return PatternError(
        f"Expected a result of {what} that is 0 where nothing is stored, but it "
        f"{f'is {number:.4g}' if known else 'may differ from 0'} there, so it would be {array}, and all operands have "
        f"fewer elements. {advice}For stored entries only, write A.map(f), or a statement with out_format=A. For all "
        "elements, pass A.todense()."
    )
