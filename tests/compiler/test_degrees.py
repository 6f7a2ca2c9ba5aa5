"""Degrees of patterns, against counts of matching entries by numpy; and what trip counts make of it."""

import re

import numpy as np
import pytest
import scipy.sparse as sp

from jsparse import SparseTensor, einsum, explain
from jsparse.compiler.schedule.degrees import skew
from jsparse.formats import Pattern


def _power_law(rng: np.random.Generator, size: int, entries: int, format: str = "csr") -> Pattern:
    """A random pattern whose first coordinates are hubs."""
    coords = np.minimum(rng.zipf(1.5, (2, entries)) - 1, size - 1)
    return Pattern.from_coordinates(coords, (size, size), format)[0]


@pytest.mark.parametrize("formats", [("csr", "csr"), ("csc", "coo"), ("dcsr", "csr")])
@pytest.mark.parametrize("levels", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_skew_is_the_ratio_of_pairs(formats: tuple[str, str], levels: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    both = [_power_law(rng, 100, 300, format) for format in formats]
    rows = [p.to_coords()[p.format.levels[level].dim] for p, level in zip(both, levels, strict=True)]
    pairs = int((rows[0][:, None] == rows[1][None, :]).sum())
    assert skew(both[0], levels[0], both[1], levels[1]) == pytest.approx(pairs * 100 / (both[0].nse * both[1].nse))


def test_even_patterns_have_no_skew() -> None:
    every = Pattern.from_coordinates(np.indices((20, 20)).reshape(2, -1), (20, 20), "csr")[0]
    assert skew(every, 0, every, 1) == 1.0
    empty = Pattern.from_coordinates(np.zeros((2, 0), np.int32), (20, 20), "csr")[0]
    assert skew(empty, 0, every, 0) == 1.0
    huge = Pattern.from_coordinates([[1 << 40]], (1 << 41,), "coo")[0]
    assert skew(huge, 0, huge, 0) == 1.0


def test_masked_product_walks_the_side_with_fewer_products() -> None:
    """Entries of A select rows of B; hubs among them decide whether rows of B or columns of it are read."""
    rng = np.random.default_rng(1)
    size, entries = 3_000, 9_000
    hubs, spread = rng.integers(0, 10, entries), rng.integers(0, size, entries)
    even = rng.integers(0, size, (2, entries))

    def tensor(rows: np.ndarray, columns: np.ndarray) -> SparseTensor:
        return SparseTensor.from_coords(np.stack([rows, columns]), np.ones(entries, np.float32), (size, size), "csr")

    mask, a, b = tensor(spread, hubs), tensor(*even), tensor(spread, hubs)
    plan = str(explain("ij,ik,kj->ij", mask, a, b).schedule)
    assert "workspace j" in plan, plan  # columns of b hold hundreds of entries each, its rows three


def test_masked_product_with_few_entries_is_computed_on_them() -> None:
    """Planning finds the few entries that rows of products share with the mask, among ten thousands of products."""
    rng = np.random.default_rng(1)
    mask, a, b = (
        SparseTensor.from_coords(coords, rng.integers(1, 5, coords.shape[1]), (3_000, 3_000), "csr")
        for coords in (np.unique(rng.integers(0, 3_000, (2, 9_000)), axis=1) for _ in range(3))
    )
    found = einsum("ij,ik,kj->ij", mask, a, b)
    assert 0 < found.nse < 100
    multiplied = re.findall(r"([\d,]+) multiply-adds", str(explain("ij,ik,kj->ij", mask, a, b)))
    assert max(int(count.replace(",", "")) for count in multiplied) < 100
    whole = [sp.csr_array((np.asarray(x.values), np.asarray(x.coords)), x.shape) for x in (mask, a, b)]
    np.testing.assert_array_equal(found.todense(), (whole[0] * (whole[1] @ whole[2])).toarray())
