"""Checks of requested sizes: the capacity of a pattern, and the shape and the bytes of an array."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import jax
import numpy as np

from jsparse.base import _native
from jsparse.errors import NotYetSupportedError, PatternError, ShapeError, short_repr, shorten

MOST_BYTES = 2**47
"""The most bytes of one array: the address space of a Linux process.

XLA adds up the bytes of a program's buffers in int64 and aborts the process on overflow. Sums of arrays below this
limit do not overflow.
"""

MOST_COUNTED = 2**60
"""The most bytes of an array that XLA does not store, or that has no elements. XLA adds up their bytes, too."""

_SMALL = 2**30
"""The bytes of an array that fits the memory of every machine."""

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def parse_nse(nse: Any, what: str) -> int | None:
    """Convert an argument `nse=` to int or None. Raises ShapeError if it is not a concrete integer >= 0."""
    if nse is None:
        return None
    try:
        count = -1 if isinstance(nse, bool | np.bool_) else operator.index(nse)
    except TypeError:  # such as a tracer
        count = -1
    if count < 0:
        raise ShapeError(
            f"Expected nse= of {shorten(what)} to be a number of entries, nse >= 0, but got {short_repr(nse)}. Pass "
            f"a Python int."
        )
    return min(count, 2**63)  # no pattern has more slots


def check_capacity(needed: int, nse: int | None, what: Callable[[], str]) -> None:
    """Raise PatternError, with `what` in its message, if an argument `nse=` is less than is needed."""
    if nse is not None and needed > nse:
        raise PatternError(
            f"Expected nse= of at least {needed:,}, {what()}, but got nse={nse:,}. Pass a larger number, or leave it "
            "out."
        )


def check_constant(shape: Sequence[Any], what: str) -> None:
    """Raise NotYetSupportedError if a size is an expression in symbols, as `jax.export.symbolic_shape` makes them.

    The message calls the array `what`.
    """
    symbolic = next((size for size in shape if not isinstance(size, int | np.integer)), None)
    if symbolic is not None:
        raise NotYetSupportedError(
            f"Expected {what} to have sizes that are numbers, but got shape {shorten(tuple(shape))}, where "
            f"{shorten(symbolic)} is a symbol. Kernels are compiled for one size: export a program for each size, or "
            "pad arrays to one size."
        )


def check_bytes(shape: Sequence[int], dtype: Any, what: str, advice: str, most: int = MOST_BYTES) -> None:
    """Raise ShapeError if an array of that shape exceeds `most` bytes or, by default, the memory of the machine.

    Raises NotYetSupportedError as `check_constant` does.

    XLA reports an array that it cannot allocate as an error. But if no call waits for the result at that time, the
    process is aborted when numpy reads the result. The message calls the array `what` and ends in `advice`. For an
    array without elements, the check uses the product of its nonzero sizes.
    """
    check_constant(shape, what)
    count = prod(size or 1 for size in shape) * np.dtype(dtype).itemsize
    if count <= most:
        if most == MOST_BYTES and count > _SMALL and 0 not in shape:
            check_memory(count, f"{what} of shape {shorten(tuple(shape))}", advice)
        return
    if 0 not in shape:
        size = _format_bytes(count)
    elif count > MOST_COUNTED:
        most, size = MOST_COUNTED, f"{_format_bytes(count)}, times 0"
    else:
        return
    raise ShapeError(
        f"Expected {what} to have at most {_format_bytes(most)}, but with shape {shorten(tuple(shape))} and dtype "
        f"{np.dtype(dtype).name} it has {size}. {advice}"
    )


def check_memory(count: int, what: str, advice: str) -> None:
    """Raise ShapeError if `count` bytes are more than the machine's memory. The message calls them `what`.

    Arrays that are larger than the free memory may still be allocated, and the system ends the process when it writes
    to them. This check refuses requests that the machine could not serve even if all of its memory were free.
    """
    memory = _native.memory_bytes()
    if count > memory and count > memory * jax.process_count():  # the processes of a job share an array
        raise ShapeError(
            f"Expected {what} to fit {_format_bytes(memory)} of memory, but it takes {_format_bytes(count)}. {advice}"
        )


def _format_bytes(count: int) -> str:
    if count >= 2**70:
        return f"more than 2**{count.bit_length() - 1} bytes"
    unit = min((count.bit_length() - 1) // 10, len(_UNITS) - 1)
    return f"{count / 2 ** (10 * unit):,.4g} {_UNITS[unit]}"
