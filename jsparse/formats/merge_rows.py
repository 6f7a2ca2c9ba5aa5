"""Set operations on two sparse matrices by scipy's merges of sorted rows, which take linear time."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from jsparse.formats.runs import Kept

__all__ = ["merge_rows"]

Rows: TypeAlias = tuple[np.ndarray, np.ndarray]
"""Pointers, and coordinates that increase in each row."""


def merge_rows(kept: Kept, first: Rows, second: Rows, columns: int) -> Rows:
    """The rows of the entries that a set operation keeps. `columns` is the size of the inner dimension."""
    lhs, rhs = (_matrix(rows, columns) for rows in (first, second))
    if kept == Kept(first=True, both=True, second=True):
        found = lhs + rhs
    elif kept == Kept(first=False, both=True, second=False):
        found = lhs.multiply(rhs)
    elif kept == Kept(first=True, both=False, second=False):
        found = lhs > rhs
    else:
        found = lhs != rhs
    return found.indptr, found.indices


def _matrix(rows: Rows, columns: int) -> Any:
    """The matrix that is True at the entries."""
    from scipy.sparse import csr_array  # noqa: PLC0415

    pointers, coordinates = rows
    matrix = csr_array((np.ones(len(coordinates), np.bool_), coordinates, pointers), (len(pointers) - 1, columns))
    matrix.has_canonical_format = True
    return matrix
