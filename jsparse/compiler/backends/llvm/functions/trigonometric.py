"""sin, cos and tan, in float32 only.

    x / 2π = n / 4 + t up to whole turns, |t| ≤ 1/8        sin(x) = sin(2π t), cos(2π t) or one of their negatives

1 / 2π is a sum of pieces with 29 bits. The product of a float32 and one piece is exact in float64, and so is the
product modulo whole turns. For numbers up to 2⁵² the first four pieces leave an error of 2⁻⁶⁴ turns; a larger number
times the first piece is a whole number of turns, so later pieces are used (Payne and Hanek, Radian Reduction for
Trigonometric Functions, 1983). No float32 is closer than 2⁻³² turns to a multiple of π / 2, so t is accurate to all
digits of a float32. The additions are exact where digits cancel, because they begin with the largest terms. Polynomials
are minimax (`tools/minimax.py`), with errors of 2⁻³⁷ of the function.
"""

from __future__ import annotations

from jsparse.compiler.backends.llvm.functions.exact import round_to_even
from jsparse.compiler.backends.llvm.functions.vector import Vector, horner, select

_PIECES = (
    0.15915494225919247,
    8.327028684640414e-10,
    5.69002511952534e-19,
    6.317065083361892e-27,
    5.595982707708916e-36,
    6.551007945072098e-45,
    9.301187157400502e-54,
)
_FROM = (2.0**52, 2.0**110)  # from here on the pieces of the next column count
_COLUMNS = ((0, 1, 3), (1, 2, 4), (2, 3, 5), (3, 4, 6), (None, 5, None))
_SINE = (41.47178427424004, -76.69783809097343, 81.60520447931525, -41.34170215280926, 6.2831853071521815)
_COSINE = (
    -26.057443770302275,
    60.23815986626074,
    -85.4567646516437,
    64.93939382997199,
    -19.739208801920284,
    0.9999999999999438,
)


def sin(x: Vector) -> Vector:
    """The sine, within 0.6 ulp."""
    quarters, sine, cosine = _quarters_sine_cosine(x)
    result = select(_has_bit(quarters, 1), cosine, sine)
    return select(x.equals(0.0), x, select(_has_bit(quarters, 2), -result, result).cast("float32"))


def cos(x: Vector) -> Vector:
    """The cosine, within 0.6 ulp."""
    quarters, sine, cosine = _quarters_sine_cosine(x)
    result = select(_has_bit(quarters, 1), sine, cosine)
    return select(_has_bit(quarters + 1, 2), -result, result).cast("float32")


def tan(x: Vector) -> Vector:
    """The tangent, within 0.6 ulp."""
    quarters, sine, cosine = _quarters_sine_cosine(x)
    is_odd = _has_bit(quarters, 1)
    result = select(is_odd, -cosine, sine) / select(is_odd, sine, cosine)
    return select(x.equals(0.0), x, result.cast("float32"))


def _quarters_sine_cosine(x: Vector) -> tuple[Vector, Vector, Vector]:
    """Write x / 2π as n / 4 + t. Returns an integer with the last bits of n, and the sine and cosine of 2π t."""
    if x.type.dtype != "float32":
        raise ValueError(f"expected float32 for sin, cos and tan, but got {x.type.dtype}")
    wide = x.cast("float64")
    # The size of each number determines the pieces of 1 / 2π that count. Whole turns of each product are left out.
    size = wide.magnitude()
    is_large, is_huge = (size > bound for bound in _FROM)
    columns = [[0.0 if n is None else _PIECES[n] for n in row] for row in _COLUMNS]
    pieces = [
        select(is_huge, wide.constant(huge), select(is_large, wide.constant(large), small))
        for small, large, huge in columns
    ]
    products = (wide * piece for piece in pieces)
    parts = [turns - round_to_even(turns) for turns in products]
    total = parts[-1]
    for part in reversed(parts[:-1]):
        total = total + part
    shifted = 4 * total + wide.layout.shifter
    t = parts[0] - 0.25 * (shifted - wide.layout.shifter)
    for part in parts[1:]:
        t = t + part
    square = t * t
    return shifted.bits(), t * horner(square, _SINE), horner(square, _COSINE)


def _has_bit(x: Vector, bit: int) -> Vector:
    return (x & bit).equals(bit)
