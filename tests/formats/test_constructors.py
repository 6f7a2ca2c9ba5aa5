"""Errors for index arrays, coordinates and values: messages say what was expected, what was found, and where."""

import numpy as np
import pytest

import jsparse
from jsparse import DTypeError, FormatError, Pattern, PatternError, ShapeError, SparseTensor


@pytest.mark.parametrize(
    "shape, format, arrays, error, message",
    [
        (
            (3, 4),
            "csr",
            ([0, 1], [0]),
            PatternError,
            "pointers of level 1 to be 4 long, one more than its 3 parents, but got 2",
        ),
        ((3, 4), "csr", ([1, 1, 1, 1], [0]), PatternError, "pointers of level 1 to start at 0"),
        ((3, 4), "csr", ([0, 2, 1, 2], [0, 1]), PatternError, "never to decrease, but 2 is followed by 1 at 2"),
        ((3, 4), "csr", ([0, 1, 1, 3], [0, 1]), PatternError, "the number of coordinates, 2, but got 3"),
        ((3, 4), "csr", ([0, 1, 1, 2], [0, 4]), PatternError, r"lie in \[0, 4\), but the one at position 1 is 4"),
        ((3, 4), "csr", ([0, 1, 1, 2], [0, -1]), PatternError, r"lie in \[0, 4\), but the one at position 1 is -1"),
        ((3, 4), "csr", ([0, 2, 2, 2], [1, 0]), PatternError, "out of order"),
        ((3, 4), "csr", ([0, 2, 2, 2], [1, 1]), PatternError, "repeat"),
        ((3, 4), "coo", ([0, 2], [1, 1], [2, 2]), PatternError, "repeat"),
        (
            (3, 4),
            "csr",
            (np.array([0.0, 1, 1, 1]), [0]),
            PatternError,
            "array of integers, but got shape .* of float64",
        ),
        ((3, 4), "csr", (np.array([0, np.nan, 1, 1]), [0]), PatternError, "array of integers"),
        ((3, 4), "csr", (np.array([False, True, True, True]), [0]), PatternError, "of bool"),
        ((3, 4), "csr", ([[0, 0, 0, 1]], [0]), PatternError, r"one-dimensional .* got shape \(1, 4\)"),
        ((3, 4), "csr", ([0, 0, 0, 0],), PatternError, "Expected 2 index arrays for the format csr"),
        ((-3, 4), "csr", ([0], []), PatternError, r"sizes of a shape .* got \(-3, 4\)"),
        ((3, 4, 5), "csr", ([0, 0, 0, 0], []), FormatError, "Expected a matrix for the format csr"),
    ],
)
def test_patterns(shape, format, arrays, error, message):
    with pytest.raises(error, match=message):
        Pattern(shape, format, arrays)


def test_an_empty_list_of_coordinates():
    assert Pattern((3, 4), "csr", ([0, 0, 0, 0], [])).nse == 0


@pytest.mark.parametrize(
    "coords, values, error, message",
    [
        (np.zeros((3, 2), int), np.ones(2), PatternError, r"coordinates of shape \(2, n\), .* but got \(3, 2\)"),
        ([[0, 3], [0, 0]], np.ones(2), PatternError, r"dimension 0 to lie in \[0, 3\), but entry 1 has 3"),
        ([[0, 1], [0, -1]], np.ones(2), PatternError, r"dimension 1 to lie in \[0, 3\), but entry 1 has -1"),
        ([[0, 1.5], [0, 0]], np.ones(2), PatternError, "integer dtype, but got float64"),
        ([[0, 1], [0, 0]], np.ones(3), ShapeError, r"values of shape \(2,\)"),
    ],
)
def test_coordinates(coords, values, error, message):
    with pytest.raises(error, match=message):
        SparseTensor.from_coords(np.asarray(coords), values, (3, 3))


def test_other_intake():
    with pytest.raises(FormatError, match=r"one of csr, csc, .* but got 'cst'"):
        jsparse.asarray(np.eye(3), format="cst")
    with pytest.raises(DTypeError, match="array of numbers"):
        jsparse.asarray(np.array([["a"]]))
    with pytest.raises(ShapeError, match=r"values of shape \(3,\)"):
        jsparse.asarray(np.eye(3)).with_values(np.ones(4))
