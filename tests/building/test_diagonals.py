import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from relocations import BLOCKS, CUBES, MATRICES, agree, as_dense, made

import jsparse


@pytest.mark.parametrize("k", [0, 1, -2, 9, -(10**12)])
@pytest.mark.parametrize("name", ["tril", "triu"])
def test_triangles(dense, name, k):
    def expected(x):
        return getattr(np, name)(x, max(-99, k))

    agree(lambda A: getattr(jsparse, name)(A, k), expected, dense, formats=MATRICES, jit=k == 1)


def test_triangles_of_other_tensors(dense, cube):
    agree(lambda A: jsparse.tril(A, 1), lambda x: np.tril(x, 1), cube, formats=CUBES)
    own = scipy.sparse.csr_array(dense)
    found = jsparse.tril(own)
    assert found.nse == scipy.sparse.tril(own).nnz
    assert found.format.name == "csr"
    A = made(dense, "coo", dynamic=True)
    assert jsparse.triu(A).nse == A.nse


@pytest.mark.parametrize("k", [0, 1, -2, 7, -7])
def test_diagonals_of_matrices(dense, k):
    agree(lambda A: jsparse.diag(A, k), lambda x: np.diag(x, k), dense, formats=MATRICES, jit=k == 1)
    agree(lambda A: A.trace(k), lambda x: np.trace(x, k), dense, formats=["csr", "coo", BLOCKS], jit=False)


def test_diagonals_of_tensors_of_three_dimensions(cube):
    agree(jsparse.diagonal, np.diagonal, cube, formats=CUBES)
    for axes in [(1, 0, 2), (-1, -1, 0), (0, 2, 1)]:
        agree(
            lambda A, axes=axes: A.diagonal(*axes),
            lambda x, axes=axes: np.diagonal(x, *axes),
            cube,
            formats=["csf"],
            jit=False,
        )
        agree(
            lambda A, axes=axes: A.trace(*axes),
            lambda x, axes=axes: np.trace(x, *axes),
            cube,
            formats=["csf"],
            jit=False,
        )


@pytest.mark.parametrize("k", [0, 2, -1])
@pytest.mark.parametrize("format", [None, "coo", "csc"])
def test_matrices_of_vectors(dense, k, format):
    v = dense[0]
    expected = np.diag(v, k)
    for given in (v, jnp.asarray(v), jsparse.asarray(v), made(v, "coo", dynamic=True)):
        found = jsparse.diag(given, k, format=format)
        assert found.format.name == (format or "csr")
        np.testing.assert_array_equal(as_dense(found), expected)
    assert jsparse.diag(v).nse == 6
    assert jsparse.diag(jsparse.asarray(v)).nse == np.count_nonzero(v)


def test_dtypes_of_traces(dense):
    for dtype in (np.int8, np.bool_, np.uint8, np.float16, np.complex64):
        x = dense.astype(dtype)
        found, expected = jsparse.trace(jsparse.asarray(x)), jnp.trace(x)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


def test_large_dimensions():
    size = 10**9
    A = jsparse.SparseTensor.from_coords([[3, size - 1, 8], [5, size - 1, 8]], np.ones(3, np.float32), (size, size))
    assert jsparse.trace(A) == jsparse.trace(A.dynamic(7)) == 2
    assert (jsparse.tril(A).nse, jsparse.triu(A, 1).nse) == (2, 1)
    assert jsparse.diag(jsparse.zeros(size)).shape == (size, size)
