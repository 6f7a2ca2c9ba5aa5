"""The dtypes of arithmetic, and the types of KernelIR.

Elements are loaded in their tensor's dtype, widened in registers, and narrowed when a result is stored. So a result is
rounded once, and integers wrap as if every operation had wrapped.

    stored                              computed
    float16, bfloat16                   float32
    int8, int16, uint8, uint16, bool    int32; a store to bool writes whether the number is nonzero
    all others                          the same dtype

A product of several dtypes is computed in the widest of them; every float counts as wider than every integer. Complex
numbers are pairs of real numbers, which kernels compute separately.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import ml_dtypes  # noqa: F401  registers bfloat16 with numpy
import numpy as np

from jsparse.base.dataclass import dataclass

NARROW_FLOATS = ("float16", "bfloat16")
"""Floats that are only stored; arithmetic on them is in float32."""

_WIDENED = {
    "bool": "int32",
    "int8": "int32",
    "int16": "int32",
    "uint8": "int32",
    "uint16": "int32",
    **dict.fromkeys(NARROW_FLOATS, "float32"),
}
_COMPUTED = ("int32", "uint32", "int64", "uint64", "float32", "float64")  # from the narrowest to the widest
_PARTS = {"complex64": "float32", "complex128": "float64"}

DTYPES = (*_WIDENED, *_COMPUTED, *_PARTS)
"""The names of all dtypes that tensors may have."""


@cache
def accumulator(*dtypes: str) -> str:
    """Return the dtype in which to compute a product of real tensors with these dtypes."""
    return max((_WIDENED.get(dtype, dtype) for dtype in dtypes), key=_COMPUTED.index)


def arithmetic_dtype(dtype: str) -> str:
    """Return the dtype in which to compute a result of `dtype`, wide enough that only the final result is rounded."""
    return accumulator(dtype) if dtype in NARROW_FLOATS else dtype


def part(dtype: str) -> str:
    """Return the dtype of the real and imaginary parts of a complex dtype. A real dtype is returned unchanged."""
    return _PARTS.get(dtype, dtype)


def is_complex(dtype: str | np.dtype) -> bool:
    return np.dtype(dtype).kind == "c"


def as_dtype(number: complex, dtype: np.dtype) -> np.ndarray:
    """Convert a number to a dtype. Integers wrap, and a number beyond a float's range becomes infinite."""
    with np.errstate(over="ignore"):
        return np.asarray(int(number.real) if dtype.kind in "iu" else number).astype(dtype)


@dataclass(frozen=True, slots=True)
class Type:
    """The type of a value in KernelIR: a scalar of a numpy dtype (0 lanes), or a vector of such scalars.

    Arithmetic is on int32, int64, uint32, uint64, float32 and float64; other dtypes are only loaded, cast and stored. A
    bool is one bit in a register and a byte in memory.
    """

    dtype: str
    lanes: int = 0

    def __str__(self) -> str:
        return f"<{self.lanes} x {self.dtype}>" if self.lanes else self.dtype

    @property
    def is_float(self) -> bool:
        """Whether the type is a float with arithmetic: float32 or float64."""
        return self.dtype in ("float32", "float64")

    @property
    def is_narrow_float(self) -> bool:
        """Whether the type is a float without arithmetic: float16 or bfloat16."""
        return self.dtype in NARROW_FLOATS

    @property
    def is_signed(self) -> bool:
        """Whether the type is a signed integer."""
        return self.dtype.startswith("int")

    @property
    def scalar(self) -> Type:
        """The type of one lane."""
        return replace(self, lanes=0)

    def with_lanes(self, lanes: int) -> Type:
        return replace(self, lanes=lanes)


I64 = Type("int64")
BOOL = Type("bool")
