"""A reference for indirect accesses in exact integers: every index variable is an axis of a grid, and tables are read
at all its points. The functions depend only on numpy, so a reproducer contains their source."""

import numpy as np

__all__ = ["add", "axes", "read"]


def axes(sizes):
    """The coordinates of each index at all points, in arrays that broadcast."""
    return dict(zip(sizes, np.ix_(*(np.arange(n) for n in sizes.values())), strict=True))


def read(array, *where, outside=0):
    """The elements of an array at these indices; `outside` where an index is out of range."""
    inside = np.ones((), bool)
    for index, size in zip(where, array.shape, strict=True):
        inside = inside & (index >= 0) & (index < size)
    if not array.size:
        return np.full(inside.shape, outside)
    return np.where(inside, array[tuple(np.where(inside, index, 0) for index in where)], outside)


def add(total, where, value, at):
    """Add the values at all points of the grid `at` to the elements `where` of `total`, unless out of range."""
    *where, value = np.broadcast_arrays(*where, value, *at.values())[: len(where) + 1]
    inside = np.ones(value.shape, bool)
    for index, size in zip(where, total.shape, strict=True):
        inside &= (index >= 0) & (index < size)
    if where:
        np.add.at(total, tuple(index[inside] for index in where), value[inside])
    else:
        total += value.sum()
    return total
