"""Finds the polynomials of `jsparse/compiler/backends/llvm/functions/`: `python tools/minimax.py` prints them all.

Remez's exchange algorithm (Muller, Elementary Functions, 3rd edition, chapter 3) in decimal arithmetic of 60 digits:
of all polynomials of a degree, it finds the one whose largest weighted error on an interval is smallest. Weights turn
errors of a polynomial into errors of its function, relative to the function's value.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, getcontext

getcontext().prec = 60

Function = Callable[[Decimal], Decimal]
GRID = 600  # points at which the error is looked at


def minimax(f: Function, weight: Function, low: Decimal, high: Decimal, degree: int) -> tuple[list[Decimal], Decimal]:
    """The polynomial whose largest |weight · (polynomial - f)| is smallest, from the constant on, and that error."""
    grid = [_chebyshev(low, high, n, GRID) for n in range(GRID + 1)]
    values, weights = [f(x) for x in grid], [weight(x) for x in grid]
    chosen = [round(n * GRID / (degree + 1)) for n in range(degree + 2)]
    coefficients: list[Decimal] = []
    for _ in range(30):
        rows = [
            [*(grid[n] ** k for k in range(degree + 1)), (-1) ** i / weights[n], values[n]]
            for i, n in enumerate(chosen)
        ]
        *coefficients, level = _solved(rows)
        errors = [w * (_at(coefficients, x) - v) for x, v, w in zip(grid, values, weights, strict=True)]
        found = _alternating(errors, degree + 2)
        if found == chosen or max(map(abs, errors)) < abs(level) * Decimal("1.001"):
            return coefficients, max(map(abs, errors))
        chosen = found
    return coefficients, max(map(abs, errors))


def _chebyshev(low: Decimal, high: Decimal, n: int, count: int) -> Decimal:
    return (low + high) / 2 - (high - low) / 2 * Decimal(math.cos(math.pi * n / count))


def _at(coefficients: list[Decimal], x: Decimal) -> Decimal:
    total = Decimal(0)
    for c in reversed(coefficients):
        total = total * x + c
    return total


def _alternating(errors: list[Decimal], count: int) -> list[int]:
    """The numbers of `count` points at which errors alternate in sign, and are largest."""
    peaks: list[int] = []
    for n, error in enumerate(errors):
        if peaks and (errors[peaks[-1]] > 0) == (error > 0):
            if abs(error) > abs(errors[peaks[-1]]):
                peaks[-1] = n
        else:
            peaks.append(n)
    while len(peaks) > count:
        peaks.pop(0 if abs(errors[peaks[0]]) < abs(errors[peaks[-1]]) else -1)
    if len(peaks) < count:
        raise ArithmeticError(f"the error changes its sign {len(peaks)} times, but {count} are needed")
    return peaks


def _solved(rows: list[list[Decimal]]) -> list[Decimal]:
    """The solution of linear equations, whose rows end in their right-hand sides."""
    count = len(rows)
    for k in range(count):
        pivot = max(range(k, count), key=lambda n: abs(rows[n][k]))
        rows[k], rows[pivot] = rows[pivot], rows[k]
        rows[k] = [x / rows[k][k] for x in rows[k]]
        for n in range(count):
            if n != k:
                factor = rows[n][k]
                rows[n] = [x - factor * y for x, y in zip(rows[n], rows[k], strict=True)]
    return [row[-1] for row in rows]


LN2 = Decimal(2).ln()
PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459")


def series(term: Callable[[int], Decimal]) -> Decimal:
    """The sum of terms up to the first that adds nothing."""
    total, n = Decimal(0), 0
    while True:
        added = term(n)
        if total + added == total:
            return total
        total, n = total + added, n + 1


def exp_rest(r: Decimal) -> Decimal:
    """(exp(r) - 1 - r) / r²"""
    return series(lambda n: r**n / math.factorial(n + 2)) if r else Decimal("0.5")


def atanh_rest(z: Decimal) -> Decimal:
    """(2 atanh(s) - 2 s) / s³ with z = s²"""
    return series(lambda n: 2 * z**n / (2 * n + 3)) if z else Decimal(2) / 3


def atanh_tail(z: Decimal) -> Decimal:
    """(2 atanh(s) - 2 s - 2/3 s³) / s⁵ with z = s²"""
    return series(lambda n: 2 * z**n / (2 * n + 5)) if z else Decimal(2) / 5


def erf_ratio(z: Decimal) -> Decimal:
    """erf(x) / x - 1 with z = x²"""
    getcontext().prec = 100
    found = 2 / PI_100.sqrt() * series(lambda n: (-z) ** n / (math.factorial(n) * (2 * n + 1))) if z else 2 / PI.sqrt()
    getcontext().prec = 60
    return +found - 1


PI_100 = Decimal(
    "3.141592653589793238462643383279502884197169399375105820974944592307816406286208998628034825342117068"
)


def erfc_scaled(t: Decimal) -> Decimal:
    """exp(t²) erfc(t), by Laplace's continued fraction from below"""
    if t < 2:
        return (t * t).exp() * (1 - t * (1 + erf_ratio(t * t)))
    fraction = Decimal(0)
    for n in range(1500, 0, -1):
        fraction = Decimal(n) / 2 / (t + fraction)
    return 1 / (PI.sqrt() * (t + fraction))


def of_inverse(w: Decimal) -> Decimal:
    """`erfc_scaled` of t, with w = 1 / (1 + t / 2)"""
    return erfc_scaled(2 / w - 2)


def inverse_weight(w: Decimal) -> Decimal:
    """exp(-t²): errors count as they do in erf"""
    t = 2 / w - 2
    return (-t * t).exp()


def of_third(v: Decimal) -> Decimal:
    """(1 + 7/4 t) `erfc_scaled` of t, with v = 1 / (1 + t / 3) - 1 / 2"""
    t = 3 / (v + Decimal("0.5")) - 3
    return erfc_scaled(t) * (1 + t * 7 / 4)


def sine_ratio(z: Decimal) -> Decimal:
    """sin(2π t) / t with z = t²"""
    return 2 * PI * series(lambda n: (-4 * PI * PI * z) ** n / math.factorial(2 * n + 1)) if z else 2 * PI


def cosine(z: Decimal) -> Decimal:
    """cos(2π t) with z = t²"""
    return series(lambda n: (-4 * PI * PI * z) ** n / math.factorial(2 * n)) if z else Decimal(1)


def pieces_of_inverse(width: int, count: int) -> list[float]:
    """1 / (2π) as a sum of floats with `width` bits each, of which the n-th is a multiple of 2^(-width n)."""
    rest, found = 1 / (2 * PI_100), []
    for n in range(1, count + 1):
        piece = int(rest * 2 ** (width * n))
        rest -= Decimal(piece) / 2 ** (width * n)
        found.append(piece / 2.0 ** (width * n))
    return found


def show(title: str, found: tuple[list[Decimal], Decimal], dtype: str) -> None:
    coefficients, error = found
    print(f"{title}, {dtype}: the largest error is 2^{float(abs(error).ln() / LN2):.1f}")
    print("    (" + ", ".join(f"{float(c)!r}" for c in coefficients) + ")")


def main() -> None:
    one: Function = lambda x: Decimal(1)  # noqa: E731
    half, s2 = LN2 / 2 * Decimal("1.01"), (Decimal(2).sqrt() - 1) / (Decimal(2).sqrt() + 1)
    z = s2 * s2 * Decimal("1.001")
    for dtype, degree in (("float32", 4), ("float64", 10)):
        show("(exp(r) - 1 - r) / r²", minimax(exp_rest, lambda r: abs(r) + Decimal("0.01"), -half, half, degree), dtype)
    for dtype, degree in (("float32", 2), ("float64", 6)):
        show("(2 atanh(s) - 2 s) / s³ in s²", minimax(atanh_rest, lambda z: z / 2, Decimal("1e-4"), z, degree), dtype)
    show(
        "(2 atanh(s) - 2 s - 2/3 s³) / s⁵ in s²",
        minimax(atanh_tail, lambda z: z * z / 2, Decimal("1e-3"), z, 7),
        "float64",
    )
    for dtype, degree in (("float32", 6), ("float64", 12)):
        show("erf(x) / x - 1 in x²", minimax(erf_ratio, one, Decimal("1e-9"), Decimal("1.001"), degree), dtype)
    for dtype, degree, last in (("float32", 5, 4), ("float64", 13, 6)):
        first = 1 / (1 + Decimal(last) / 2)
        show(
            "exp(t²) erfc(t) in 1 / (1 + t/2)",
            minimax(of_inverse, inverse_weight, first, Decimal("0.6673"), degree),
            dtype,
        )
    for dtype, degree, last in (("float32", 9, "10.2"), ("float64", 21, "27.5")):
        first, highest = 1 / (1 + Decimal(last) / 3) - Decimal("0.5"), Decimal("0.3574")
        found = minimax(of_third, lambda w: 1 / of_third(w), first, highest, degree)
        show("(1 + 7/4 t) exp(t²) erfc(t) in 1 / (1 + t/3) - 1/2", found, dtype)
    eighth = (Decimal(1) / 8 * Decimal("1.001")) ** 2
    show("sin(2π t) / t in t²", minimax(sine_ratio, one, Decimal("1e-9"), eighth, 4), "float32")
    show("cos(2π t) in t²", minimax(cosine, one, Decimal("1e-9"), eighth, 5), "float32")
    getcontext().prec = 100
    print("1 / (2π) in pieces of 29 bits:", pieces_of_inverse(29, 7))


if __name__ == "__main__":
    main()
