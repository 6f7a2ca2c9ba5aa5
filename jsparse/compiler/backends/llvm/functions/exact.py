"""Functions whose results are exact: signs, logical not, a test for finite floats, floor, ceil, trunc and round.

round takes ties to even. Floats are rounded to integers by an instruction, or by additions if the CPU has no such
instruction.
"""

from __future__ import annotations

import math

from jsparse.compiler.backends.llvm import cpu
from jsparse.compiler.backends.llvm.functions.vector import Vector, intrinsic, select


def negative(x: Vector) -> Vector:
    """-x"""
    return -x


def absolute(x: Vector) -> Vector:
    """|x|"""
    return x.magnitude() if x.type.is_float else select(x < 0, -x, x)


def sign(x: Vector) -> Vector:
    """-1 or 1; zeros and NaN stay unchanged."""
    return select(x > 0, 1, select(x < 0, x.constant(-1), x))


def negation(x: Vector) -> Vector:
    """Whether a condition does not hold."""
    return x.like(x.builder.not_(x.value))


def is_finite(x: Vector) -> Vector:
    """Whether a float is neither infinite nor NaN."""
    return x.magnitude() < math.inf


def floor(x: Vector) -> Vector:
    """The largest integer that is not above x."""
    if cpu.has_rounding():
        return intrinsic("floor", x)
    near = _nearest(x)
    return select(near > x, near - 1, near).magnitude().with_sign_of(x)


def ceil(x: Vector) -> Vector:
    """The smallest integer that is not below x."""
    if cpu.has_rounding():
        return intrinsic("ceil", x)
    near = _nearest(x)
    return select(near < x, near + 1, near).magnitude().with_sign_of(x)


def trunc(x: Vector) -> Vector:
    """The integer part."""
    if cpu.has_rounding():
        return intrinsic("trunc", x)
    size = x.magnitude()
    near = _nearest(size)
    return select(near > size, near - 1, near).with_sign_of(x)


def round_to_even(x: Vector) -> Vector:
    """The nearest integer; a tie goes to the even integer."""
    return intrinsic("rint", x) if cpu.has_rounding() else _nearest(x)


def _nearest(x: Vector) -> Vector:
    """Round to the nearest integer: add 2ᵐ, where m is the number of mantissa bits, and subtract 2ᵐ.

    All floats from 2ᵐ on are integers, so the addition rounds.
    """
    size, least_integer = x.magnitude(), 2.0**x.layout.mantissa
    return select(size < least_integer, (size + least_integer) - least_integer, size).with_sign_of(x)
