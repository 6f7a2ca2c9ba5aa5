"""Results too large for memory, and dimensions too large for NumPy, are refused before XLA compiles."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from jsparse import SparseTensor

HUGE = 2**32 - 1


@pytest.fixture
def A() -> SparseTensor:
    with jax.enable_x64(True):
        coords = np.array([[0, 5, HUGE - 1], [1, 5, 0]])
        return SparseTensor.from_coords(coords, np.array([1.0, 2.0, 3.0], np.float32), (HUGE, HUGE))


def test_operators_of_huge_matrices(A: SparseTensor) -> None:
    with jax.enable_x64(True):
        np.testing.assert_array_equal((A * A).values, [1, 4, 9])
        B = A.T + A
        assert B.shape == (HUGE, HUGE)
        assert float(B.values.sum()) == 12
        assert (A - A).nse == 3
