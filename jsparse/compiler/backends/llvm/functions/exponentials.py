"""Exponentials, logarithms, and functions that are made of exponentials: exp, exp2, expm1, log, log1p, tanh, logistic.

Exponentials:

    x = n ln 2 + r, |r| ≤ ln 2 / 2        exp(x) = 2ⁿ exp(r)        exp(r) = 1 + r + r² q(r)

ln 2 has two parts (Cody and Waite, Software Manual for the Elementary Functions, 1980). The product of n and the first
part is exact, so r is as accurate as x. The multiplication by 2ⁿ takes two steps, so that subnormal results are rounded
once and too large results are inf. The polynomials q are minimax (`tools/minimax.py`): their errors, relative to
expm1(r), are below 2⁻²⁶ in float32 and 2⁻⁶¹ in float64.

Logarithms:

    x = 2ᵏ (1 + f), √½ ≤ 1 + f < √2        log(x) = k ln 2 + log(1 + f)
    s = f / (2 + f)                        log(1 + f) = 2 atanh(s) = f - f²/2 + s (f²/2 + R),  R = s² p(s²)

The sum is ordered such that errors of the small terms vanish in the large one (Muller, Elementary Functions, chapter
11; fdlibm). ln 2 has two parts, as in exponentials. The polynomials p are minimax (`tools/minimax.py`): their errors,
relative to log(1 + f), are below 2⁻³⁰ in float32 and 2⁻⁵⁹ in float64.

tanh and the logistic function use only exponentials that cannot overflow.
"""

from __future__ import annotations

import math

import numpy as np

from jsparse.compiler.backends.llvm.functions.vector import Vector, horner, muladd, select

_LN2 = {  # the first part has 15 and 40 bits
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
_ATANH = {
    "float32": (0.29873074693185586, 0.39977495531261703, 0.6666677671729726),
    "float64": (
        0.14797506820086725,
        0.1531390335576919,
        0.18183569734511768,
        0.22222198476114502,
        0.2857142874326109,
        0.399999999994111,
        0.6666666666666735,
    ),
}
_LARGE_POWER = {"float32": 60, "float64": 500}  # from 2 to this power on, log(1 + x) is log(x)
_ONE = {"float32": 10.0, "float64": 20.0}  # tanh is 1 from here up


def exp(x: Vector) -> Vector:
    """eˣ, within 1.1 ulp."""
    r, n = _reduce_range(x.at_most(_LARGEST[x.type.dtype]).at_least(_LEAST[x.type.dtype]))
    return _times_power_of_two(1 + _expm1_near_0(r), n)


def exp_of_sum(x: Vector, low: Vector) -> Vector:
    """e to the power x + low, where low is below an ulp of x, within 1.1 ulp."""
    bound = x.at_most(_LARGEST[x.type.dtype]).at_least(_LEAST[x.type.dtype])
    r, n = _reduce_range(bound)
    return _times_power_of_two(1 + _expm1_near_0(r + select(bound.equals(x), low, 0.0)), n)


def exp2(x: Vector) -> Vector:
    """2ˣ, within 1.1 ulp."""
    layout = x.layout
    bound = x.at_most(layout.bias + 1.5).at_least(-float(layout.bias + layout.mantissa + 2))
    shifted = bound + layout.shifter
    return _times_power_of_two(1 + _expm1_near_0((bound - (shifted - layout.shifter)) * math.log(2)), _integer(shifted))


def expm1(x: Vector) -> Vector:
    """eˣ - 1, within 2 ulp."""
    r, n = _reduce_range(x.at_most(_LARGEST[x.type.dtype]).at_least(_MINUS_ONE[x.type.dtype]))
    largest = x.layout.bias  # 2^(bias + 1) is infinite
    is_larger = n > largest
    last = select(is_larger, x.constant(2.0), 1.0)
    result = _expm1_scaled(r, select(is_larger, n.constant(largest), n)) * last
    return select(x.equals(0.0), x, result)


def _expm1_scaled(r: Vector, n: Vector) -> Vector:
    """2ⁿ exp(r) - 1. The multiplication by 2ⁿ is exact."""
    scale = r.power_of_two(n)
    return muladd(scale, _expm1_near_0(r), scale - 1)


def _expm1_near_0(r: Vector) -> Vector:
    return muladd(r * r, horner(r, _REST[r.type.dtype]), r)


def _reduce_range(x: Vector) -> tuple[Vector, Vector]:
    """Write x as n ln 2 + r. Returns r and the integer n."""
    first, second = _LN2[x.type.dtype]
    shifted = muladd(x, 1 / math.log(2), x.layout.shifter)
    n = shifted - x.layout.shifter
    return muladd(n, -second, muladd(n, -first, x)), _integer(shifted)


def _integer(shifted: Vector) -> Vector:
    """Return the integer n that the last bits of the float n + `FloatLayout.shifter` hold."""
    return shifted.bits() - shifted.constant(shifted.layout.shifter).bits()


def _times_power_of_two(x: Vector, n: Vector) -> Vector:
    """x · 2ⁿ"""
    half = n >> 1
    return x * x.power_of_two(half) * x.power_of_two(n - half)


def log(x: Vector) -> Vector:
    """The logarithm to base e, within 1 ulp; NaN below 0."""
    m, k = split(x)
    return _with_edges(x, 0.0, _sum(m - 1, k))


def log1p(x: Vector) -> Vector:
    """log(1 + x), within 1.5 ulp.

    Let u be the rounded sum 1 + x, and e its exact error (Knuth's TwoSum). Let f = (m - 1) + 2⁻ᵏ e, where u = 2ᵏ m. The
    result is k ln 2 + log(1 + f).
    """
    u = 1 + x
    added = u - 1
    error = (1 - (u - added)) + (x - added)
    m, k = split(u)
    large = _LARGE_POWER[x.type.dtype]
    scale = x.power_of_two(0 - select(k > large, k.constant(large), k))
    result = _sum((m - 1) + error * scale, k)
    return select(x.equals(0.0), x, _with_edges(x, -1.0, result))


def split(x: Vector) -> tuple[Vector, Vector]:
    """Split a finite x > 0 as x = 2ᵏ m. Returns m between √½ and √2, and the integer k."""
    layout = x.layout
    raised = layout.mantissa + 2
    is_subnormal = x < 2.0 ** (1 - layout.bias)
    bits = select(is_subnormal, x * 2.0**raised, x).bits()
    root = int(np.array(math.sqrt(0.5), x.type.dtype).view(layout.integer))
    above = bits - root
    m = x.floats((above & ((1 << layout.mantissa) - 1)) + root)
    k = above >> layout.mantissa
    return m, select(is_subnormal, k - raised, k)


def as_float(k: Vector, like: Vector) -> Vector:
    """Convert a small integer to a float by an addition: not every CPU converts vectors of 64-bit integers."""
    shifter = like.constant(like.layout.shifter)
    return like.floats(k + shifter.bits()) - shifter


def _sum(f: Vector, k: Vector) -> Vector:
    """k ln 2 + log(1 + f)"""
    first, second = _LN2[f.type.dtype]
    s = f / (f + 2)
    z, half = s * s, 0.5 * f * f
    tail = z * horner(z, _ATANH[f.type.dtype])
    n = as_float(k, f)
    small = muladd(s, half + tail, n * second)
    return muladd(n, first, f - (half - small))


def _with_edges(x: Vector, pole: float, value: Vector) -> Vector:
    """Return `value`, but -inf where x is the pole, NaN where x is below the pole, and inf where x is inf."""
    value = select(x < math.inf, value, x)
    return select(x > pole, value, select(x.equals(pole), x.constant(-math.inf), math.nan))


def tanh(x: Vector) -> Vector:
    """The hyperbolic tangent, within 2.6 ulp: e / (e + 2) with the sign of x, where e = exp(2 |x|) - 1."""
    size = x.magnitude().at_most(_ONE[x.type.dtype])
    e = _expm1_scaled(*_reduce_range(size + size))  # neither overflows nor cancels for 0 ≤ 2 |x| ≤ 40
    return (e / (e + 2)).with_sign_of(x)


def logistic(x: Vector) -> Vector:
    """1 / (1 + exp(-x)), within 2.5 ulp.

    Let e = exp(-|x|). The result is 1 / (1 + e) for x ≥ 0. For x < 0 it is e / (1 + e), which is small but not 0.
    """
    e = exp(-x.magnitude())
    return select(x < 0.0, e, 1.0) / (1 + e)
