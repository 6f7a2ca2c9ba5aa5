"""Signatures of kernels: the element type and the extents of each buffer.

The extension checks every buffer before a kernel receives the buffer's pointer (`csrc/kernel/signature.h`). It checks
bound arrays when they are bound, operands and results when a program is lowered and at each of its calls, and host
arrays when a kernel runs on them. An extent is a number, or `factor * symbol + constant` with a symbol that has the
same value in all buffers. So the lengths of index arrays follow the formulas of their format for any number of entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from jsparse.base.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Length:
    """The length `factor * symbol + constant`; without a symbol, `constant`."""

    constant: int
    symbol: str | None = None
    factor: int = 1

    def times(self, size: int) -> Length:
        """Return this length multiplied by `size`."""
        return Length(self.constant * size, self.symbol, self.factor * size)

    def __add__(self, count: int) -> Length:
        """Return this length plus `count`."""
        return replace(self, constant=self.constant + count)

    def __str__(self) -> str:
        if self.symbol is None:
            return str(self.constant)
        product = self.symbol if self.factor == 1 else f"{self.factor}*{self.symbol}"
        return product if not self.constant else f"{product} + {self.constant}"


@dataclass(frozen=True, slots=True)
class BufferType:
    """The axis lengths and the dtype of a buffer. If `dtype` is a size in bytes, any dtype of this size is allowed."""

    dtype: str | int
    shape: tuple[Length, ...]

    def within(self, symbols: str) -> BufferType:
        """Prefix the symbols of the type with `symbols`, so that they differ from the symbols of other kernels."""
        shape = (n if n.symbol is None else replace(n, symbol=f"{symbols}{n.symbol}") for n in self.shape)
        return replace(self, shape=tuple(shape))

    def with_leading_axis(self, size: int) -> BufferType:
        """Return the type with one more leading axis, of length `size`."""
        return replace(self, shape=(Length(size), *self.shape))

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


def static_buffer_type(dtype: str | int | np.dtype, *shape: int) -> BufferType:
    """The type of a buffer whose shape is known."""
    return BufferType(dtype.name if isinstance(dtype, np.dtype) else dtype, tuple(map(Length, shape)))


def element_code(dtype: str | int | np.dtype) -> int:
    """Return the extension's code for an element type: its size in bytes, plus 256 · the character of its numpy kind.

    If the type is given as a size in bytes, the code is this size.
    """
    if isinstance(dtype, int):
        return dtype
    element = np.dtype(dtype)
    return ord(element.kind) << 8 | element.itemsize


def encode_buffers(buffers: Iterable[BufferType]) -> list[int]:
    """Encode the types of a kernel's buffers as the numbers that `csrc/kernel/signature.h` reads."""
    buffers, symbols = tuple(buffers), dict[str, int]()

    def axis(length: Length) -> Sequence[int]:
        if length.symbol is None:
            return -1, 1, length.constant
        return symbols.setdefault(length.symbol, len(symbols)), length.factor, length.constant

    body = [
        number
        for buffer in buffers
        for number in (element_code(buffer.dtype), len(buffer.shape), *(n for x in buffer.shape for n in axis(x)))
    ]
    return [len(buffers), len(symbols), *body]
