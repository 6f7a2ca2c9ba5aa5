"""What indirect accesses mean, in exact integers: every index variable is an axis of a grid, and what is read from
tables are indices on it. The functions need nothing but each other, so a reproducer carries their source."""

import numpy as np

__all__ = ["add", "axes", "read"]


def axes(sizes):
    """The value of each index at every point, in arrays that broadcast."""
    return dict(zip(sizes, np.ix_(*(np.arange(n) for n in sizes.values())), strict=True))


def read(array, *where, outside=0):
    """What an array holds at these indices; `outside` where one of them is out of range."""
    inside = np.ones((), bool)
    for index, size in zip(where, array.shape, strict=True):
        inside = inside & (index >= 0) & (index < size)
    if not array.size:
        return np.full(inside.shape, outside)
    return np.where(inside, array[tuple(np.where(inside, index, 0) for index in where)], outside)


def add(total, where, value, at):
    """Add to `total` the values at all points of the grid `at`, each at its place; none where that is out of range."""
    *where, value = np.broadcast_arrays(*where, value, *at.values())[: len(where) + 1]
    inside = np.ones(value.shape, bool)
    for index, size in zip(where, total.shape, strict=True):
        inside &= (index >= 0) & (index < size)
    if where:
        np.add.at(total, tuple(index[inside] for index in where), value[inside])
    else:
        total += value.sum()
    return total
