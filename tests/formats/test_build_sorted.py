"""Patterns of entries that are sorted already are those of the same entries in any order."""

import numpy as np
import pytest

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
    mixed = rng.permutation(len(rows[0]))
    expected, general = Pattern.from_rows([row[mixed] for row in rows], shape, layout)
    assert pattern == expected == Pattern.from_rows(rows, shape, layout)[0]
    np.testing.assert_array_equal(built.slots()[mixed], general.slots())
    gather = general.gather()
    np.testing.assert_array_equal(built.gather(), np.where(gather < 0, -1, np.append(mixed, -1)[gather]))


def test_sorted_entries_outside_and_repeated_ones():
    layout = Format.of("csr", 2)
    pattern, built = Pattern.from_rows([np.array([0, 0, 2]), np.array([1, 1, 0])], (3, 4), layout)
    assert pattern.nse == 2
    np.testing.assert_array_equal(built.slots(), [0, 0, 1])
