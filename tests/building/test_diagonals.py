import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from relocations import BLOCKS, CUBES, MATRICES, agree, as_dense, made

import jsparse
from jsparse.errors import DTypeError, ShapeError


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


def test_refusals(dense, cube):
    A = jsparse.asarray(dense)
    with pytest.raises(ShapeError, match="two dimensions or more for jsparse.tril"):
        jsparse.tril(A[0])
    with pytest.raises(ShapeError, match=r"Expected a vector, or a sparse matrix, .* of shape \(3, 4, 5\)"):
        jsparse.diag(jsparse.asarray(cube))
    with pytest.raises(ShapeError, match="Use jnp.diag for dense matrices"):
        jsparse.diag(dense)
    with pytest.raises(ShapeError, match="different axes for jsparse.diagonal"):
        jsparse.diagonal(A, 0, 1, 1)
    with pytest.raises(ShapeError, match="axis of jsparse.trace from -1 to 0"):
        jsparse.trace(A[0])
    with pytest.raises(DTypeError, match="for jsparse.triu, but got a ndarray"):
        jsparse.triu(dense)
    with pytest.raises(DTypeError, match="for jsparse.diag"):
        jsparse.diag("abc")
