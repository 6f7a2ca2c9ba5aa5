import jax
import jax.numpy as jnp
import numpy as np
import pytest
from relocations import MATRICES, as_dense

import jsparse


@pytest.mark.parametrize("format", [None, *MATRICES])
@pytest.mark.parametrize("n, m, k", [(4, None, 0), (3, 5, 1), (5, 3, -2), (3, 4, 9), (0, 3, 0), (3, 3, -3)])
def test_eye(format, n, m, k):
    for call in (jsparse.eye, jax.jit(jsparse.eye, static_argnums=(0, 1, 2), static_argnames=("dtype", "format"))):
        found = call(n, m, k, dtype="int32", format=format)
        assert found.dtype == np.int32
        np.testing.assert_array_equal(as_dense(found), np.eye(n, m, k))


@pytest.mark.parametrize("format", [None, *MATRICES])
def test_zeros(format):
    found = jsparse.zeros((3, 4), "complex64", format)
    assert found.dtype == np.complex64
    np.testing.assert_array_equal(as_dense(found), np.zeros((3, 4)))


def test_defaults():
    assert jsparse.eye(3).dtype == jsparse.zeros(3).dtype == np.float32
    assert jsparse.eye(3).format.name == jsparse.zeros((3, 4)).format.name == "csr"
    assert jsparse.zeros(7).shape == (7,)
    assert jsparse.zeros(()).nse == 1
    with jax.enable_x64(True):
        assert jsparse.eye(3).dtype == np.float64


def test_large_dimensions():
    size = 10**9
    assert jsparse.eye(size, 4).format.name == jsparse.zeros((size, size)).format.name == "dcsr"
    np.testing.assert_array_equal(jsparse.eye(4, 10**10, 10**9).to_coords()[0][1], size + np.arange(4))
    assert jsparse.zeros((size, size, size)).nse == 0


def test_values_are_computed_inside_programs():
    text = jax.jit(lambda x: jsparse.eye(3000, dtype="float32").values + x).lower(jnp.float32(2)).as_text()
    assert len(text) < 2000
