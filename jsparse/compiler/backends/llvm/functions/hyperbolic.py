"""tanh and the logistic function, by exponentials of arguments that cannot overflow."""

from __future__ import annotations

from jsparse.compiler.backends.llvm.functions.exponentials import exp, expm1_between
from jsparse.compiler.backends.llvm.functions.vector import Vector, select

__all__ = ["logistic", "tanh"]

_ONE = {"float32": 10.0, "float64": 20.0}  # tanh is 1 from here up


def tanh(x: Vector) -> Vector:
    """The hyperbolic tangent, within 2.6 ulp: e / (e + 2) with e = exp(2 |x|) - 1."""
    size = x.magnitude().at_most(_ONE[x.type.dtype])
    e = expm1_between(size + size)
    return (e / (e + 2)).with_sign_of(x)


def logistic(x: Vector) -> Vector:
    """1 / (1 + exp(-x)), within 2.5 ulp: 1 / (1 + e) or e / (1 + e) with e = exp(-|x|), which is small and not 0."""
    e = exp(-x.magnitude())
    return select(x < 0.0, e, 1.0) / (1 + e)
