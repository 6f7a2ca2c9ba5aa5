"""Single items among the entries of an archive, whose types are checked."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from jsparse.errors import FileFormatError, shortened


def number(entries: Mapping[str, np.ndarray], name: str) -> int:
    """Return the integer in an entry. Raises FileFormatError if the entry is anything else."""
    _check_item(entries[name], name, "iu")
    return int(entries[name])


def text(entries: Mapping[str, np.ndarray], name: str) -> str:
    """Return the text in an entry. Raises FileFormatError if the entry is anything else."""
    _check_item(entries[name], name, "U")
    return str(entries[name])


def _check_item(array: np.ndarray, name: str, kinds: str) -> None:
    if array.shape or array.dtype.kind not in kinds:
        raise FileFormatError(f"Its {name} is {array.dtype} of shape {shortened(array.shape)}, not one item.")
