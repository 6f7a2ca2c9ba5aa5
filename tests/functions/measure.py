"""Functions in machine code on arrays, and their errors in ulp of the exact result."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from jsparse import _native
from jsparse.compiler.backends.backend import CompiledKernel
from jsparse.compiler.backends.llvm import compile_kernel
from jsparse.compiler.kernel.kernel import Kernel
from jsparse.compiler.kernel.nodes import Buffer, Call, Const, Extent, For, Load, Store, Var
from jsparse.compiler.kernel.types import Type

__all__ = ["applied", "function_kernel", "ulps"]


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
    assert len(first) % max(lanes, 1) == 0
    code = _compiled(name, first.dtype.name, len(arguments), lanes, target)
    out = np.zeros(len(first), target or first.dtype)
    assert _native.run(code.address, [*arguments, out], 1) == 0
    return out


def ulps(found: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """The error of each number in ulp of its exact value, which has more digits.

    It is infinite where one is NaN, infinite, or has another sign of zero, and the other is not.
    """
    type_ = np.finfo(found.dtype)
    with np.errstate(all="ignore"):
        nearest = exact.astype(found.dtype)
        size = np.abs(exact)
        exponent = np.maximum(np.frexp(size)[1].astype(np.int64) - 1, type_.minexp)
        error = np.abs(found.astype(exact.dtype) - exact) / np.ldexp(exact.dtype.type(1), exponent - type_.nmant)
    special = ~np.isfinite(nearest) | ~np.isfinite(found) | ((nearest == 0) & (found == 0))
    same = (found == nearest) & (np.signbit(found) == np.signbit(nearest)) | (np.isnan(found) & np.isnan(exact))
    # The largest number stands for results that round to infinity, and infinity for those that round to the largest.
    beyond = np.isfinite(found) & np.isinf(nearest) & (size < 2.0 * float(type_.max)) & (np.abs(found) == type_.max)
    error = np.where(special, np.where(same, 0, np.where(beyond, 1, math.inf)), error)
    return error.astype(np.float64)
