"""Types of KernelIR: numbers and short vectors of numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace

__all__ = ["BOOL", "I32", "I64", "Type", "scalar_type"]


@dataclass(frozen=True, slots=True)
class Type:
    """A number of the numpy dtype `dtype`, or a vector of `lanes` of them (0: a scalar)."""

    dtype: str
    lanes: int = 0

    def __str__(self) -> str:
        return f"<{self.lanes} x {self.dtype}>" if self.lanes else self.dtype

    @property
    def is_float(self) -> bool:
        """Whether arithmetic is floating-point."""
        return self.dtype.startswith("float")

    @property
    def scalar(self) -> Type:
        """The type of one lane."""
        return replace(self, lanes=0)

    def widened(self, lanes: int) -> Type:
        """The vector type of that many lanes."""
        return replace(self, lanes=lanes)


I64 = Type("int64")
I32 = Type("int32")
BOOL = Type("bool")


def scalar_type(dtype: str) -> Type:
    """The scalar type of a numpy dtype's name."""
    return Type(dtype)
