"""Computes sizes of levels, and coordinates of slots, from index arrays."""

from collections.abc import Sequence
from itertools import islice

import numpy as np

from jsparse.base import _native
from jsparse.formats.build import level_tuples
from jsparse.formats.format import Format

__all__ = ["coordinate_rows", "level_sizes"]


def level_sizes(shape: Sequence[int], format: Format, arrays: Sequence[np.ndarray]) -> tuple[int, ...]:
    """The number of positions of each level."""
    sizes: list[int] = []
    stored, positions = iter(arrays), 1
    for level in format.levels:
        own = list(islice(stored, len(level.kind.arrays)))
        positions = level.kind.positions(positions, shape[level.dim], own)
        sizes.append(positions)
    return tuple(sizes)


def coordinate_rows(
    shape: Sequence[int], format: Format, arrays: Sequence[np.ndarray], dtype: np.dtype
) -> list[np.ndarray]:
    """The coordinates (`dtype`) of all slots, for each dimension. They may be the index arrays themselves."""
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
    """The index array of each dimension of the last chain, which has a coordinate for each slot."""
    last = format.chains[-1]
    if not format.levels[last[0]].kind.has_coordinates:
        return {}
    return {format.levels[level].dim: row for level, row in zip(last, arrays[len(arrays) - len(last) :], strict=True)}
