"""Locality of static patterns: how often a segment reads coordinates that the previous segment has read, too.

In a band or a mesh neighbouring rows read nearly the same rows of a dense factor, which the nearest cache still holds.
"""

from __future__ import annotations

import numpy as np

from jsparse.base.memo import remembered
from jsparse.compiler.schedule.stored import Stored
from jsparse.formats import Pattern

__all__ = ["mostly_read_before", "read_before"]

PAIRS = 64  # pairs of neighbouring segments that are compared
LONGEST = 512  # the most entries of a segment that are compared
MOSTLY = 0.75  # if the previous segment has read at least this fraction of the rows, a cache is taken to hold them


def mostly_read_before(pattern: Stored, level: int) -> bool:
    """Whether a segment of a level shares most coordinates with the previous segment; False if that is not known."""
    return read_before(pattern, level) >= MOSTLY


def read_before(pattern: Stored, level: int) -> float:
    """The fraction of a level's entries whose coordinates are also in the previous segment; 0 if that is not known."""
    if not isinstance(pattern, Pattern) or not pattern.format.levels[level].kind.has_pointers:
        return 0.0
    return _read_before(pattern, level) if pattern.format.levels[level].kind.has_coordinates else 0.0


@remembered(maxsize=64)
def _read_before(pattern: Pattern, level: int) -> float:
    pointers, coordinates = pattern.pointers(level), pattern.coordinates(level)
    chosen = np.unique(np.linspace(1, max(len(pointers) - 2, 1), PAIRS).astype(np.int64))
    found = entries = 0
    for n in chosen if len(pointers) > 2 else ():
        before = coordinates[pointers[n - 1] : pointers[n]][:LONGEST]
        here = coordinates[pointers[n] : pointers[n + 1]][:LONGEST]
        found += len(np.intersect1d(before, here, assume_unique=pattern.format.levels[level].unique))
        entries += len(here)
    return found / entries if entries else 0.0
