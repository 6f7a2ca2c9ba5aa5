"""Fixtures of the tests of functions that reshape tensors."""

import pytest
from relocations import integers


@pytest.fixture
def dense():
    """A matrix (5, 6) of small integers."""
    return integers(5, 6)


@pytest.fixture
def cube():
    """A tensor (3, 4, 5) of small integers."""
    return integers(3, 4, 5, seed=1)
