"""Masks of patterns, and what a format makes of them."""

from __future__ import annotations

import numpy as np
from stored import closure

from jsparse import Format, Pattern
from jsparse.pattern import RUNS

__all__ = ["FORMATS", "check", "mask_of", "of_mask", "storable"]

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
    return np.array_equal(closure(mask, Format.of(format, mask.ndim)), mask)


def check(pattern, mask):
    """Check that a pattern has the entries of a mask, and index arrays like those made of coordinates."""
    np.testing.assert_array_equal(mask_of(pattern), mask)
    if mask.size:  # without elements compressed levels may have positions or not
        assert pattern == of_mask(mask, pattern.format)
