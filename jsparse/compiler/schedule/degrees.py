"""The degrees of a static pattern: how many entries have each coordinate.

In a graph, an entry's column is often a vertex with many entries in its own row, so a product visits more entries than
the mean length of rows tells. Histograms of the coordinates tell it exactly, as sizes of joins are estimated in
databases (Ioannidis, The History of Histograms, VLDB 2003). Coordinates whose degrees have the same number of binary
digits form a group, and what estimates need of histograms is kept by groups.
"""

from __future__ import annotations

import numpy as np

from jsparse.base.memo import remembered
from jsparse.compiler.schedule.stored import Stored
from jsparse.formats import Pattern

__all__ = ["SAMPLE", "common_share", "degree_groups", "pairs_of_groups", "skew", "stores_every"]

LARGEST = 1 << 20  # the largest dimension that gets a histogram
EVEN = 1.25  # what is below counts as even, so that the noise of random patterns decides nothing
REMEMBERED = 64
SAMPLE = 256  # the entries of a sample


def skew(first: Stored, first_level: int, second: Stored, second_level: int) -> float:
    """The pairs of entries with equal coordinates, over the pairs that even patterns of these sizes would have.

    The coordinates are those of one level of each pattern, and both levels store dimensions of one size. The result is
    1 for dynamic patterns, whose coordinates are not known.
    """
    if not (isinstance(first, Pattern) and isinstance(second, Pattern)):
        return 1.0
    dims = first.format.levels[first_level].dim, second.format.levels[second_level].dim
    found = float(pairs_of_groups(first, dims[0], second, dims[1]).sum())
    return found if found > EVEN else 1.0


@remembered(maxsize=REMEMBERED)
def degree_groups(pattern: Pattern, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """For each group the number of its coordinates, and the share of the entries that have one of them.

    Coordinates without entries belong to no group. Those of large dimensions form one group.
    """
    if not _has_histogram(pattern, dim):
        return np.array([float(pattern.shape[dim])]), np.ones(1)
    degrees, groups = _histogram(pattern, dim), _groups(pattern, dim)
    counts, sums = np.bincount(groups), np.bincount(groups, degrees)
    return counts[1:].astype(float), sums[1:] / pattern.nse


def stores_every(pattern: Pattern, dim: int) -> bool:
    """Whether each coordinate of a dimension is known to have an entry."""
    return _has_histogram(pattern, dim) and bool(degree_groups(pattern, dim)[0].sum() == pattern.shape[dim])


@remembered(maxsize=REMEMBERED)
def pairs_of_groups(first: Pattern, first_dim: int, second: Pattern, second_dim: int) -> np.ndarray:
    """For each group of the one and of the other, the pairs of entries with equal coordinates, over the pairs in all
    that even patterns would have."""
    if not (_has_histogram(first, first_dim) and _has_histogram(second, second_dim)):
        shares = degree_groups(first, first_dim)[1], degree_groups(second, second_dim)[1]
        return np.multiply.outer(*shares)
    one, other = _groups(first, first_dim).astype(np.intp), _groups(second, second_dim)
    shape = int(one.max()) + 1, int(other.max()) + 1
    pairs = _histogram(first, first_dim).astype(float) * _histogram(second, second_dim)
    found = np.bincount(one * shape[1] + other, pairs, shape[0] * shape[1]).reshape(shape)[1:, 1:]
    return found * first.shape[first_dim] / (float(first.nse) * second.nse)


@remembered(maxsize=REMEMBERED)
def common_share(first: Pattern, first_dims: tuple[int, ...], second: Pattern, second_dims: tuple[int, ...]) -> float:
    """The share of the first pattern's entries that the second one stores, too, in a sample.

    Args:
        first_dims: all dimensions of the first pattern.
        second_dims: the second one's dimension for each of them.
    """
    if not first.nse or not second.nse:
        return 0.0
    rows, others = first.rows(), second.rows()
    chosen = np.linspace(0, first.nse - 1, min(SAMPLE, first.nse)).astype(np.int64)
    start, stop = np.zeros(len(chosen), np.int64), np.full(len(chosen), second.nse)
    for level in second.format.levels:  # entries are sorted by one level after the other
        sought = rows[first_dims[second_dims.index(level.dim)]][chosen].astype(np.int64)
        column = others[level.dim]
        start, stop = _lower_bounds(column, start, stop, sought), _lower_bounds(column, start, stop, sought + 1)
    return float(np.mean(start < stop))


def _lower_bounds(column: np.ndarray, start: np.ndarray, stop: np.ndarray, sought: np.ndarray) -> np.ndarray:
    """For each segment of a column, which is sorted, the first position whose coordinate is at least `sought`."""
    while (going := start < stop).any():
        middle = (start + stop) // 2
        less = going & (column[np.minimum(middle, len(column) - 1)] < sought)
        start, stop = np.where(less, middle + 1, start), np.where(going & ~less, middle, stop)
    return start


def _has_histogram(pattern: Pattern, dim: int) -> bool:
    return 0 < pattern.shape[dim] <= LARGEST and pattern.nse > 0


@remembered(maxsize=REMEMBERED)
def _groups(pattern: Pattern, dim: int) -> np.ndarray:
    """The group of each coordinate: the number of binary digits of its degree, 0 for coordinates without entries."""
    return np.frexp(_histogram(pattern, dim))[1].astype(np.uint8)


@remembered(maxsize=REMEMBERED)
def _histogram(pattern: Pattern, dim: int) -> np.ndarray:
    """The number of entries with each coordinate."""
    return np.bincount(pattern.rows()[dim], minlength=pattern.shape[dim]).astype(np.int32)
