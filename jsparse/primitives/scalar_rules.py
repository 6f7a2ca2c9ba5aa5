"""Rules that translate JAX primitives on scalars to operations of scalar expressions.

A rule takes the builder, an equation of a jaxpr, and the scalars of its operands. It returns the scalar of the result.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import numpy as np

from jsparse.compiler.scalar import Apply, Number, Rounded, Scalar, power_of


class NoCounterpartError(Exception):
    """Raised if a function is not a scalar expression. The message says why."""


class Builder(Protocol):
    """The interface that rules use to make local names."""

    def name_value(self, value: Scalar) -> Scalar:
        """A local name for a value."""

    def fresh(self) -> str:
        """A new local name."""


Rule: TypeAlias = Callable[[Builder, Any, list[Scalar]], Scalar]

_SAME = (
    "exp exp2 expm1 log log1p sin cos tan tanh logistic erf erfc sqrt rsqrt cbrt floor ceil abs sign neg is_finite max "
    "min pow add sub mul div lt le eq ne and or not"
)
_NAMES = ["add", "add_any", "sub", "mul", "div", "lt", "le", "eq", "ne", "and", "or"]
_SIGNS = ["+", "+", "-", "*", "/", "<", "<=", "==", "!=", "&", "|"]
_OTHER_NAMES = dict(zip(_NAMES, _SIGNS, strict=True))
_MOVES = "broadcast_in_dim reshape squeeze copy copy_p stop_gradient optimization_barrier name pvary pcast"
EXACT = frozenset(f"abs neg sign floor ceil round max min clamp select_n {_MOVES}".split())
"""Primitives whose results need no rounding, if their operands are rounded."""

_NARROW = {(8, 23): "float32", (8, 7): "bfloat16", (5, 10): "float16"}  # by bits of exponent and mantissa


def _apply_operation(operation: str) -> Rule:
    return lambda builder, equation, operands: Apply(operation, tuple(operands))


def _forward_operand(builder: Builder, equation: Any, operands: list[Scalar]) -> Scalar:
    return operands[0]


def _swap_operands(operation: str) -> Rule:
    return lambda builder, equation, operands: Apply(operation, (operands[1], operands[0]))


def _exclusive_or(builder: Builder, equation: Any, operands: list[Scalar]) -> Scalar:
    left, right = (builder.name_value(x) for x in operands)
    only_left, only_right = Apply("&", (left, Apply("not", (right,)))), Apply("&", (Apply("not", (left,)), right))
    return Apply("|", (only_left, only_right))


def _square(builder: Builder, equation: Any, operands: list[Scalar]) -> Scalar:
    x = builder.name_value(operands[0])
    return Apply("*", (x, x))


def _binary_logarithm(builder: Builder, equation: Any, operands: list[Scalar]) -> Scalar:
    return Apply("/", (Apply("log", (operands[0],)), Number(float(np.log(2)))))


def _one_minus_square(builder: Builder, equation: Any, operands: list[Scalar]) -> Scalar:
    """Compute 1 - x² as a product of two factors, which is accurate near ±1."""
    x = builder.name_value(operands[0])
    return Apply("*", (Apply("-", (Number(1.0), x)), Apply("+", (Number(1.0), x))))


def _integer_pow(builder: Builder, equation: Any, operands: list[Scalar]) -> Scalar:
    return power_of(builder.name_value(operands[0]), int(equation.params["y"]), builder.fresh())


def _power(builder: Builder, equation: Any, operands: list[Scalar]) -> Scalar:
    """Compute x ** y. If y has an integer dtype, y has to be a constant."""
    base, exponent = operands
    if np.issubdtype(equation.invars[0].aval.dtype, np.integer):
        raise NoCounterpartError("its 'pow' is on integers, not on floats")
    if not np.issubdtype(equation.invars[1].aval.dtype, np.integer):
        return Apply("pow", (base, exponent))
    if not isinstance(exponent, Number):
        raise NoCounterpartError("its 'pow' has an integer exponent that is not a constant")
    return power_of(builder.name_value(base), int(exponent.value), builder.fresh())


def _translate_select(builder: Builder, equation: Any, operands: list[Scalar]) -> Scalar:
    if len(operands) != 3 or equation.invars[0].aval.dtype != bool:
        raise NoCounterpartError("its 'select_n' selects by a number, not by a condition")
    return Apply("select", (operands[0], operands[2], operands[1]))


def _translate_clamp(builder: Builder, equation: Any, operands: list[Scalar]) -> Scalar:
    low, x, high = operands
    return Apply("min", (Apply("max", (low, x)), high))


def _translate_round(builder: Builder, equation: Any, operands: list[Scalar]) -> Scalar:
    """Round to the nearest integer. `rounding_method` says whether ½ is rounded to even, or away from zero."""
    if int(equation.params["rounding_method"]) == 1:
        return Apply("round", (operands[0],))
    x = builder.name_value(operands[0])
    whole = builder.name_value(Apply("trunc", (x,)))
    is_half = Apply("<=", (Number(0.5), Apply("abs", (Apply("-", (x, whole)),))))
    return Apply("select", (is_half, Apply("+", (whole, Apply("sign", (x,)))), whole))


def _translate_reduce_precision(builder: Builder, equation: Any, operands: list[Scalar]) -> Scalar:
    bits = equation.params["exponent_bits"], equation.params["mantissa_bits"]
    if bits not in _NARROW:
        raise NoCounterpartError(
            f"its 'reduce_precision' rounds to {bits[0]} bits of exponent and {bits[1]} of mantissa"
        )
    return Rounded(operands[0], _NARROW[bits])


def _translate_convert(builder: Builder, equation: Any, operands: list[Scalar]) -> Scalar:
    """Convert a scalar x. Bools become 0 or 1. A conversion to bool is x != 0. Floats become integers by truncation."""
    source, target = equation.invars[0].aval.dtype, equation.outvars[0].aval.dtype
    (x,) = operands
    if target.kind == "b":
        return x if source.kind == "b" else Apply("!=", (x, Number(0.0)))
    if source.kind == "b":
        return Apply("select", (x, Number(1.0), Number(0.0)))
    if not np.issubdtype(target, np.integer):
        return Number(float(x.value)) if isinstance(x, Number) else x
    range_ = np.iinfo(target)
    if isinstance(x, Number) and range_.min <= x.value <= range_.max:
        return Number(int(x.value))
    return _truncate(builder, source, target, x)


def _truncate(builder: Builder, source: Any, target: Any, x: Scalar) -> Scalar:
    """Remove the fraction of a float, and clamp the float to the range of an integer dtype. NaN becomes 0."""
    if np.issubdtype(source, np.integer):
        raise NoCounterpartError(f"it converts {source.name} to {target.name}")
    name, range_ = builder.name_value(x), np.iinfo(target)
    bound = Apply("min", (Apply("max", (name, Number(float(range_.min)))), Number(float(range_.max))))
    return Apply("select", (Apply("==", (name, name)), Apply("trunc", (bound,)), Number(0.0)))


RULES: dict[str, Rule] = {
    **{name: _apply_operation(_OTHER_NAMES.get(name, name)) for name in [*_SAME.split(), "add_any"]},
    **dict.fromkeys(_MOVES.split(), _forward_operand),
    "gt": _swap_operands("<"),
    "ge": _swap_operands("<="),
    "xor": _exclusive_or,
    "square": _square,
    "log2": _binary_logarithm,  # from JAX 0.12 on, and the next one
    "one_minus_square": _one_minus_square,
    "integer_pow": _integer_pow,
    "pow": _power,
    "select_n": _translate_select,
    "clamp": _translate_clamp,
    "round": _translate_round,
    "reduce_precision": _translate_reduce_precision,
    "convert_element_type": _translate_convert,
}
"""The rule of each primitive that has one."""


def is_exp_of_negative_square(equation: Any, called: Any) -> bool:
    """Whether a call is JAX's exp(-x²), which splits x by its bits (from JAX 0.12 on, in derivatives of erf)."""
    info = getattr(called.jaxpr, "debug_info", None)
    source = str(getattr(info, "func_src_info", ""))
    if equation.primitive.name != "custom_jvp_call" or not re.match(r"exp_neg_sq at .*[/\\]jax[/\\]_src[/\\]", source):
        return False
    return {"bitcast_convert_type", "polynomial", "exp"} <= {inner.primitive.name for inner in called.jaxpr.eqns}


def exp_of_negative_square(builder: Builder, x: Scalar) -> Scalar:
    """Return the expression exp(-x²)."""
    x = builder.name_value(x)
    return Apply("exp", (Apply("neg", (Apply("*", (x, x)),)),))
