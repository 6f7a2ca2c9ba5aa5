"""Eager indexing compiles nothing for a new index."""

import jax
import numpy as np
import pytest
from compilations import COMPILED

import jsparse


def sample(format, **options):
    rng = np.random.default_rng(0)
    dense = (rng.random((60, 50)) < 0.1) * rng.integers(1, 9, (60, 50))
    return jsparse.asarray(dense.astype(np.float32), format, **options)


def indexed(A, n):
    """Results of different indices for each n, whose numbers of entries differ."""
    rows = np.arange(n + 3)[::-1] % 7
    return [
        A[n : 40 + n // 2],
        A[::-2, n:],
        A[n],
        A[:, n],
        A[n, n + 1],
        A[rows],
        A[:, rows],
        A[rows > 1] if n == 57 else 0,
    ]


@pytest.mark.parametrize("format", ["csr", "csc", "coo", "dcsr"])
def test_static_patterns(format):
    A = sample(format)
    indexed(A, 0)
    A.at_coords([[1], [2]])
    before = len(COMPILED)
    for n in range(1, 6):
        jax.block_until_ready(indexed(A, n))
        A.at_coords(np.ones((2, n + 5), int))
        A.take(np.arange(n), 1)
    assert len(COMPILED) == before


def test_dynamic_patterns():
    A = sample("csr", dynamic=True)

    def same_sizes(n):
        rows = (np.arange(6) + n) % 60
        return A[n : n + 9], A[::-2, n : n + 9], A[n], A[:, n], A[n, 2], A[rows], A[rows, rows], A.take(rows, 1, nse=50)

    same_sizes(0)
    before = len(COMPILED)
    for n in range(1, 5):
        jax.block_until_ready(same_sizes(n))
    assert len(COMPILED) == before
