"""Signs, and tests of floats and conditions. All are exact."""

from __future__ import annotations

import math

from jsparse.compiler.backends.llvm.functions.vector import Vector, select

__all__ = ["absolute", "is_finite", "negation", "negative", "sign"]


def negative(x: Vector) -> Vector:
    """-x"""
    return -x


def absolute(x: Vector) -> Vector:
    """|x|"""
    return x.magnitude() if x.type.is_float else select(x < 0, -x, x)


def sign(x: Vector) -> Vector:
    """-1 or 1; numbers equal to 0, and NaN, stay what they are."""
    return select(x > 0, 1, select(x < 0, x.constant(-1), x))


def negation(x: Vector) -> Vector:
    """Whether a condition does not hold."""
    return x.like(x.builder.not_(x.value))


def is_finite(x: Vector) -> Vector:
    """Whether a float is neither infinite nor NaN."""
    return x.magnitude() < math.inf
