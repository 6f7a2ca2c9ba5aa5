"""Roots."""

from __future__ import annotations

import math

from jsparse.compiler.backends.llvm.functions.exponentials import exp
from jsparse.compiler.backends.llvm.functions.logarithms import log
from jsparse.compiler.backends.llvm.functions.vector import Vector, intrinsic, select

__all__ = ["cbrt", "rsqrt", "sqrt"]


def sqrt(x: Vector) -> Vector:
    """The square root, correctly rounded."""
    return intrinsic("sqrt", x)


def rsqrt(x: Vector) -> Vector:
    """1 / √x, within 1.5 ulp."""
    return 1 / sqrt(x)


def cbrt(x: Vector) -> Vector:
    """The cube root, within 1.5 ulp: one step of Newton's method from exp(log(x) / 3) doubles its right digits."""
    size = x.magnitude()
    near = exp(log(size) * (1 / 3))
    found = near - (near - size / (near * near)) * (1 / 3)
    is_regular = (size > 0.0) & (size < math.inf)
    return select(is_regular, found, size).with_sign_of(x)
