"""exp, exp2 and expm1.

    x = n ln 2 + r, |r| ≤ ln 2 / 2        exp(x) = 2ⁿ exp(r)        exp(r) = 1 + r + r² q(r)

ln 2 has two parts (Cody and Waite, Software Manual for the Elementary Functions, 1980). As n times the first is exact,
r is as good as x. 2ⁿ is multiplied in two steps, so that subnormal results are rounded once and too large ones are inf.
The polynomials q are minimax (`tools/minimax.py`): their errors are below 2⁻²⁶ and 2⁻⁶¹ of expm1(r).
"""

from __future__ import annotations

import math

from jsparse.compiler.backends.llvm.functions.vector import Vector, horner, muladd, select

__all__ = ["LN2", "exp", "exp2", "exp_of_sum", "expm1", "expm1_between"]

LN2 = {  # the first part has 15 and 40 bits
    "float32": (0.693145751953125, 1.4286068203094173e-06),
    "float64": (0.6931471805592082, 7.371002565167799e-13),
}
_REST = {
    "float32": (
        0.0013947358505625596,
        0.008367123575299479,
        0.04166627111506204,
        0.16666539321814117,
        0.5000000063703709,
    ),
    "float64": (
        2.092522660313865e-09,
        2.5109968075370333e-08,
        2.7557240321666923e-07,
        2.7557241825069903e-06,
        2.480158736323568e-05,
        0.00019841269888166198,
        0.0013888888888865625,
        0.008333333333320979,
        0.041666666666666706,
        0.16666666666666677,
        0.5,
    ),
}
_LEAST = {"float32": -104.0, "float64": -746.0}  # exp is 0 from here down
_LARGEST = {"float32": 89.0, "float64": 710.0}  # exp is infinite from here up
_MINUS_ONE = {"float32": -20.0, "float64": -40.0}  # expm1 is -1 from here down


def exp(x: Vector) -> Vector:
    """eˣ, within 1.1 ulp."""
    r, n = _reduced(x.at_most(_LARGEST[x.type.dtype]).at_least(_LEAST[x.type.dtype]))
    return _scaled(1 + _expm1_near_0(r), n)


def exp_of_sum(x: Vector, low: Vector) -> Vector:
    """e to the power x + low, where low is below an ulp of x, within 1.1 ulp."""
    bound = x.at_most(_LARGEST[x.type.dtype]).at_least(_LEAST[x.type.dtype])
    r, n = _reduced(bound)
    return _scaled(1 + _expm1_near_0(r + select(bound.equals(x), low, 0.0)), n)


def exp2(x: Vector) -> Vector:
    """2ˣ, within 1.1 ulp."""
    layout = x.layout
    bound = x.at_most(layout.bias + 1.5).at_least(-float(layout.bias + layout.mantissa + 2))
    shifted = bound + layout.shifter
    return _scaled(1 + _expm1_near_0((bound - (shifted - layout.shifter)) * math.log(2)), _integer(shifted))


def expm1(x: Vector) -> Vector:
    """eˣ - 1, within 2 ulp."""
    r, n = _reduced(x.at_most(_LARGEST[x.type.dtype]).at_least(_MINUS_ONE[x.type.dtype]))
    largest = x.layout.bias  # 2^(bias + 1) is infinite
    is_larger = n > largest
    last = select(is_larger, x.constant(2.0), 1.0)
    found = _expm1_scaled(r, select(is_larger, n.constant(largest), n)) * last
    return select(x.equals(0.0), x, found)


def expm1_between(x: Vector) -> Vector:
    """eˣ - 1 of numbers between 0 and 40."""
    return _expm1_scaled(*_reduced(x))


def _expm1_scaled(r: Vector, n: Vector) -> Vector:
    """2ⁿ exp(r) - 1. The product is exact."""
    scale = r.power_of_two(n)
    return muladd(scale, _expm1_near_0(r), scale - 1)


def _expm1_near_0(r: Vector) -> Vector:
    return muladd(r * r, horner(r, _REST[r.type.dtype]), r)


def _reduced(x: Vector) -> tuple[Vector, Vector]:
    """r and the integer n."""
    first, second = LN2[x.type.dtype]
    shifted = muladd(x, 1 / math.log(2), x.layout.shifter)
    n = shifted - x.layout.shifter
    return muladd(n, -second, muladd(n, -first, x)), _integer(shifted)


def _integer(shifted: Vector) -> Vector:
    """The integer in the last bits of an integer + `shifter`."""
    return shifted.bits() - shifted.constant(shifted.layout.shifter).bits()


def _scaled(x: Vector, n: Vector) -> Vector:
    """x · 2ⁿ"""
    half = n >> 1
    return x * x.power_of_two(half) * x.power_of_two(n - half)
