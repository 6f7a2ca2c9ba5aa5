"""Powers and roots: pow, sqrt, rsqrt and cbrt.

pow is exp(y log|x|). For float32, exp and log are computed in float64, which has enough digits. For float64, the
logarithm is a pair of floats with twice as many digits as x (Dekker, 1971): log|x| = k ln 2 + 2 s + s³ (2/3 + s² t(s²))
with k and s as in the module `exponentials`. The polynomial t is minimax (`tools/minimax.py`), with an error of 2⁻⁷³ of
the logarithm.
"""

from __future__ import annotations

import math

from jsparse.compiler.backends.llvm.functions.exact import trunc
from jsparse.compiler.backends.llvm.functions.exponentials import as_float, exp, exp_of_sum, log, split
from jsparse.compiler.backends.llvm.functions.pairs import Pair, product, sum_of, sum_of_ordered
from jsparse.compiler.backends.llvm.functions.vector import Vector, horner, intrinsic, select

_TAIL = (
    0.119904316697565,
    0.11674648488081617,
    0.13336325779465055,
    0.15384556654082673,
    0.1818181887348855,
    0.2222222221751064,
    0.2857142857144522,
    0.3999999999999998,
)
_TWO_THIRDS = (2 / 3, 3.700743415417188e-17)
_LN2 = (0.6931471805599453, 2.3190468138462996e-17)


def power(x: Vector, y: Vector) -> Vector:
    """x to the power y, within 1.1 ulp, with the special cases of C's pow."""
    size = x.magnitude()
    if x.type.dtype == "float64":
        result = _wide_power(size, y)
    else:
        result = exp(y.cast("float64") * log(size.cast("float64"))).cast("float32")
    is_integer, half = trunc(y).equals(y), 0.5 * y
    is_odd = is_integer & _differ(trunc(half), half)
    signed = select(x.bits() < 0, select(is_odd, -result, result), result)
    # Noninteger powers of numbers below 0 are NaN, but noninteger powers of -0 and -inf are not.
    is_root = (x < 0.0) & (x > -math.inf) & _differ(trunc(y), y) & (y.magnitude() < math.inf)
    signed = select(is_root, x.constant(math.nan), signed)
    is_one = y.equals(0.0) | x.equals(1.0) | (x.equals(-1.0) & y.magnitude().equals(math.inf))
    return select(is_one, x.constant(1.0), signed)


def _differ(x: Vector, y: Vector) -> Vector:
    return (x < y) | (x > y)


def _wide_power(x: Vector, y: Vector) -> Vector:
    """x to the power y in float64, for x ≥ 0, by a logarithm with twice as many digits as x.

    If log(x) is infinite or a product overflows, the result is exp(y log(x)) instead, which is 0 or infinity.
    """
    logarithm = _log_pair(x)
    exponent = product(y, logarithm.high)
    low = exponent.low + y * logarithm.low
    simple = y * log(x)
    is_regular = (simple.magnitude() < 1e3) & (y.magnitude() < 1e30) & (x > 0.0) & (x < math.inf)
    return exp_of_sum(select(is_regular, exponent.high, simple), select(is_regular, low, 0.0))


def _log_pair(x: Vector) -> Pair:
    m, k = split(x)
    f = m - 1
    divisor = sum_of(m, m.constant(1.0))
    s_high = f / divisor.high
    back = product(s_high, divisor.high)
    s = sum_of_ordered(s_high, (f - back.high - back.low - s_high * divisor.low) / divisor.high)
    z = s.times(s)
    tail = sum_of_ordered(m.constant(_TWO_THIRDS[0]), z.high * horner(z.high, _TAIL)).plus(_TWO_THIRDS[1])
    near_1 = Pair(2 * s.high, 2 * s.low).plus_pair(s.times(z).times(tail))
    n = as_float(k, x)
    integral = product(n, x.constant(_LN2[0])).plus(n * _LN2[1])
    return integral.plus_pair(near_1)


def sqrt(x: Vector) -> Vector:
    """The square root, correctly rounded."""
    return intrinsic("sqrt", x)


def rsqrt(x: Vector) -> Vector:
    """1 / √x, within 1.5 ulp."""
    return 1 / sqrt(x)


def cbrt(x: Vector) -> Vector:
    """The cube root, within 1.5 ulp: a step of Newton's method doubles the correct digits of exp(log(x) / 3)."""
    size = x.magnitude()
    near = exp(log(size) * (1 / 3))
    root = near - (near - size / (near * near)) * (1 / 3)
    is_regular = (size > 0.0) & (size < math.inf)
    return select(is_regular, root, size).with_sign_of(x)
