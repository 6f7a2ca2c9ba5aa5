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
