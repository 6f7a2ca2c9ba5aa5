"""Patterns of entries that are sorted already are those of the same entries in any order."""

import numpy as np
import pytest

from jsparse.errors import FormatError
from jsparse.formats import Format, Pattern

FORMATS = [
    *("csf", "coo", "dense"),
    "(i, j, k) -> (k : dense, j : compressed, i : dense)",
    "(i, j, k) -> (i : compressed, j : dense, k : compressed)",
    "(i, j, k) -> (j : compressed(nonunique), k : singleton, i : compressed)",
    "(i, j, k) -> (i : dense, j : compressed(nonunique), k : singleton)",
    "(i, j, k) -> (i : compressed, j : range, k : dense)",
]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("density", [0, 0.3, 1])
def test_as_from_unsorted_entries(format, density):
    rng = np.random.default_rng(3)
    shape, layout = (4, 3, 5), Format.of(format, 3)
    order = layout.order
    stored = np.nonzero(rng.random([shape[dim] for dim in order]) < density)
    rows = [stored[order.index(dim)] for dim in range(3)]
    pattern, built = Pattern.from_rows(rows, shape, layout, sorted_by=order)
    expected, general = Pattern.from_rows(rows, shape, layout)
    assert pattern == expected
    np.testing.assert_array_equal(built.slots(), general.slots())
    np.testing.assert_array_equal(built.gather(), general.gather())


def test_unique_levels_above_a_singleton_must_not_repeat():
    layout = Format.of("(i, j) -> (i : compressed, j : singleton)", 2)
    with pytest.raises(FormatError, match="to have each coordinate once"):
        Pattern.from_rows([np.array([1, 1]), np.array([0, 2])], (3, 4), layout, sorted_by=(0, 1))
