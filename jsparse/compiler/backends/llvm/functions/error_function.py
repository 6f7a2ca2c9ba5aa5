"""erf and erfc = 1 - erf. The function erfc has its own formula, so it is not 0 where erf rounds to 1.

    |x| < 1       erf(x) = x + x p(x²)
    1 ≤ |x|       erf(x) = ± (1 - exp(-x²) q(1 / (1 + |x| / 2)))

    |x| < 0.8     erfc(x) = 1 - erf(x)
    0.8 ≤ x       erfc(x) = exp(-x²) t(1 / (1 + x / 3) - ½) / (1 + 7/4 x), and erfc(-x) = 2 - erfc(x)

In the last formula, x² is a pair of floats with twice as many digits as x. The polynomial t is nearly
constant, so an error of its argument does not matter. The polynomials are minimax (`tools/minimax.py`). Their largest
errors are, for float32 and float64: of p 2⁻²⁹ and 2⁻⁶², of erf by q 2⁻³⁴ and 2⁻⁶², of t 2⁻²⁸ and 2⁻⁵⁷.
"""

from __future__ import annotations

from jsparse.compiler.backends.llvm.functions.exponentials import exp, exp_of_sum
from jsparse.compiler.backends.llvm.functions.pairs import product
from jsparse.compiler.backends.llvm.functions.vector import Vector, horner, muladd, select

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
_TAIL = {
    "float32": (
        0.23865797003030134,
        0.392918731111456,
        -0.2798429495171712,
        -1.2966090874854244,
        -1.815854691966525,
        -1.5265014284705012,
        -0.7573832140002057,
        -0.04366616993867707,
        0.3188952263945708,
        1.118757194942054,
    ),
    "float64": (
        0.026905387511041715,
        0.019775734616362766,
        -0.05025653113383819,
        -0.02616038856354515,
        0.07146306198999584,
        0.017778283887051792,
        -0.09857175313536595,
        -0.007845880344828072,
        0.14193266365641463,
        0.01364928136954579,
        -0.22088724698177922,
        -0.08602374048024321,
        0.3464685802511566,
        0.4039606528535641,
        -0.2946158279393028,
        -1.2969957446983993,
        -1.8150547683360923,
        -1.5264996134190791,
        -0.7574001744186759,
        -0.043666129380909656,
        0.3188953257287766,
        1.1187571948836872,
    ),
}
_ONE = {"float32": 4.0, "float64": 6.0}  # erf is 1 from here up
_ZERO = {"float32": 10.2, "float64": 27.5}  # erfc is 0 from here up


def erf(x: Vector) -> Vector:
    """The error function, within 1.5 ulp."""
    dtype = x.type.dtype
    size = x.magnitude().at_most(_ONE[dtype])
    square = size * size
    inner = muladd(size, horner(square, _INNER[dtype]), size)
    outer = 1 - exp(-square) * horner(1 / (1 + 0.5 * size), _OUTER[dtype])
    return select(size < 1.0, inner, outer).with_sign_of(x)


def erfc(x: Vector) -> Vector:
    """The complementary error function, within 4.5 ulp: each factor has an error of about one ulp."""
    dtype = x.type.dtype
    size = x.magnitude()
    inner = 1 - muladd(x, horner(x * x, _INNER[dtype]), x)
    bound = size.at_most(_ZERO[dtype])
    square = product(bound, bound)
    near_1 = horner(1 / (1 + bound * (1 / 3)) - 0.5, _TAIL[dtype])
    tail = exp_of_sum(-square.high, -square.low) * near_1 / muladd(bound, 1.75, 1.0)
    return select(size < 0.8, inner, select(x < 0.0, 2 - tail, tail))
