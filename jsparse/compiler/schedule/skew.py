"""How much more often than by chance the entries of two patterns have equal coordinates.

In a graph, an entry's column is often a vertex with many entries in its own row, so a product visits more entries than
the mean length of rows tells. Histograms of the coordinates tell it exactly, as sizes of joins are estimated in
databases (Ioannidis, The History of Histograms, VLDB 2003).
"""

from __future__ import annotations

import numpy as np

from jsparse.base.memo import remembered
from jsparse.compiler.schedule.stored import Stored
from jsparse.formats import Pattern

__all__ = ["skew"]

LARGEST = 1 << 20  # the largest dimension that gets a histogram
EVEN = 1.25  # what is below counts as even, so that the noise of random patterns decides nothing


def skew(first: Stored, first_level: int, second: Stored, second_level: int) -> float:
    """The pairs of entries with equal coordinates, over the pairs that even patterns of these sizes would have.

    The coordinates are those of one level of each pattern, and both levels store dimensions of one size. The result is
    1 for dynamic patterns, whose coordinates are not known.
    """
    if not (isinstance(first, Pattern) and isinstance(second, Pattern)):
        return 1.0
    dims = first.format.levels[first_level].dim, second.format.levels[second_level].dim
    size = first.shape[dims[0]]
    if not (0 < size <= LARGEST and first.nse and second.nse):
        return 1.0
    found = float(_histogram(first, dims[0]) @ _histogram(second, dims[1])) * size / (first.nse * second.nse)
    return found if found > EVEN else 1.0


@remembered(maxsize=64)
def _histogram(pattern: Pattern, dim: int) -> np.ndarray:
    """The number of entries with each coordinate."""
    return np.bincount(pattern.rows()[dim], minlength=pattern.shape[dim]).astype(np.float64)
