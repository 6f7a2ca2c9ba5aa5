"""Functions in machine code on arrays, and their errors in ulp of the exact result."""

from __future__ import annotations

import math
from decimal import Decimal
from functools import cache

import numpy as np

from jsparse.base import _native
from jsparse.compiler.backends.backend import CompiledKernel
from jsparse.compiler.backends.llvm import compile_kernel
from jsparse.compiler.dtypes import Type
from jsparse.compiler.kernel import Kernel
from jsparse.compiler.kernel.nodes import Buffer, Call, Const, Extent, For, Load, Store, Var

__all__ = ["BOUNDS", "applied", "decimal_ulps", "exact", "function_kernel", "ulps"]

BOUNDS = {
    "exp": (1.1, 1.0),
    "exp2": (1.2, 1.1),
    "expm1": (1.8, 1.8),
    "log": (0.9, 0.8),
    "log1p": (1.5, 1.4),
    "tanh": (2.7, 2.4),
    "logistic": (2.5, 2.2),
    "erf": (1.5, 1.2),
    "erfc": (4.6, 3.6),
    "sqrt": (0.5, 0.5),
    "rsqrt": (1.5, 1.5),
    "cbrt": (0.8, 0.8),
    "pow": (0.6, 1.2),
    "sin": (0.6,),
    "cos": (0.6,),
    "tan": (0.6,),
}
"""The bounds of errors in ulp, in float32 and float64. Some functions are for float32 only."""


def function_kernel(name: str, dtype: str, arity: int = 1, lanes: int = 0, target: str | None = None) -> Kernel:
    """`out[n] = name(x0[n], …)`, in vectors of `lanes` lanes."""
    given = [Buffer(f"x{k}", Type(dtype), k) for k in range(arity)]
    out, n = Buffer("out", Type(target or dtype), arity, True), Var("n")
    body = Store(out, n, Call(name, tuple(Load(x, n, lanes) for x in given)))
    return Kernel((*given, out), For(n, Const(0), Extent(out, 0), body, max(lanes, 1)))


@cache
def _compiled(name: str, dtype: str, arity: int, lanes: int, target: str | None) -> CompiledKernel:
    return compile_kernel(function_kernel(name, dtype, arity, lanes, target))


def applied(name: str, *arguments: np.ndarray, lanes: int = 0, target: str | None = None) -> np.ndarray:
    """A function of arrays by machine code. The length is a multiple of `lanes`."""
    first = arguments[0]
    code = _compiled(name, first.dtype.name, len(arguments), lanes, target)
    return run(code, *arguments, lanes=lanes, target=target)


def run(code: CompiledKernel, *arguments: np.ndarray, lanes: int = 0, target: str | None = None) -> np.ndarray:
    """The result of a compiled `function_kernel`."""
    first = arguments[0]
    assert len(first) % max(lanes, 1) == 0
    out = np.zeros(len(first), target or first.dtype)
    assert _native.run(code.address, [*arguments, out], 1) == 0
    return out


_LIMIT = 2.0**128  # what infinity counts as, among results in float32
_EXPONENT = np.int64(0x7FF << 52)
_LEAST = np.float64(2.0**-126).view(np.int64)  # the exponent of subnormals


def ulps(found: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """The errors of results in float32, in ulp of the exact results, which are given in float64.

    Infinity counts as 2¹²⁸. The error is infinite where only one is NaN, or where zeros differ in sign.
    """
    wide, want = found.astype(np.float64), reference
    is_regular = bool((np.abs(want) < _LIMIT).all()) and bool((np.abs(wide) < _LIMIT).all()) and bool(want.all())
    if not is_regular:
        wide, want = np.clip(wide, -_LIMIT, _LIMIT), np.clip(want, -_LIMIT, _LIMIT)
    ulp = np.maximum(want.view(np.int64) & _EXPONENT, _LEAST).view(np.float64)
    error = np.abs(wide - want) / ulp
    error *= 2.0**23
    if is_regular:
        return error
    wrong = np.isnan(wide) != np.isnan(want)
    wrong |= (wide == 0) & (want == 0) & (np.signbit(wide) != np.signbit(want))
    return np.where(wrong, math.inf, np.nan_to_num(error, nan=0))


def decimal_ulps(found: np.ndarray, reference: list[Decimal]) -> np.ndarray:
    """The errors of finite or infinite results in float64, in ulp of the exact results. Infinity counts as 2¹⁰²⁴."""
    limit = Decimal(2) ** 1024

    def error(got: float, want: Decimal) -> float:
        want = max(-limit, min(limit, want))
        number = Decimal(got) if math.isfinite(got) else limit.copy_sign(Decimal(got))
        exponent = max(math.frexp(float(want))[1] - 1, -1022) if abs(want) < limit else 1023
        return float(abs(number - want) / Decimal(2) ** (exponent - 52))

    return np.array([error(got, want) for got, want in zip(found.tolist(), reference, strict=True)])


def exact(name: str, *arguments: float) -> Decimal:
    """A function with 50 digits, of finite arguments at which it is finite. The context has at least 60."""
    x = Decimal(arguments[0])
    return _EXACT[name](x, Decimal(arguments[1])) if name == "pow" else _EXACT[name](x)


def _expm1(x: Decimal) -> Decimal:
    return x + x * x / 2 if abs(x) < Decimal("1e-25") else x.exp() - 1


def _log1p(x: Decimal) -> Decimal:
    return x - x * x / 2 if abs(x) < Decimal("1e-25") else (1 + x).ln()


def _tanh(x: Decimal) -> Decimal:
    if abs(x) < Decimal("1e-25"):
        return x
    e = (2 * min(x, Decimal(100))).exp()
    return (e - 1) / (e + 1)


def _erf(x: Decimal) -> Decimal:
    """The Taylor series; the arguments' terms are below 10²⁵."""
    if abs(x) > 7:
        return Decimal(1).copy_sign(x)
    total, power, n = Decimal(0), x, 0
    while total + power != total or n < abs(x) ** 2:
        total, n = total + power / (2 * n + 1), n + 1
        power = -power * x * x / n
    return 2 * total / PI.sqrt()


def _erfc(x: Decimal) -> Decimal:
    """1 - erf(x) with digits for the difference; from 7 on Laplace's continued fraction."""
    if x < 7:
        return 1 - _erf(x)
    fraction = Decimal(0)
    for n in range(400, 0, -1):
        fraction = Decimal(n) / 2 / (x + fraction)
    return (-x * x).exp() / (PI.sqrt() * (x + fraction))


def _pow(x: Decimal, y: Decimal) -> Decimal:
    return (y * abs(x).ln()).exp()


PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534211707")
_EXACT = {
    "exp": Decimal.exp,
    "exp2": lambda x: (x * Decimal(2).ln()).exp(),
    "expm1": _expm1,
    "log": Decimal.ln,
    "log1p": _log1p,
    "tanh": _tanh,
    "logistic": lambda x: 1 / (1 + (-x).exp()),
    "erf": _erf,
    "erfc": _erfc,
    "sqrt": Decimal.sqrt,
    "rsqrt": lambda x: 1 / x.sqrt(),
    "cbrt": lambda x: (abs(x).ln() / 3).exp().copy_sign(x) if x else x,
    "pow": _pow,
}
