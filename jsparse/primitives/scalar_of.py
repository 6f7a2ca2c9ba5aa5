"""Scalar expressions of elementwise functions: from jaxprs of scalars to the language of kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from jsparse import _compat
from jsparse.compiler.operations import OPERATIONS
from jsparse.compiler.scalar import Apply, Let, Local, Number, Rounded, Scalar

__all__ = ["scalar_of"]

SAME = {
    "add": "+", "add_any": "+", "sub": "-", "mul": "*", "div": "/", "max": "max", "min": "min", "neg": "neg",
    "exp": "exp", "exp2": "exp2", "log": "log", "log1p": "log1p", "expm1": "expm1", "tanh": "tanh",
    "logistic": "logistic", "erf": "erf", "sqrt": "sqrt", "rsqrt": "rsqrt", "cbrt": "cbrt", "abs": "abs",
    "sign": "sign", "floor": "floor", "ceil": "ceil", "is_finite": "is_finite", "eq": "==", "ne": "!=", "lt": "<",
    "le": "<=", "pow": "pow", "and": "&", "or": "|", "not": "not",
}  # fmt: skip
SWAPPED = {"gt": "<", "ge": "<="}
PASSED = {"copy", "copy_p", "stop_gradient", "broadcast_in_dim", "reshape", "squeeze", "name", "optimization_barrier"}


class _UnknownError(Exception):
    """An operation that kernels do not have."""


def scalar_of(closed: Any, arguments: Sequence[Scalar]) -> Scalar | str:
    """The expression of a function's result, or the reason why there is none.

    Args:
        closed: a closed jaxpr of scalars, with one result.
        arguments: the expression of each argument; of a bool one, a condition.
    """
    try:
        return _Translation().run(closed, arguments)[0]
    except _UnknownError as error:
        return str(error)


class _Translation:
    def __init__(self) -> None:
        self.count = 0

    def run(self, closed: Any, arguments: Sequence[Scalar]) -> list[Scalar]:
        """The expressions of a jaxpr's results. What is used several times is computed once."""
        jaxpr = closed.jaxpr
        env: dict[Any, Scalar] = dict(zip(jaxpr.invars, arguments, strict=True))
        env |= {v: Number(float(x)) for v, x in zip(jaxpr.constvars, closed.consts, strict=True)}
        uses = [v for e in jaxpr.eqns for v in e.invars if not isinstance(v, _compat.Literal)] + list(jaxpr.outvars)
        bound: list[tuple[str, Scalar]] = []

        def of(v: Any) -> Scalar:
            return Number(_compat.literal(v).item()) if isinstance(v, _compat.Literal) else env[v]

        for equation in jaxpr.eqns:
            found = self.equation(equation, [of(v) for v in equation.invars])
            for v, value in zip(equation.outvars, found, strict=True):
                if uses.count(v) > 1 and isinstance(value, Apply) and v.aval.dtype != np.bool_:
                    self.count += 1
                    bound.append((f"x{self.count}", value))
                    value = Local(bound[-1][0])
                env[v] = value
        results = [of(v) for v in jaxpr.outvars]
        if bound and len(results) > 1:
            raise _UnknownError("a function with several results")
        for name, value in reversed(bound):
            results = [Let(name, value, results[0])]
        return results

    def equation(self, equation: Any, operands: list[Scalar]) -> list[Scalar]:
        name, params = equation.primitive.name, equation.params
        inner = list(_compat.jaxprs_in(params))
        if inner:
            return self.call(name, inner, operands)
        if name in PASSED:
            return operands[:1]
        if name in SAME or name in SWAPPED:
            operation = SAME.get(name) or SWAPPED[name]
            _check_takes(operation, equation)
            return [Apply(operation, tuple(operands if name in SAME else reversed(operands)))]
        rule = RULES.get(name)
        if rule is None:
            raise _UnknownError(f"'{name}' is no operation of kernels")
        return [rule(equation, operands)]

    def call(self, name: str, inner: list[Any], operands: list[Scalar]) -> list[Scalar]:
        if name in ("while", "cond", "scan"):
            raise _UnknownError(f"'{name}' is control flow")
        return self.run(_compat.closed(inner[0]), operands)


def _check_takes(operation: str, equation: Any) -> None:
    """Raise _UnknownError unless the operation of kernels takes numbers of these dtypes."""
    dtype, takes = equation.invars[0].aval.dtype, OPERATIONS[operation].takes
    is_condition = dtype == np.bool_
    only_conditions = takes in ("conditions", "alike")  # `and`, `or` and `not` of integers work on bits
    if is_condition != only_conditions or (takes == "floats" and not jnp.issubdtype(dtype, jnp.floating)):
        raise _UnknownError(f"'{equation.primitive.name}' of {dtype}")


def _select(equation: Any, operands: list[Scalar]) -> Scalar:
    if len(operands) != 3 or equation.invars[0].aval.dtype != np.bool_:
        raise _UnknownError("'select_n' of several cases")
    which, no, yes = operands
    return Apply("select", (which, yes, no))


def _converted(equation: Any, operands: list[Scalar]) -> Scalar:
    (x,), source, target = operands, equation.invars[0].aval.dtype, equation.outvars[0].aval.dtype
    if source == target:
        return x
    if source == np.bool_:
        return Apply("select", (x, Number(1), Number(0)))
    if target == np.bool_:
        return Apply("!=", (x, Number(0)))
    if jnp.issubdtype(source, jnp.floating) != jnp.issubdtype(target, jnp.floating):
        raise _UnknownError(f"a conversion from {source} to {target}")
    return Rounded(x, target.name) if target.itemsize < source.itemsize else x


def _integer_pow(equation: Any, operands: list[Scalar]) -> Scalar:
    (x,), y = operands, equation.params["y"]
    power: Scalar = Number(1)
    if abs(y) > 8:
        return Apply("pow", (x, Number(y)))
    if y:
        power = Local("x") if abs(y) == 1 else Apply("*", (Local("x"),) * abs(y))
        power = Apply("/", (Number(1), power)) if y < 0 else power
    return Let("x", x, power)


def _square(equation: Any, operands: list[Scalar]) -> Scalar:
    return Let("x", operands[0], Apply("*", (Local("x"), Local("x"))))


def _round(equation: Any, operands: list[Scalar]) -> Scalar:
    if equation.params["rounding_method"] != lax.RoundingMethod.TO_NEAREST_EVEN:
        raise _UnknownError("'round' away from zero")
    _check_takes("round", equation)
    return Apply("round", tuple(operands))


def _clamp(equation: Any, operands: list[Scalar]) -> Scalar:
    least, x, most = operands
    return Apply("min", (Apply("max", (x, least)), most))


RULES: dict[str, Callable[[Any, list[Scalar]], Scalar]] = {
    "select_n": _select,
    "convert_element_type": _converted,
    "integer_pow": _integer_pow,
    "square": _square,
    "clamp": _clamp,
    "round": _round,
}
