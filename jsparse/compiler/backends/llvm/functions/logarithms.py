"""log and log1p.

    x = 2ᵏ (1 + f), √½ ≤ 1 + f < √2        log(x) = k ln 2 + log(1 + f)
    s = f / (2 + f)                        log(1 + f) = 2 atanh(s) = f - f²/2 + s (f²/2 + R),  R = s² p(s²)

The sum is ordered such that errors of the small terms vanish in the large one (Muller, Elementary Functions, chapter
11; fdlibm). ln 2 has two parts, as in `exponentials`. The polynomials p are minimax (`tools/minimax.py`): their errors
are below 2⁻³⁰ and 2⁻⁵⁹ of log(1 + f).
"""

from __future__ import annotations

import math

import numpy as np

from jsparse.compiler.backends.llvm.functions.exponentials import LN2
from jsparse.compiler.backends.llvm.functions.vector import Vector, horner, muladd, select

__all__ = ["as_float", "log", "log1p", "split"]

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
_LARGE = {"float32": 60, "float64": 500}  # from 2 to this power on, log(1 + x) is log(x)


def log(x: Vector) -> Vector:
    """The logarithm to base e, within 1 ulp; NaN below 0."""
    m, k = split(x)
    return _with_edges(x, 0.0, _sum(m - 1, k))


def log1p(x: Vector) -> Vector:
    """log(1 + x), within 1.5 ulp.

    1 + x is u + e, where u is rounded, and e is exact (Knuth's TwoSum): 1 + f = 2⁻ᵏ u + 2⁻ᵏ e.
    """
    u = 1 + x
    added = u - 1
    rest = (1 - (u - added)) + (x - added)
    m, k = split(u)
    large = _LARGE[x.type.dtype]
    scale = x.power_of_two(0 - select(k > large, k.constant(large), k))
    found = _sum((m - 1) + rest * scale, k)
    return select(x.equals(0.0), x, _with_edges(x, -1.0, found))


def split(x: Vector) -> tuple[Vector, Vector]:
    """m between √½ and √2 and the integer k with x = 2ᵏ m, of a finite number above 0."""
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
    """A small integer as a float, by an addition: not every CPU converts vectors of 64-bit integers."""
    shifter = like.constant(like.layout.shifter)
    return like.floats(k + shifter.bits()) - shifter


def _sum(f: Vector, k: Vector) -> Vector:
    """k ln 2 + log(1 + f)"""
    first, second = LN2[f.type.dtype]
    s = f / (f + 2)
    z, half = s * s, 0.5 * f * f
    rest = z * horner(z, _ATANH[f.type.dtype])
    n = as_float(k, f)
    small = muladd(s, half + rest, n * second)
    return muladd(n, first, f - (half - small))


def _with_edges(x: Vector, pole: float, found: Vector) -> Vector:
    """The result, or -inf at the pole, NaN below it, inf at inf."""
    found = select(x < math.inf, found, x)
    return select(x > pole, found, select(x.equals(pole), x.constant(-math.inf), math.nan))
