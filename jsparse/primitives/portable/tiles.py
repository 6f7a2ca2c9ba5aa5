"""A static matrix pattern as tiles: the blocks of SIDE by SIDE elements that hold its entries.

Products of dense tiles are products of matrices, for which every platform has its fastest instructions; products entry
by entry are gathers. What a tile computes beside the entries is masked out. All tile rows with equally many tiles are
computed together, as one batch: they are a *bucket*. The number of tiles is rounded up to a power of two, or to three
quarters of one, so that there are few buckets. Tiles with the same entries, as in a window, share one mask.
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise

import numpy as np

from jsparse.base.dataclass import dataclass
from jsparse.base.memo import memoize
from jsparse.formats import Pattern
from jsparse.primitives.portable.summed import Machine

SIDE = 64
"""The rows and the columns of a tile. Tiles of 128 are as fast for causal masks, but have more padding in windows."""

MOST_ELEMENTS = 16
"""The most elements of tiles for each entry. Emptier tiles take several times as long, and their masks are large."""

PADDING = 0.02
"""A bucket joins the next larger one if this adds at most this share of all tiles: each bucket has its own products."""


@dataclass(frozen=True, eq=False)
class Bucket:
    """Tile rows with equally many tiles.

    Attributes:
        rows: (rows,) the number of each tile row.
        columns: (rows, tiles) the tile column of each tile; 0 in padding.
        masks: (rows, tiles) the index of each tile's mask in `Tiling.masks`; 0 in padding.
    """

    rows: np.ndarray
    columns: np.ndarray
    masks: np.ndarray


@dataclass(frozen=True, eq=False)
class Tiling:
    """The tiles of a pattern.

    Attributes:
        pattern: the pattern.
        buckets: the tile rows that have tiles.
        masks: (masks, SIDE, SIDE / 8) which elements of a tile are stored, as bits. Mask 0 is empty.
    """

    pattern: Pattern
    buckets: tuple[Bucket, ...]
    masks: np.ndarray

    @cached_property
    def elements(self) -> int:
        """The number of elements of all tiles, including padding."""
        return SIDE * SIDE * sum(bucket.columns.size for bucket in self.buckets)

    def pays(self, machine: Machine) -> bool:
        """Whether products take less time by tiles than entry by entry."""
        return self.elements < machine.tile_speed * self.pattern.nse

    @cached_property
    def counts(self) -> tuple[int, int]:
        """The numbers of tile rows and of tile columns."""
        rows, columns = self.pattern.shape
        return -(-rows // SIDE), -(-columns // SIDE)

    @cached_property
    def row_order(self) -> np.ndarray:
        """(tile rows,) where each tile row is among the rows of all buckets; past their end if it has no tiles."""
        return _inverse(np.concatenate([bucket.rows for bucket in self.buckets]), self.counts[0])

    @cached_property
    def by_column(self) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
        """The tiles by columns: for each number of tiles, (columns, tiles) indices among the tiles of all buckets.

        An index past their end is padding. The second value is as `row_order`, for columns.
        """
        columns = np.concatenate([bucket.columns.ravel() for bucket in self.buckets])
        is_stored = np.concatenate([bucket.masks.ravel() for bucket in self.buckets]) > 0
        tiles = np.flatnonzero(is_stored)
        tiles = tiles[np.argsort(columns[tiles], kind="stable")]
        groups = list(_by_count(columns[tiles], self.counts[1]))
        order = np.concatenate([rows for rows, _ in groups])
        padded = np.append(tiles, columns.size)
        return tuple(padded[index].astype(np.int32) for _, index in groups), _inverse(order, self.counts[1])

    @property
    def nbytes(self) -> int:
        """The bytes of the constants of a program that computes with these tiles."""
        arrays = [self.masks, self.row_order, *self.by_column[0], self.by_column[1]]
        for bucket in self.buckets:
            arrays += [bucket.rows, bucket.columns, bucket.masks]
        return sum(x.nbytes for x in arrays)


@memoize(maxsize=64)
def tiling_of(pattern: Pattern) -> Tiling | None:
    """Return the tiles of a pattern; None if it is no matrix or is empty, or if tiles are nearly empty."""
    if pattern.ndim != 2 or not pattern.nse:
        return None
    rows, columns = (np.asarray(x, np.int64) for x in pattern.rows())
    tile_columns = -(-pattern.shape[1] // SIDE)
    tiles, tile_of = np.unique(rows // SIDE * tile_columns + columns // SIDE, return_inverse=True)
    if len(tiles) * SIDE * SIDE > MOST_ELEMENTS * pattern.nse + (1 << 16):
        return None
    stored = np.zeros((len(tiles), SIDE * SIDE), bool)
    stored[tile_of, rows % SIDE * SIDE + columns % SIDE] = True
    bits = np.concatenate([np.zeros((1, SIDE * SIDE // 8), np.uint8), np.packbits(stored, axis=1)])
    masks, mask_of = np.unique(bits, axis=0, return_inverse=True)  # the empty mask comes first
    tile_row, tile_column = np.divmod(tiles, tile_columns)
    columns_and_none, masks_and_none = np.append(tile_column, 0), np.append(mask_of.ravel()[1:], 0)
    buckets = tuple(
        Bucket(rows.astype(np.int32), columns_and_none[index].astype(np.int32), masks_and_none[index].astype(np.int32))
        for rows, index in _by_count(tile_row, -(-pattern.shape[0] // SIDE))
    )
    return Tiling(pattern, buckets, masks.reshape(-1, SIDE, SIDE // 8))


def _by_count(groups: np.ndarray, count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Put groups of elements with equally many elements together, where `groups` is sorted.

    Returns for each rounded number k of elements the groups (n,), and the indices (n, k) of their elements; the number
    of all elements stands for none.
    """
    sizes = np.bincount(groups, minlength=count)
    starts = np.cumsum(sizes) - sizes
    rounded = np.array([_round_up(int(size)) for size in sizes])
    for size, larger in pairwise(np.unique(rounded[rounded > 0])):
        members = rounded == size
        if np.count_nonzero(members) * (larger - size) < PADDING * rounded.sum():
            rounded[members] = larger
    buckets = []
    for size in np.unique(rounded[rounded > 0]):
        members = np.flatnonzero(rounded == size)
        index = starts[members, None] + np.arange(size)
        buckets.append((members, np.where(np.arange(size) < sizes[members, None], index, len(groups))))
    return buckets


def _round_up(size: int) -> int:
    """The least power of two, or three quarters of one, that is not less than `size`; 0 for 0."""
    power = 1 << max(size - 1, 0).bit_length()
    return 0 if size == 0 else 3 * power // 4 if power >= 4 and size <= 3 * power // 4 else power


def _inverse(order: np.ndarray, count: int) -> np.ndarray:
    """Return where each of `count` numbers is in `order`; the length of `order` if it is nowhere."""
    places = np.full(count, len(order), np.int32)
    places[order] = np.arange(len(order))
    return places
