"""erf.

    |x| < 1       erf(x) = x + x p(x²)
    1 ≤ |x|       erf(x) = ± (1 - exp(-x²) q(1 / (1 + |x| / 2)))

The polynomials are minimax (`tools/minimax.py`): p within 2⁻²⁹ and 2⁻⁶², q such that erf is within 2⁻³⁴ and 2⁻⁶².
"""

from __future__ import annotations

from jsparse.compiler.backends.llvm.functions.exponentials import exp
from jsparse.compiler.backends.llvm.functions.vector import Vector, horner, muladd, select

__all__ = ["erf"]

_INNER = {
    "float32": (
        7.885860538414903e-05,
        -0.0008019947406439779,
        0.005189444220919587,
        -0.02685440224782797,
        0.11283599298880859,
        -0.3761262707063937,
        0.12837916590604667,
    ),
    "float64": (
        5.957995523813091e-11,
        -1.1373409202140527e-09,
        1.465994044759465e-08,
        -1.635034034216062e-07,
        1.6461003389486502e-06,
        -1.4925595466938e-05,
        0.00012055331120775223,
        -0.0008548326981106582,
        0.0052239776248231545,
        -0.02686617064507736,
        0.11283791670954882,
        -0.3761263890318375,
        0.1283791670955126,
    ),
}
_OUTER = {
    "float32": (
        -0.2307524570429275,
        0.6365377911474223,
        -0.06429671029270084,
        0.39670792413595013,
        0.2597275622990809,
        0.0018194069247712383,
    ),
    "float64": (
        0.013464754932878298,
        -0.14741141714452582,
        0.6778522200510253,
        -1.748931668381335,
        2.78702045948892,
        -2.816659088124138,
        1.8498272416803916,
        -0.9597365337361499,
        0.4365326713686858,
        0.08072762757610748,
        0.2653816885872567,
        0.27964723042454276,
        0.2822918848251724,
        -7.320221603207023e-06,
    ),
}
_ONE = {"float32": 4.0, "float64": 6.0}  # erf is 1 from here up


def erf(x: Vector) -> Vector:
    """The error function, within 1.5 ulp."""
    dtype = x.type.dtype
    size = x.magnitude().at_most(_ONE[dtype])
    square = size * size
    inner = muladd(size, horner(square, _INNER[dtype]), size)
    outer = 1 - exp(-square) * horner(1 / (1 + 0.5 * size), _OUTER[dtype])
    return select(size < 1.0, inner, outer).with_sign_of(x)
