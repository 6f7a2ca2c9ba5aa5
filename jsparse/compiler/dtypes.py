"""In which dtype arithmetic is done.

Elements are loaded in the dtype in which their tensor stores them, widened in registers, and narrowed again where a
result is stored. So rounding happens once, and integers wrap as if every operation had wrapped.

    stored                      computed
    float16, bfloat16           float32
    int8, int16, uint8, bool    int32; a bool is stored as whether that is not 0
    all others                  in itself

A product of several dtypes is computed in the one that holds most: any float before any integer, then the wider.
Complex numbers are pairs of real ones, which kernels compute one by one.
"""

from __future__ import annotations

import ml_dtypes  # noqa: F401  numpy knows bfloat16 once it is imported
import numpy as np

__all__ = ["DTYPES", "accumulator", "as_dtype", "is_complex", "part", "unrounded"]

_WIDENED = {
    "bool": "int32",
    "int8": "int32",
    "int16": "int32",
    "uint8": "int32",
    "float16": "float32",
    "bfloat16": "float32",
}
_COMPUTED = ("int32", "int64", "float32", "float64")  # by how much they hold
_PARTS = {"complex64": "float32", "complex128": "float64"}

DTYPES = (*_WIDENED, *_COMPUTED, *_PARTS)
"""Names of all dtypes that tensors may have."""


def accumulator(*dtypes: str) -> str:
    """The dtype in which a product of tensors that are stored in these is computed, of real numbers."""
    return max((_WIDENED.get(dtype, dtype) for dtype in dtypes), key=_COMPUTED.index)


def unrounded(dtype: str) -> str:
    """The dtype of an intermediate result: one that loses nothing which `dtype` would keep later on."""
    return accumulator(dtype) if dtype in ("float16", "bfloat16") else dtype


def part(dtype: str) -> str:
    """The dtype of the real and of the imaginary part; a real one itself."""
    return _PARTS.get(dtype, dtype)


def is_complex(dtype: str | np.dtype) -> bool:
    """Whether a dtype is that of complex numbers."""
    return np.dtype(dtype).kind == "c"


def as_dtype(number: complex, dtype: np.dtype) -> np.ndarray:
    """A number in that dtype: an integer wraps, and one that a float does not hold is infinite."""
    with np.errstate(over="ignore"):
        return np.asarray(int(number.real) if dtype.kind in "iu" else number).astype(dtype)
