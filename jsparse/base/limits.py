"""How much may be asked for: entries that there is room for, and bytes of an array."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from jsparse.errors import ShapeError, represented, shortened

__all__ = ["MOST_BYTES", "MOST_COUNTED", "check_bytes", "checked_nse"]

MOST_BYTES = 2**47
"""Of one array: what a process of Linux can address at all. XLA counts the bytes of a program's buffers in int64, and
ends the process where they do not fit; sums of arrays below this fit, and what is larger than the memory there is, it
refuses by an error."""

MOST_COUNTED = 2**60
"""Of an array that XLA goes through without storing it, or that has no elements: its bytes are counted all the same."""

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def checked_nse(nse: Any, what: str) -> int | None:
    """`nse=` as an int; None stays. Raises ShapeError unless it is an integer >= 0 that is known."""
    if nse is None:
        return None
    try:
        count = -1 if isinstance(nse, bool | np.bool_) else operator.index(nse)
    except TypeError:  # tracers among them
        count = -1
    if count < 0:
        raise ShapeError(
            f"Expected nse= of {shortened(what)} to be a number of entries, nse >= 0, but got {represented(nse)}."
        )
    return min(count, 2**63)  # nothing has more


def check_bytes(shape: Sequence[int], dtype: Any, what: str, advice: str, most: int = MOST_BYTES) -> None:
    """Raises ShapeError if an array, `what`, of that shape needs more bytes; `advice` says what to do.

    Of an array without elements, the sizes that are not 0 count.
    """
    count = prod(size or 1 for size in shape) * np.dtype(dtype).itemsize
    if count <= most:
        return
    if 0 not in shape:
        size = _shown(count)
    elif count > MOST_COUNTED:
        most, size = MOST_COUNTED, f"{_shown(count)}, times 0"
    else:
        return
    raise ShapeError(
        f"Expected {what} to have at most {_shown(most)}, but with shape {shortened(tuple(shape))} and dtype "
        f"{np.dtype(dtype).name} it has {size}. {advice}"
    )


def _shown(count: int) -> str:
    if count >= 2**70:
        return f"more than 2**{count.bit_length() - 1} bytes"
    unit = min((count.bit_length() - 1) // 10, len(_UNITS) - 1)
    return f"{count / 2 ** (10 * unit):,.4g} {_UNITS[unit]}"
