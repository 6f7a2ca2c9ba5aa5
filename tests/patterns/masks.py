"""Masks of patterns, and what a format makes of them."""

from __future__ import annotations

import numpy as np
from stored import closure

from jsparse import Format, Pattern
from jsparse.pattern import RUNS
from jsparse.tensor.composed import ComposedTensor, Composition

__all__ = ["COMPOSED", "FORMATS", "check", "mask_of", "of_mask", "storable"]

FORMATS = [
    "csr",
    "csc",
    "coo",
    "dcsr",
    "dense",
    RUNS,
    "(i, j) -> (j : dense, i : range)",
    "(i, j) -> (i : compressed, j : range)",
    "(i, j) -> (i : range, j : compressed)",
    "(i, j) -> (i : compressed, j : dense)",
    "(i, j) -> (j : range, i : dense)",
]
COMPOSED = {"bsr(2, 3)": (2, 3), "dbsr(2, 2)": (2, 2), "block_group_coo(2, 1, 2)": (1, 2), "ell": (1, 1), "hyb": (1, 1)}
"""The rows and columns of a block."""


def mask_of(pattern):
    """The mask of a pattern, whose index arrays are checked."""
    assert Pattern(pattern.shape, pattern.format, pattern.arrays) == pattern
    mask = np.zeros(pattern.shape, bool)
    mask[tuple(pattern.rows())] = True
    assert mask.sum() == pattern.nse  # no entry twice
    return mask


def of_mask(mask, format):
    """The pattern that stores a mask, and what else the format has to store."""
    format = Format.of(format, mask.ndim)
    return Pattern.from_coordinates(np.stack(np.nonzero(closure(mask, format))), mask.shape, format)[0]


def storable(mask, format):
    """Whether a format can store a mask and nothing else."""
    if format in COMPOSED:
        b, c = COMPOSED[format]
        blocks = {(i // b, j // c) for i, j in np.argwhere(mask)}
        return all(mask[i * b : (i + 1) * b, j * c : (j + 1) * c].all() for i, j in blocks)
    return np.array_equal(closure(mask, Format.of(format, mask.ndim)), mask)


def check(pattern, mask):
    """Check that a pattern has the entries of a mask, and index arrays like those made of coordinates."""
    if isinstance(pattern, Composition):
        ones = ComposedTensor(np.ones(pattern.nse, np.int32), pattern)
        np.testing.assert_array_equal(ones.todense(), mask)
        assert pattern.nnz == mask.sum()
        return
    np.testing.assert_array_equal(mask_of(pattern), mask)
    if mask.size:  # without elements compressed levels may have positions or not
        assert pattern == of_mask(mask, pattern.format)
