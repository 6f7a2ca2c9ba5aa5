"""Measured facts about the entries of a matrix, and the prices of A X in several formats that follow from them.

The decision between formats may take no longer than a conversion, so nothing is planned for it. A price is the number
of multiply-adds that a csr product would compute in the same time:

    elements · share · (ENTRY + n)  +  rows visited · ROW  +  rows · n · WRITE        for n columns of X

The constants are rounded, and chosen by hand: they follow times that were measured on two cores of an AMD EPYC, under
other load, for matrices of 10⁵ to 10⁶ entries in 1,000 to 130,000 rows. `benchmarks/formats.py` compares the choice
with times.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import log2

import numpy as np

from jsparse.base import _native
from jsparse.base.dataclass import dataclass
from jsparse.formats import Pattern
from jsparse.formats.levels import is_dense_cheap

SIDES = (4, 8, 16, 32, 3)  # of square blocks; blocks of a power of two are filled at most as well as smaller ones
SAMPLE, STRIP, LEAST_STRIPS, MOST_STRIPS = 4096, 96, 6, 24  # entries, rows of a strip: a multiple of all sides, strips
FILLED = 0.8  # the minimum share of entries in a block that is filled well
LEAST_SHARE, LEAST_INSIDE = 0.25, 0.2  # if blocks are filled less, larger ones are not measured

ENTRY = 6.0  # an entry of csr, without its multiply-adds
ROW, ROW_OF_VECTOR = 4.0, 50.0  # a row that is visited, for several columns and for one
WRITE, FRESH, CACHED_BYTES = 1.0, 8.0, 1 << 22  # an element of the result; the same beyond this size, in new pages
ADD = 4.0  # an element of the result to which another part is added: it is read, and its pages exist
COLUMNS = (1, 4, 16, 128, 512)  # the numbers of columns for which shares were measured
SHARES: Mapping[int, tuple[float, ...]] = {
    1: (1.0, 1.0, 1.0, 1.0, 1.0),
    3: (0.9, 0.82, 0.8, 1.0, 1.2),
    4: (0.67, 0.7, 0.68, 0.7, 0.75),
    8: (0.52, 0.6, 0.68, 0.6, 0.63),
    16: (0.42, 1.0, 0.88, 0.57, 0.5),
    32: (0.38, 0.9, 0.95, 0.65, 0.55),
    0: (0.35, 0.4, 0.4, 0.35, 0.35),
}
"""The time of an element of blocks of each side, relative to an entry of csr. 0 stands for a dense level."""


@dataclass(frozen=True, slots=True)
class Fill:
    """How well square blocks are filled.

    Attributes:
        side: the rows and columns of a block.
        share: the share of the blocks' elements that are entries.
        inside: the share of the entries that are in well-filled blocks.
    """

    side: int
    share: float
    inside: float

    def __str__(self) -> str:
        return f"  blocks of {self.side} x {self.side}: {self.share:.0%} filled, {self.inside:.0%} in filled ones"


def product_price(elements: float, side: int, visited: float, rows: int, columns: int, adds: bool = False) -> float:
    """The price of A X, where A has `elements` elements in blocks and loops visit `visited` of its rows of blocks.

    It is the price of a sum Y + A X if the product `adds` to a result.
    """
    share = float(np.interp(log2(columns), np.log2(COLUMNS), SHARES[side]))
    row = ROW if columns > 1 else ROW_OF_VECTOR
    write = FRESH if 4 * rows * columns > CACHED_BYTES else WRITE
    return elements * share * (ENTRY + columns) + visited * row + rows * columns * (ADD if adds else write)


def measure_fills(pattern: Pattern) -> tuple[Fill, ...]:
    """Measure how well square blocks are filled, in strips of rows that are spread over a matrix in csr."""
    rows, columns = pattern.shape
    if not is_dense_cheap(columns, pattern.nse):  # a mark for each column of blocks would be a dense array
        return ()
    pointers, coordinates = pattern.arrays
    pointers, coordinates = _select_strips(pointers, coordinates, rows)
    fills: list[Fill] = []
    for side in (side for side in SIDES if rows % side == columns % side == 0):
        last = fills[-1] if fills else None
        if last and side > last.side and max(last.share - LEAST_SHARE, last.inside - LEAST_INSIDE) < 0:
            continue
        slots, size = _native.block(pointers, coordinates, columns, side, side)[2], side * side
        counts = np.bincount(slots // size)
        inside = counts[counts >= FILLED * size].sum()
        fills.append(Fill(side, len(slots) / max(len(counts) * size, 1), float(inside / max(len(slots), 1))))
    return tuple(fills)


def _select_strips(pointers: np.ndarray, coordinates: np.ndarray, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """The pointers and coordinates of some strips of rows, one below the other."""
    count = rows // STRIP
    strips = min(max(SAMPLE * count // max(len(coordinates), 1), LEAST_STRIPS), MOST_STRIPS)
    if count <= strips:
        return pointers, coordinates
    first_rows = np.linspace(0, count - 1, strips).astype(np.int64) * STRIP
    begins = pointers[first_rows[:, None] + np.arange(STRIP + 1)]
    every = np.zeros(strips * STRIP + 1, pointers.dtype)
    np.cumsum(np.diff(begins), out=every[1:])
    return every, np.concatenate([coordinates[of[0] : of[-1]] for of in begins])
