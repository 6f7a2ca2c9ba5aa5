"""Types of KernelIR: numbers and short vectors of numbers.

Arithmetic is on int32, int64, uint32, uint64, float32 and float64; other dtypes are only loaded, cast and stored. A
bool is one bit in a register and a byte in memory.
"""

from __future__ import annotations

from dataclasses import replace

from jsparse.base.dataclass import dataclass
from jsparse.compiler.dtypes import NARROW_FLOATS

__all__ = ["BOOL", "I32", "I64", "Type", "scalar_type"]


@dataclass(frozen=True, slots=True)
class Type:
    """A number of a numpy dtype, or a vector of them. A scalar has 0 lanes."""

    dtype: str
    lanes: int = 0

    def __str__(self) -> str:
        return f"<{self.lanes} x {self.dtype}>" if self.lanes else self.dtype

    @property
    def is_float(self) -> bool:
        """Whether it is a floating-point number with arithmetic."""
        return self.dtype in ("float32", "float64")

    @property
    def is_narrow_float(self) -> bool:
        """Whether it is a floating-point number without arithmetic."""
        return self.dtype in NARROW_FLOATS

    @property
    def is_signed(self) -> bool:
        """Whether an integer has a sign."""
        return self.dtype.startswith("int")

    @property
    def scalar(self) -> Type:
        """The type of one lane."""
        return replace(self, lanes=0)

    def widened(self, lanes: int) -> Type:
        """The type with this number of lanes."""
        return replace(self, lanes=lanes)


I64 = Type("int64")
I32 = Type("int32")
BOOL = Type("bool")


def scalar_type(dtype: str) -> Type:
    """The scalar type of a numpy dtype's name."""
    return Type(dtype)
