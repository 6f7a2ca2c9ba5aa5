"""Checks of the entries of an archive: the types of single items, and index arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from jsparse.errors import FileFormatError, shorten
from jsparse.formats import Pattern
from jsparse.tensor.dynamic_pattern import DynamicPattern


def number(entries: Mapping[str, np.ndarray], name: str) -> int:
    """Return the integer in an entry. Raises FileFormatError if the entry is anything else."""
    _check_item(entries[name], name, "iu")
    return int(entries[name])


def text(entries: Mapping[str, np.ndarray], name: str) -> str:
    """Return the text in an entry. Raises FileFormatError if the entry is anything else."""
    _check_item(entries[name], name, "U")
    return str(entries[name])


def check_index(what: str, pattern: Pattern | DynamicPattern, nse: int, arrays: Sequence[np.ndarray]) -> None:
    """Raise FileFormatError if the file has another nse, or other dtypes of index arrays, than a pattern made of it."""
    if pattern.nse != nse or any(array.dtype != pattern.index_dtype for array in arrays):
        dtypes = ", ".join(str(array.dtype) for array in arrays)
        raise FileFormatError(
            f"Its {what} takes nse={pattern.nse} and index arrays of {pattern.index_dtype}, but it has nse={nse} and "
            f"{dtypes or 'none'}."
        )


def _check_item(array: np.ndarray, name: str, kinds: str) -> None:
    if array.shape or array.dtype.kind not in kinds:
        raise FileFormatError(f"Its {name} is {array.dtype} of shape {shorten(array.shape)}, not one item.")
