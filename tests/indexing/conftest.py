"""Fixtures of the tests of indexing."""

import numpy as np
import pytest


@pytest.fixture
def dense():
    """A matrix (5, 7) of small integers, about a third of them nonzero."""
    rng = np.random.default_rng(0)
    return (rng.integers(1, 9, (5, 7)) * (rng.random((5, 7)) < 0.35)).astype(np.float32)
