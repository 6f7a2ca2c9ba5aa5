"""The static description of dynamic patterns, and padding to it and back."""

import numpy as np
import pytest

from jsparse.formats import Format, Pattern, PatternType
from jsparse.formats.dynamic import pad, trim


@pytest.mark.parametrize(
    "format, shape, nse, capacities, lengths",
    [
        ("csr", (4, 5), 7, (4, 7), (5, 7)),
        ("csr", (4, 5), 90, (4, 20), (5, 20)),
        ("coo", (4, 5), 7, (7, 7), (2, 7, 7)),
        ("dcsr", (4, 5), 7, (4, 7), (2, 4, 5, 7)),
        ("(i, j) -> (i : compressed, j : singleton)", (4, 5), 7, (7, 7), (2, 7, 7)),
        ("(i, j) -> (i : compressed, j : dense)", (4, 5), 15, (3, 15), (2, 3)),
        ("(i, j, k) -> (i : compressed, j : dense, k : compressed)", (9, 5, 2), 3, (3, 15, 3), (2, 3, 16, 3)),
        ("dense", (4, 5), 20, (4, 20), ()),
    ],
)
def test_capacities_follow_from_nse(format, shape, nse, capacities, lengths):
    type_ = PatternType(shape, Format.of(format, len(shape)), nse)
    assert type_.level_sizes == capacities
    assert type_.array_lengths == lengths
    assert type_.index_dtype == np.int32
    assert hash(type_) == hash(PatternType(shape, Format.of(format, len(shape)), nse))


def test_indices_are_wide_where_they_must_be():
    assert PatternType((2**31, 5), Format.of("coo", 2), 3).index_dtype == np.int64
    assert PatternType((5, 5), Format.of("coo", 2), 2**31).index_dtype == np.int64


@pytest.mark.parametrize("format", ["csr", "csc", "coo", "dcsr", "dcsc", "(i, j) -> (i : compressed, j : dense)"])
@pytest.mark.parametrize("padding", [0, 4, 40])
def test_pad_and_trim(format, padding):
    rng = np.random.default_rng(0)
    pattern, _ = Pattern.from_coordinates(rng.integers(0, 6, (2, 9)), (6, 6), format)
    nse = pattern.nse + 6 * padding
    type_ = PatternType(pattern.shape, pattern.format, nse)
    arrays = pad(pattern, nse)
    assert tuple(map(len, arrays)) == type_.array_lengths
    assert trim(type_, arrays) is pattern
