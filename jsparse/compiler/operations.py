"""The operations of scalar expressions: the one table of their names, arguments and meanings.

Infix operations are arithmetic, comparisons, `&` and `|`. All other operations are printed as calls. Except for
min, max and select, they are *functions*: KernelIR has one node for all functions (`kernel.nodes.Call`), and code
generators emit separate code for each function.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from jsparse.base.dataclass import dataclass

Takes = Literal["numbers", "floats", "conditions", "alike"]


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation.

    Attributes:
        name: the name in expressions, recipes and KernelIR.
        arity: the number of arguments; for an associative operation, the least number.
        meaning: the operation on numpy numbers and arrays of one dtype.
        takes: the kind of the arguments: numbers, floats only, conditions, or "alike" for numbers and conditions.
        gives_condition: whether the result is a condition, whatever the arguments are.
        is_infix: whether the operation is printed between its arguments.
        is_associative: whether the operation may take more than two arguments.
        is_function: whether the operation is a `Call` in KernelIR, because KernelIR has no special node for it.
        is_narrow: whether arithmetic has to be in float32.
    """

    name: str
    arity: int
    meaning: Callable[..., Any]
    takes: Takes = "numbers"
    gives_condition: bool = False
    is_infix: bool = False
    is_associative: bool = False
    is_function: bool = False
    is_narrow: bool = False


def meaning_of(name: str) -> Callable[..., Any]:
    """Return the function that computes the named operation on numpy numbers and arrays."""
    return OPERATIONS[name].meaning


def _in_float64(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function so that it computes in float64 and rounds its result to the dtype of its arguments."""

    def compute_in_float64(*arguments: Any) -> Any:
        wide = [np.asarray(x).astype(np.float64, copy=False) for x in arguments]
        with np.errstate(all="ignore"):
            return np.asarray(function(*wide)).astype(np.asarray(arguments[0]).dtype)[()]

    return compute_in_float64


def _logistic(x: Any) -> Any:
    small = np.exp(-np.abs(x))
    return np.where(x < 0, small, 1) / (1 + small)


def _sign(x: Any) -> Any:
    return np.where(x == 0, x, np.sign(x)).astype(np.asarray(x).dtype)[()]


_FLOATS: dict[str, Callable[..., Any]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "tanh": np.tanh,
    "logistic": _logistic,
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
    "erfc": np.vectorize(math.erfc, otypes=[np.float64]),
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "cbrt": np.cbrt,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": np.rint,
}

_ASSOCIATIVE: tuple[tuple[str, Callable[..., Any], Takes], ...] = (
    ("+", np.add, "numbers"),
    ("*", np.multiply, "numbers"),
    ("min", np.minimum, "numbers"),
    ("max", np.maximum, "numbers"),
    ("&", np.bitwise_and, "alike"),
    ("|", np.bitwise_or, "alike"),
)

_TABLE = (
    *(
        Operation(name, 2, meaning, takes, is_infix=name not in ("min", "max"), is_associative=True)
        for name, meaning, takes in _ASSOCIATIVE
    ),
    Operation("-", 2, np.subtract, is_infix=True),
    Operation("/", 2, np.true_divide, "floats", is_infix=True),
    Operation("==", 2, np.equal, gives_condition=True, is_infix=True),
    Operation("!=", 2, np.not_equal, gives_condition=True, is_infix=True),
    Operation("<", 2, np.less, gives_condition=True, is_infix=True),
    Operation("<=", 2, np.less_equal, gives_condition=True, is_infix=True),
    Operation("select", 3, np.where, "alike"),
    Operation("neg", 1, np.negative, is_function=True),
    Operation("abs", 1, np.abs, is_function=True),
    Operation("sign", 1, _sign, is_function=True),
    Operation("not", 1, np.logical_not, "conditions", gives_condition=True, is_function=True),
    Operation("is_finite", 1, np.isfinite, "floats", gives_condition=True, is_function=True),
    *(
        Operation(name, 1, _in_float64(meaning), "floats", is_function=True, is_narrow=name in ("sin", "cos", "tan"))
        for name, meaning in _FLOATS.items()
    ),
    Operation("pow", 2, _in_float64(np.power), "floats", is_function=True),
)

OPERATIONS: dict[str, Operation] = {operation.name: operation for operation in _TABLE}
"""All operations by name."""
