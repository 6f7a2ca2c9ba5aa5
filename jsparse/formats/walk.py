"""Reads the coordinates back from index arrays."""

from collections.abc import Sequence

import numpy as np

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
    rows: dict[int, np.ndarray] = {}
    stored = iter(arrays)
    size = 1
    for level in format.levels:
        if level.kind is LevelKind.DENSE:
            extent = shape[level.dim]
            rows = {dim: np.repeat(row, extent) for dim, row in rows.items()}
            rows[level.dim] = np.tile(np.arange(extent, dtype=dtype), size)
            size *= extent
            continue
        if level.kind is LevelKind.COMPRESSED:
            children = np.diff(next(stored))
            rows = {dim: np.repeat(row, children) for dim, row in rows.items()}
        rows[level.dim] = next(stored)
        size = len(rows[level.dim])
    return [rows[dim] for dim in range(len(shape))]
