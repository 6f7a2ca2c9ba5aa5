"""Unevaluated sums of two floats, with twice as many digits as one float (Dekker, 1971; Shewchuk, 1997)."""

from __future__ import annotations

from jsparse.base.dataclass import dataclass
from jsparse.compiler.backends.llvm import cpu
from jsparse.compiler.backends.llvm.functions.vector import Vector, intrinsic

_SPLITTER = {"float32": 2.0**12 + 1, "float64": 2.0**27 + 1}  # they cut the bits of a float into halves


@dataclass(frozen=True, slots=True)
class Pair:
    """high + low, where low is at most half an ulp of high."""

    high: Vector
    low: Vector

    def plus(self, small: Vector | float) -> Pair:
        """The sum of this pair and a much smaller number."""
        return sum_of_ordered(self.high, self.low + small)

    def plus_pair(self, other: Pair) -> Pair:
        """The sum of two pairs."""
        total = sum_of(self.high, other.high)
        return sum_of_ordered(total.high, total.low + (self.low + other.low))

    def times(self, other: Pair) -> Pair:
        """The product of two pairs."""
        total = product(self.high, other.high)
        return sum_of_ordered(total.high, total.low + (self.high * other.low + self.low * other.high))


def sum_of(x: Vector, y: Vector) -> Pair:
    """The exact sum of two floats (Knuth's TwoSum)."""
    high = x + y
    added = high - x
    return Pair(high, (x - (high - added)) + (y - added))


def sum_of_ordered(x: Vector, y: Vector) -> Pair:
    """The exact sum of x and y, where |x| ≥ |y| or x is 0."""
    high = x + y
    return Pair(high, y - (high - x))


def product(x: Vector, y: Vector) -> Pair:
    """The exact product of two floats if nothing overflows, on CPUs with and without a fused multiply-add."""
    high = x * y
    if cpu.has_fused_multiply_add():
        return Pair(high, intrinsic("fma", x, y, -high))
    (a, b), (c, d) = _cut(x), _cut(y)
    return Pair(high, ((a * c - high) + a * d + b * c) + b * d)


def _cut(x: Vector) -> tuple[Vector, Vector]:
    """Split x into two floats whose sum is x. Each has half as many bits as x (Veltkamp)."""
    scaled = _SPLITTER[x.type.dtype] * x
    high = scaled - (scaled - x)
    return high, x - high
