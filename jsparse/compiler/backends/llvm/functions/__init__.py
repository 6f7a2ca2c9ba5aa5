"""Implementations of KernelIR's functions in LLVM, for vectors of any length, without branches and without calls.

Each family has a file. Error bounds are in ulp of the result, over all arguments; the measured errors are in
`docs/internals/functions.md`. The range reductions are taken from Cephes and SLEEF (Shibata and Petrogalli, 2020). The
coefficients are our own (`tools/minimax.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from jsparse.compiler.backends.llvm.functions.error_function import erf, erfc
from jsparse.compiler.backends.llvm.functions.exact import (
    absolute,
    ceil,
    floor,
    is_finite,
    negation,
    negative,
    round_to_even,
    sign,
    trunc,
)
from jsparse.compiler.backends.llvm.functions.exponentials import exp, exp2, expm1, log, log1p, logistic, tanh
from jsparse.compiler.backends.llvm.functions.powers import cbrt, power, rsqrt, sqrt
from jsparse.compiler.backends.llvm.functions.trigonometric import cos, sin, tan
from jsparse.compiler.backends.llvm.functions.vector import Vector
from jsparse.compiler.dtypes import Type

__all__ = ["FUNCTIONS", "emit_function"]

FUNCTIONS: dict[str, Callable[..., Vector]] = {
    "neg": negative,
    "abs": absolute,
    "sign": sign,
    "not": negation,
    "is_finite": is_finite,
    "exp": exp,
    "exp2": exp2,
    "expm1": expm1,
    "log": log,
    "log1p": log1p,
    "tanh": tanh,
    "logistic": logistic,
    "erf": erf,
    "erfc": erfc,
    "sqrt": sqrt,
    "rsqrt": rsqrt,
    "cbrt": cbrt,
    "sin": sin,
    "cos": cos,
    "tan": tan,
    "floor": floor,
    "ceil": ceil,
    "trunc": trunc,
    "round": round_to_even,
    "pow": power,
}
"""The emitters of all functions in `compiler.operations`, by name."""


def emit_function(builder: ir.IRBuilder, name: str, arguments: Sequence[tuple[Any, Type]]) -> Any:
    """Emit a function at the builder's position and return its LLVM value; arguments are values with their types."""
    return FUNCTIONS[name](*(Vector(builder, value, type_) for value, type_ in arguments)).value
