"""The values of scalar expressions, computed by numpy."""

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import numpy as np

from jsparse.compiler.operations import OPERATIONS, meaning_of
from jsparse.compiler.scalar import Apply, Let, Local, Number, Rounded, Scalar
from jsparse.notation import Access

__all__ = ["NUMPY", "as_stored", "evaluate"]

NUMPY: dict[str, Any] = {name: operation.meaning for name, operation in OPERATIONS.items()}


def evaluate(
    value: Scalar, read: Callable[[Access], Any], dtype: np.dtype, names: Mapping[str, Any] | None = None
) -> Any:
    """Evaluate an expression on numpy numbers or arrays. `read` returns the elements of an access in `dtype`, and
    `names` maps local names to their values."""
    values = {} if names is None else names
    match value:
        case Access():
            return read(value)
        case Number(value=number):
            return np.asarray(number).astype(dtype)[()]  # -1 of unsigned integers wraps
        case Local(name=name):
            return values[name]
        case Let(name=name, value=inner, body=body):
            return evaluate(body, read, dtype, {**values, name: evaluate(inner, read, dtype, values)})
        case Rounded(value=inner, dtype=narrow):
            return as_stored(evaluate(inner, read, dtype, values), np.dtype(narrow)).astype(dtype)
        case Apply(operation=operation, arguments=arguments):
            operands = [evaluate(argument, read, dtype, values) for argument in arguments]
            meaning = meaning_of(operation)
            combined = reduce(meaning, operands) if OPERATIONS[operation].is_associative else meaning(*operands)
            return combined if combined.dtype == np.bool_ else combined.astype(dtype)


def as_stored(exact: Any, dtype: np.dtype) -> Any:
    """Convert exact results to a stored dtype: floats round, integers wrap, and a bool is true for a nonzero result."""
    with np.errstate(over="ignore"):
        return exact.astype(dtype)
