"""Tests of linear algebra use float64, unless a test asks for another dtype."""

import jax
import pytest


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


@pytest.fixture(params=["static", "dynamic"])
def dynamic(request):
    return request.param == "dynamic"
