"""A layer with pruned weights: what share of zeros makes a sparse matrix faster than a dense one."""

from __future__ import annotations

import functools

import scipy.sparse as sp
from graphs import uniform
from harness import Case
from peers import matmul, products

from ._data import dense

ROWS, COLUMNS, WIDTH = 1_024, 4_096, 512


def cases() -> list[Case]:
    """The cases: 80, 90 and 95 % zeros."""
    return [_case(percent) for percent in (80, 90, 95)]


def _case(percent: int) -> Case:
    @functools.cache
    def weights() -> sp.csr_array:
        return uniform((ROWS, COLUMNS), ROWS * COLUMNS * (100 - percent) // 100)

    product = matmul("ij,jk->ik", bcoo=None, bcsr=None)
    return Case(
        name=f"pruned_{percent}",
        description=f"W X, W {ROWS:,} x {COLUMNS:,} with {percent} % zeros, {WIDTH} columns, f32",
        candidates=products(product, weights, lambda: [dense(COLUMNS, WIDTH)]),
        expected=lambda: weights() @ dense(COLUMNS, WIDTH),
    )
