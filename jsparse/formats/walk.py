"""Reads the coordinates back from index arrays."""

from collections.abc import Sequence

import numpy as np

from jsparse import _native
from jsparse.formats.build import level_tuples
from jsparse.formats.format import Format
from jsparse.formats.level import LevelKind

__all__ = ["coordinate_rows", "level_sizes"]


def level_sizes(shape: Sequence[int], format: Format, arrays: Sequence[np.ndarray]) -> tuple[int, ...]:
    """The number of positions after each level."""
    sizes: list[int] = []
    stored = iter(arrays)
    for level in format.levels:
        if level.kind is LevelKind.DENSE:
            sizes.append((sizes[-1] if sizes else 1) * shape[level.dim])
            continue
        if level.kind is LevelKind.COMPRESSED:
            next(stored)
        sizes.append(len(next(stored)))
    return tuple(sizes)


def coordinate_rows(
    shape: Sequence[int], format: Format, arrays: Sequence[np.ndarray], dtype: np.dtype
) -> list[np.ndarray]:
    """Per dimension, the coordinates (`dtype`) of every slot; rows may be the index arrays themselves."""
    if not shape:
        return []
    found = _stored_rows(format, arrays)
    nse = level_sizes(shape, format, arrays)[-1]
    wanted = [dim not in found for dim in range(len(shape))]
    if any(wanted):
        rows = _native.expand(list(arrays), level_tuples(shape, format), nse, wanted, dtype == np.int64)
        found.update({dim: row for dim, row in enumerate(rows) if row is not None})
    return [found[dim] for dim in range(len(shape))]


def _stored_rows(format: Format, arrays: Sequence[np.ndarray]) -> dict[int, np.ndarray]:
    """Per dimension, the index array that is its row already: those of the last chain, if it holds coordinates."""
    last = format.chains[-1]
    if format.levels[last[0]].kind is LevelKind.DENSE:
        return {}
    return {format.levels[level].dim: row for level, row in zip(last, arrays[len(arrays) - len(last) :], strict=True)}
