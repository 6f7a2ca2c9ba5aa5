import jax.numpy as jnp
import numpy as np
import pytest
from relocations import made

import jsparse

ORDERS = [None, "fro", 1, -1, np.inf, -np.inf]
VECTOR_ORDERS = [None, 2, 1, 0, 3, 1.5, np.inf, -np.inf]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("ord", ORDERS, ids=str)
@pytest.mark.parametrize(
    "format, dynamic", [("csr", False), ("coo", True), ("(i, j) -> (i : compressed, j : dense)", False)]
)
def test_matrices(dense, ord, format, dynamic):
    x = dense + np.eye(5, 6, dtype=np.float32)
    np.testing.assert_allclose(jsparse.norm(made(x, format, dynamic), ord), np.linalg.norm(x, ord), rtol=1e-6)
    np.testing.assert_allclose(
        jsparse.norm(made(dense[:, :2], format, dynamic), ord), np.linalg.norm(dense[:, :2], ord)
    )


@pytest.mark.parametrize("ord", VECTOR_ORDERS, ids=str)
def test_vectors(dense, ord):
    x = dense[0]
    for A in (made(x, "coo"), made(x, "coo", dynamic=True)):
        np.testing.assert_allclose(jsparse.norm(A, ord), np.linalg.norm(x, ord), rtol=1e-6)
    found = jsparse.norm(jsparse.asarray(dense), ord, axis=0, keepdims=True)
    np.testing.assert_allclose(found, np.linalg.norm(dense, ord, 0, keepdims=True), rtol=1e-6)


@pytest.mark.parametrize("ord", [None, 1, np.inf], ids=str)
def test_tensors_of_three_dimensions(cube, ord):
    A = jsparse.asarray(cube)
    for axis in [(0, 2), (2, 1)]:
        np.testing.assert_allclose(jsparse.norm(A, ord, axis), np.linalg.norm(cube, ord, axis), rtol=1e-6)
    np.testing.assert_allclose(jsparse.norm(A), np.linalg.norm(cube), rtol=1e-6)


def test_dtypes(dense):
    for dtype in (np.int32, np.bool_, np.complex64, np.float16):
        x = dense.astype(dtype) * (1j if dtype == np.complex64 else 1)
        x = x.astype(dtype)
        for ord in (None, 1, np.inf):
            found, expected = jsparse.norm(jsparse.asarray(x), ord), jnp.linalg.norm(x, ord)
            assert found.dtype == expected.dtype
            np.testing.assert_allclose(found, expected, rtol=1e-3 if dtype == np.float16 else 1e-6)


def test_large_dimensions():
    A = jsparse.SparseTensor.from_coords([[3, 3, 10**8], [5, 9, 9]], np.array([3, -4, 1], np.float32), (10**9, 10**9))
    assert [jsparse.norm(A, ord) for ord in (1, np.inf, -1)] == [5, 7, 0]
    np.testing.assert_allclose(jsparse.norm(A.dynamic(5)), np.sqrt(26))
