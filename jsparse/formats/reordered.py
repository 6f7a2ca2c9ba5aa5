"""The entries of a pattern in another format."""

from __future__ import annotations

import numpy as np

from jsparse import _native
from jsparse.formats.build import build, without_memory
from jsparse.formats.format import Format
from jsparse.formats.levels import COMPRESSED, DENSE
from jsparse.formats.pattern import Pattern
from jsparse.formats.set_operations import Stored

__all__ = ["reordered"]


def reordered(source: Pattern | Stored, format: Format) -> tuple[tuple[np.ndarray, ...], np.ndarray | None]:
    """The index arrays of the same entries in a format, and for each slot that of the source, or -1 if it has none.

    Arrays may be those of the source. There is no second result if every slot stays where it is. Raises FormatError as
    `build` does.
    """
    if _is_transposition(source.format, format):
        try:
            *arrays, gather = _transposed(source, format.order[0])
        except MemoryError as error:
            raise without_memory(error, format, source.shape) from error
        return tuple(arrays), gather
    built = build(source.rows(), source.shape, format, sorted_by=source.format.order)
    return built.arrays, None if built.is_identity else built.gather()


def _is_transposition(source: Format, target: Format) -> bool:
    """Whether a conversion groups a matrix's entries by the coordinate of the last level, which becomes dense."""
    kinds = tuple(level.kind for level in target.levels)
    return (
        kinds == (DENSE, COMPRESSED) and source.order == target.order[::-1] and source.levels[-1].kind.has_coordinates
    )


def _transposed(source: Pattern | Stored, dim: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    keys = source.arrays[-1]
    if source.format.name in ("csr", "csc"):
        return _native.transpose(keys, source.shape[dim], source.arrays[0], True)
    return _native.transpose(keys, source.shape[dim], source.rows()[source.format.order[0]], False)
