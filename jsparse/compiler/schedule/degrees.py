"""The degrees of a static pattern: how many entries have each coordinate.

In a graph, an entry's column is often a vertex with many entries in its own row, so a product visits more entries than
the mean length of rows suggests. Histograms of the coordinates give the exact number, as databases estimate the sizes
of joins (Ioannidis, The History of Histograms, VLDB 2003). Coordinates whose degrees have the same number of binary
digits form a group, and estimates use the histograms' sums over groups.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from jsparse.base.memo import memoize
from jsparse.compiler.schedule.layout import AnyPattern
from jsparse.formats import Pattern

LARGEST = 1 << 20  # the largest dimension that gets a histogram
EVEN = 1.25  # a skew between 1 / EVEN and EVEN counts as even, so that the noise of random patterns decides nothing
REMEMBERED = 64
SAMPLE = 256  # the entries of a sample
PATHS = 2_048  # the entries of a sample that continues in another pattern, where entries count less evenly
SPREAD = 40_503  # a prime number: the entries of a sample continue with different entries of the second pattern


def skew(first: AnyPattern, first_level: int, second: AnyPattern, second_level: int) -> float:
    """Return the number of pairs of entries with equal coordinates, divided by this number for evenly spread entries.

    The coordinates belong to one level of each pattern, and both levels store dimensions of one size. The result is 1
    for dynamic patterns, whose coordinates are not known, and for a quotient of at most `EVEN`.
    """
    if not (isinstance(first, Pattern) and isinstance(second, Pattern)):
        return 1.0
    dims = first.format.order[first_level], second.format.order[second_level]
    quotient = float(pairs_of_groups(first, dims[0], second, dims[1]).sum())
    return quotient if quotient > EVEN else 1.0


@memoize(maxsize=REMEMBERED)
def degree_groups(pattern: Pattern, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Group coordinates of similar degree. Return each group's number of coordinates, and its share of all entries.

    Coordinates without entries belong to no group. All coordinates of a large dimension form one group.
    """
    if not _has_histogram(pattern, dim):
        return np.array([float(pattern.shape[dim])]), np.ones(1)
    degrees, groups = _histogram(pattern, dim), _groups(pattern, dim)
    counts, sums = np.bincount(groups), np.bincount(groups, degrees)
    return counts[1:].astype(float), sums[1:] / pattern.nse


def stores_every(pattern: Pattern, dim: int) -> bool:
    """Whether each coordinate of a dimension is known to have an entry."""
    return _has_histogram(pattern, dim) and bool(degree_groups(pattern, dim)[0].sum() == pattern.shape[dim])


@memoize(maxsize=REMEMBERED)
def pairs_of_groups(first: Pattern, first_dim: int, second: Pattern, second_dim: int) -> np.ndarray:
    """Return the number of entry pairs with equal coordinates, for each pair of groups of the coordinates.

    A row of the result belongs to a group of `first`, and a column to a group of `second`. The coordinates of a group
    have similar degrees. All numbers are divided by the total number of entry pairs with equal
    coordinates that two patterns with evenly spread entries would have.
    """
    if not (_has_histogram(first, first_dim) and _has_histogram(second, second_dim)):
        return np.multiply.outer(degree_groups(first, first_dim)[1], degree_groups(second, second_dim)[1])
    one, other = _groups(first, first_dim).astype(np.intp), _groups(second, second_dim)
    shape = int(one.max()) + 1, int(other.max()) + 1
    pairs = _histogram(first, first_dim).astype(float) * _histogram(second, second_dim)
    pairs = np.bincount(one * shape[1] + other, pairs, shape[0] * shape[1]).reshape(shape)[1:, 1:]
    return pairs * first.shape[first_dim] / (float(first.nse) * second.nse)


@memoize(maxsize=REMEMBERED)
def common_share(first: Pattern, first_dims: tuple[int, ...], second: Pattern, second_dims: tuple[int, ...]) -> float:
    """Estimate, from a sample, the share of the first pattern's entries that the second pattern also stores.

    Args:
        first_dims: all dimensions of the first pattern.
        second_dims: for each of these dimensions, the dimension of the second pattern with the same index variable.
    """
    if not first.nse or not second.nse:
        return 0.0
    chosen, rows = _sample(first, SAMPLE), first.rows()
    sought = {dim: rows[first_dim][chosen] for first_dim, dim in zip(first_dims, second_dims, strict=True)}
    return float(np.mean(_stores(second, sought)))


@memoize(maxsize=REMEMBERED)
def share_of_closed_paths(
    first: Pattern, dim: int, second: Pattern, third: Pattern, of_first: tuple[int, ...], of_second: tuple[int, ...]
) -> float:
    """Estimate for which share of the pairs of entries a third pattern has an entry.

    A pair has an entry of the first and an entry of the second pattern, with one coordinate in common. For the edges ij
    and jk of a graph, the result is the share of paths i, j, k that are part of a triangle. Each sampled entry of the
    first pattern is paired with one entry of the second. The pair is weighted by the number of entries with which the
    sampled entry could be paired (random walks, as in Li et al., Wander Join, SIGMOD 2016).

    Args:
        dim: the dimension of the first pattern with the index variable of the second pattern's outermost level.
        of_first: for each dimension of the third pattern, the dimension of the first with the same index variable, or
            -1.
        of_second: the dimensions of the second pattern, in the same form.
    """
    if not first.nse or not second.nse or not third.nse:
        return 0.0
    chosen, rows, others = _sample(first, PATHS), first.rows(), second.rows()
    start, stop = _segments(others[second.format.order[0]], rows[dim][chosen])
    counts = stop - start
    if not counts.any():
        return 0.0
    next_ = np.minimum(start + SPREAD * np.arange(len(chosen)) % np.maximum(counts, 1), second.nse - 1)
    sources = zip(of_first, of_second, strict=True)
    sought = [rows[one][chosen] if one >= 0 else others[other][next_] for one, other in sources]
    return float(counts @ _stores(third, dict(enumerate(sought))) / counts.sum())


def _sample(pattern: Pattern, count: int) -> np.ndarray:
    """Return the positions of at most `count` entries, at equal distances in storage order."""
    return np.linspace(0, pattern.nse - 1, min(count, pattern.nse)).astype(np.int64)


def _stores(pattern: Pattern, sought: Mapping[int, np.ndarray]) -> np.ndarray:
    """Return for each point whether a pattern stores it. `sought` maps a dimension to the coordinates of all points."""
    rows, (outermost, *dims) = pattern.rows(), pattern.format.order
    start, stop = _segments(rows[outermost], sought[outermost])
    for dim in dims:  # entries are sorted by one level after the other
        column, x = rows[dim], sought[dim]
        start, stop = _lower_bounds(column, start, stop, x), _lower_bounds(column, start, stop, x + 1)
    return np.asarray(start < stop)


def _segments(column: np.ndarray, sought: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Find where the entries with each sought coordinate begin and end in a sorted column."""
    return column.searchsorted(sought), column.searchsorted(sought, "right")


def _lower_bounds(column: np.ndarray, start: np.ndarray, stop: np.ndarray, sought: np.ndarray) -> np.ndarray:
    """Find the first position in each sorted segment of a column at which the coordinate is at least `sought`."""
    while (going := start < stop).any():
        middle = (start + stop) // 2
        less = going & (column[np.minimum(middle, len(column) - 1)] < sought)
        start, stop = np.where(less, middle + 1, start), np.where(going & ~less, middle, stop)
    return start


def _has_histogram(pattern: Pattern, dim: int) -> bool:
    return 0 < pattern.shape[dim] <= LARGEST and pattern.nse > 0


@memoize(maxsize=REMEMBERED)
def _groups(pattern: Pattern, dim: int) -> np.ndarray:
    """The group of each coordinate: the number of binary digits of its degree, 0 for coordinates without entries."""
    return np.frexp(_histogram(pattern, dim))[1].astype(np.uint8)


@memoize(maxsize=REMEMBERED)
def _histogram(pattern: Pattern, dim: int) -> np.ndarray:
    """The number of entries with each coordinate."""
    return np.bincount(pattern.rows()[dim], minlength=pattern.shape[dim]).astype(np.int32)
