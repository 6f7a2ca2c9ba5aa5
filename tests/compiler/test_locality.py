"""Locality of patterns, against sets of coordinates; and what prefetching makes of it."""

import numpy as np
import pytest

import jsparse
from jsparse import Pattern, explain
from jsparse.compiler.schedule.prices.gathers import read_before


def test_it_is_the_fraction_that_the_row_before_has_read() -> None:
    rng = np.random.default_rng(0)
    dense = rng.random((40, 60)) < 0.3
    pattern, _ = Pattern.from_coordinates(np.stack(np.nonzero(dense)), dense.shape, "csr")
    again = sum(int((dense[n] & dense[n - 1]).sum()) for n in range(1, 40))
    assert read_before(pattern, 1) == pytest.approx(again / dense[1:].sum())


def test_what_is_not_known_counts_as_new() -> None:
    window = jsparse.pattern.window(100, 5)
    assert read_before(window, 0) == 0.0
    assert read_before(jsparse.pattern.causal(100), 1) == 0.0
    assert read_before(jsparse.pattern.full((0, 4)), 1) == 0.0
    assert read_before(jsparse.pattern.window(1, 0), 1) == 0.0
    assert read_before(window, 1) > 0.8


def test_rows_of_a_band_are_not_prefetched() -> None:
    x = np.ones((20_000, 64), np.float32)
    band = jsparse.pattern.window(20_000, 20)
    rng = np.random.default_rng(1)
    spread = Pattern.from_coordinates(rng.integers(0, 20_000, (2, 800_000)), (20_000, 20_000), "csr")[0]
    assert "prefetch" not in str(explain("ij,jk->ik", band, x).schedule)
    assert "prefetch" in str(explain("ij,jk->ik", spread, x).schedule)
