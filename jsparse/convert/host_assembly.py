"""Assembly of dynamic patterns from known entries, on the host."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from jsparse.formats import DynamicType, Format
from jsparse.formats.build import build, build_summed
from jsparse.formats.coordinates import checked_rows
from jsparse.formats.dynamic import padded_arrays
from jsparse.primitives.host import is_on_host, on_device, padded_array

__all__ = ["assembled_on_host", "inside", "stores_any"]


def assembled_on_host(coords: Any, values: Any, type_: DynamicType) -> tuple[Any, tuple[Any, ...]] | int | None:
    """The values and index arrays of entries on a pattern of that type: what `assemble` and sums of values give.

    Args:
        coords: integers of shape (dimensions, n). Those out of range are padding.
        values: numbers of shape (n, ...).

    Returns the number of slots alone if it exceeds the capacity, and None where a program has to do it.
    """
    if not is_on_host(coords, values) or not stores_any(type_.format):
        return None
    given, entries = np.asarray(coords), np.asarray(values)
    used = inside(given, type_.shape)
    if used is not None:
        given, entries = given[:, used], entries[used]
    rows = checked_rows(list(given))
    found = build_summed(rows, entries, type_.shape, type_.format) if entries.ndim == 1 else None
    if found is None:
        built = build(rows, type_.shape, type_.format)
        found = built.arrays, built.summed(entries)
    arrays, sums = found
    if len(sums) > type_.nse:
        return len(sums)
    made = padded_array(sums.reshape(-1), type_.nse * prod(entries.shape[1:]))
    first, *others = on_device([made, *padded_arrays(type_, arrays)], [values, coords])
    return first, tuple(others)


def stores_any(format: Format) -> bool:
    """Whether a format stores any entries: a unique level above a singleton has one for each of its coordinates."""
    return not any(
        level.unique and below.kind.is_branchless
        for level, below in zip(format.levels, format.levels[1:], strict=False)
    )


def inside(rows: np.ndarray, sizes: Sequence[int]) -> np.ndarray | None:
    """The entries whose coordinates lie within a tensor of these sizes; None for all."""
    stay: Any = None
    for row, size in zip(rows, sizes, strict=True):
        unsigned = row.view(f"u{row.itemsize}")  # a negative number becomes a large one
        within = unsigned < size
        if not within.all():
            stay = within if stay is None else stay & within
    return None if stay is None else np.flatnonzero(stay)
