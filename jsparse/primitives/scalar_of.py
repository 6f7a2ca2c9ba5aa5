"""Translation of elementwise JAX functions, given as jaxprs of scalars, to the scalar expressions of kernels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jsparse import _compat
from jsparse.base.dataclass import dataclass
from jsparse.compiler.dtypes import accumulator
from jsparse.compiler.operations import OPERATIONS
from jsparse.compiler.scalar import Apply, Let, Local, Number, Rounded, Scalar, parts_of, rewrite
from jsparse.primitives.scalar_rules import (
    EXACT,
    RULES,
    NoCounterpartError,
    exp_of_negative_square,
    is_exp_of_negative_square,
)

MOST = 500  # equations: lowering is recursive
_CALLED = ("jaxpr", "call_jaxpr", "fun_jaxpr")


@dataclass(frozen=True, slots=True)
class NoScalar:
    """The reason why a function is not a scalar expression, as text: "it uses 'sin', …"."""

    reason: str


def scalar_of(closed: Any, arguments: Sequence[Scalar], prefix: str = "t") -> Scalar | NoScalar:
    """Translate a closed jaxpr of scalars to a scalar expression, or return the reason why there is none.

    A value that the jaxpr uses several times has a local name, which begins with `prefix`, and is computed once.
    Arithmetic is in the dtype that `compiler.dtypes.accumulator` gives for the arguments and the result. Results in
    narrower floats are rounded as in JAX. A result that is a bool becomes the number 1 or 0.

    Args:
        arguments: for each argument of the jaxpr, a scalar with a value in the dtype of arithmetic. For a bool, the
            scalar is a number: 0 is false, and any other number is true.

    Example: `jax.make_jaxpr(jax.nn.sigmoid)(1.0)` with `A[i]` is `logistic(A[i])`.
    """
    try:
        return _EquationReader(closed, prefix).expression(closed, arguments)
    except NoCounterpartError as error:
        return NoScalar(str(error))


class _EquationReader:
    """A reader that translates the equations of a jaxpr one after the other.

    Attributes:
        bound: the values that have local names, in order.
    """

    def __init__(self, closed: Any, prefix: str) -> None:
        self.prefix, self.count = prefix, 0
        self.bound: dict[str, Scalar] = {}
        self.names: dict[Scalar, str] = {}  # equal values have one name
        avals = [aval for aval in (*closed.in_avals, *closed.out_avals) if aval.dtype != bool]
        for aval in avals:
            if not _is_float(aval.dtype):
                raise NoCounterpartError(f"it has arguments or results of {aval.dtype.name}, not of floats")
        self.dtype = accumulator(*(aval.dtype.name for aval in avals)) if avals else "float32"

    def expression(self, closed: Any, arguments: Sequence[Scalar]) -> Scalar:
        scalars = [
            Apply("!=", (x, Number(0.0))) if aval.dtype == bool else x
            for x, aval in zip(arguments, closed.in_avals, strict=True)
        ]
        (result,) = self.read(closed, [self.name_value(x) for x in scalars])
        if closed.out_avals[0].dtype == bool:
            result = Apply("select", (result, Number(1.0), Number(0.0)))
        return _with_lets(self.bound, result)

    def fresh(self) -> str:
        self.count += 1
        return f"{self.prefix}{self.count}_"

    def name_value(self, value: Scalar) -> Scalar:
        """Return a local name for a value. A value that is a local name or a number is returned unchanged."""
        if isinstance(value, Local | Number):
            return value
        if value not in self.names:
            if len(self.bound) >= MOST:
                raise NoCounterpartError(f"it has more than {MOST} equations")
            name = self.names[value] = f"{self.prefix}{len(self.bound)}"
            self.bound[name] = value
        return Local(self.names[value])

    def read(self, closed: Any, arguments: Sequence[Scalar]) -> list[Scalar]:
        """Return the scalars of the results of a jaxpr on these arguments."""
        jaxpr = closed.jaxpr
        known = dict(zip(jaxpr.invars, arguments, strict=True))
        known |= {v: self.constant(np.asarray(x)) for v, x in zip(jaxpr.constvars, closed.consts, strict=True)}
        for equation in jaxpr.eqns:
            operands = [self.operand(v, known) for v in equation.invars]
            known |= zip(equation.outvars, self.results(equation, operands), strict=True)
        return [self.operand(v, known) for v in jaxpr.outvars]

    def operand(self, v: Any, known: Mapping[Any, Scalar]) -> Scalar:
        return self.constant(np.asarray(_compat.literal(v))) if hasattr(v, "val") else known[v]

    def constant(self, value: np.ndarray) -> Scalar:
        if value.shape or value.dtype.kind == "c":
            raise NoCounterpartError(f"it refers to a constant of shape {value.shape} and dtype {value.dtype.name}")
        if value.dtype == bool:
            return self.name_value(Apply("==", (Number(1.0), Number(float(value)))))
        return Number(float(value) if _is_float(value.dtype) else int(value))

    def results(self, equation: Any, operands: list[Scalar]) -> list[Scalar]:
        """The scalars of an equation's results."""
        kind = equation.primitive.name
        if kind in (*_compat.CALLS, *_compat.CALLS_WITH_RULES):
            called = _compat.close_jaxpr(next(equation.params[name] for name in _CALLED if name in equation.params))
            if is_exp_of_negative_square(equation, called):
                return [self.name_value(exp_of_negative_square(self, operands[0]))]
            return self.read(called, operands)
        source, target = equation.invars[0].aval.dtype, equation.outvars[0].aval.dtype
        if kind == "convert_element_type" and isinstance(operands[0], Number) and _is_float(target):
            return [Number(float(np.asarray(operands[0].value, target)))]
        self.check(equation)
        if kind == "optimization_barrier":
            return operands
        value = RULES[kind](self, equation, operands)
        is_same = kind == "convert_element_type" and (source.kind == "b" or source.name == target.name)
        if _is_float(target) and target.name != self.dtype and kind not in EXACT and not is_same:
            value = Rounded(value, target.name)
        return [self.name_value(value)]

    def check(self, equation: Any) -> None:
        """Raise NoCounterpartError if no scalar operation computes the equation in the dtype of arithmetic."""
        kind = equation.primitive.name
        if kind not in RULES:
            raise NoCounterpartError(f"it uses '{kind}', which kernels do not compute")
        if kind in OPERATIONS and OPERATIONS[kind].is_narrow and self.dtype != "float32":
            raise NoCounterpartError(f"it uses '{kind}' in {self.dtype}, which kernels compute only in float32")
        avals = [v.aval for v in (*equation.invars, *equation.outvars)]
        for aval in avals:
            if aval.shape:
                raise NoCounterpartError(f"its '{kind}' is on arrays of shape {aval.shape}")
            if _is_float(aval.dtype) and accumulator(self.dtype, aval.dtype.name) != self.dtype:
                raise NoCounterpartError(f"its '{kind}' is in {aval.dtype.name}, but arithmetic is in {self.dtype}")
        dtypes = [v.aval.dtype for v in equation.invars]
        integers = [dtype.name for dtype in dtypes if not _is_float(dtype) and dtype.kind != "b"]
        if integers and kind not in ("convert_element_type", "pow", *_PASSING):
            raise NoCounterpartError(f"its '{kind}' is on {integers[0]}, not on floats")
        if kind in _ON_NUMBERS and any(dtype.kind == "b" for dtype in dtypes):
            raise NoCounterpartError(f"its '{kind}' is on bool, not on floats")


_PASSING = ("broadcast_in_dim", "reshape", "squeeze", "copy", "copy_p", "stop_gradient", "optimization_barrier")
_ON_NUMBERS = ("max", "min", "eq", "ne", "lt", "le", "gt", "ge", "sign", "abs", "clamp")


def _is_float(dtype: Any) -> bool:
    return dtype.name in ("float16", "bfloat16", "float32", "float64")


def _with_lets(bound: dict[str, Scalar], result: Scalar) -> Scalar:
    """The result, with a `Let` for each name that is used several times; other names are replaced by their values."""
    uses = _locals(result)
    for name in reversed(bound):
        if uses[name]:
            uses += _locals(bound[name])
    values: dict[str, Scalar] = {}
    lets: list[tuple[str, Scalar]] = []
    for name, value in bound.items():
        inlined = _substitute(value, values)
        if uses[name] == 1 or isinstance(inlined, Local | Number):
            values[name] = inlined
        elif uses[name]:
            lets.append((name, inlined))
    expression = _substitute(result, values)
    for name, value in reversed(lets):
        expression = Let(name, value, expression)
    return expression


def _locals(value: Scalar) -> Counter[str]:
    """Count the uses of each local name. Names are bound once, so no name hides another."""
    return Counter([value.name]) if isinstance(value, Local) else sum(map(_locals, parts_of(value)), Counter[str]())


def _substitute(value: Scalar, values: Mapping[str, Scalar]) -> Scalar:
    """Replace local names in an expression by the values of `values`."""
    return rewrite(value, lambda x: values.get(x.name) if isinstance(x, Local) else None)
