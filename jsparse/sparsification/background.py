"""What an elementwise function makes of the elements that tensors do not store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.sparsification.deferred import known_number
from jsparse.sparsification.equation import Equation
from jsparse.sparsification.sparse_value import Background, SparseValue

__all__ = ["background_of", "evaluated"]


def background_of(equation: Equation, operands: Sequence[Any]) -> Background:
    """The background of the result of an elementwise equation."""
    value = _value(equation, [_number(x) for x in operands])
    if value is not None and value == 0:
        return Background(value)
    causes = [x.background.cause for x in operands if isinstance(x, SparseValue) and not x.background.is_zero]
    return Background(value, causes[0] if causes else str(equation))


def evaluated(equation: Equation, numbers: Sequence[Any]) -> Any:
    """The number that an elementwise equation gives for known numbers."""
    with jax.ensure_compile_time_eval():
        avals = equation.in_avals
        found = apply(equation)(*(jnp.asarray(x, aval.dtype) for x, aval in zip(numbers, avals, strict=True)))
        return np.asarray(found)[()]


def apply(equation: Equation) -> Any:
    """The function of arrays that an elementwise equation applies."""
    return jax.lax.add if equation.name == "add_any" else equation.bind


def _number(x: Any) -> Any:
    return x.background.value if isinstance(x, SparseValue) else known_number(x)


def _value(equation: Equation, numbers: Sequence[Any]) -> Any:
    """The number everywhere in the background; None if it is not known. As in einsum, 0 times anything is 0."""
    if all(x is not None for x in numbers):
        return evaluated(equation, numbers).item()
    zero = np.zeros((), equation.dtype).item()
    if equation.name in ("mul", "and") and any(x is not None and x == 0 for x in numbers):
        return zero
    if equation.name == "div" and numbers[0] is not None and numbers[0] == 0:
        return zero
    if equation.name == "or" and equation.dtype == bool and any(numbers):
        return True
    if equation.name == "select_n":
        which, *cases = numbers
        if which is not None:
            return cases[int(which)]
        if all(x is not None and x == cases[0] for x in cases):
            return cases[0]
    return None
