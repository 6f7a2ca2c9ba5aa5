"""Sparse operands whose levels are all dense and that have a dimension of size 0: they store no entries."""

import numpy as np
import pytest

import jsparse

EMPTY = jsparse.asarray(np.zeros((3, 0), np.float32), "dense")
A = jsparse.asarray(np.arange(9).reshape(3, 3).astype(np.float32))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("format", ["dense", "csr", "dcsr", "coo"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_products_and_sums(format, dynamic):
    empty, full = EMPTY.asformat(format), A.dynamic(10) if dynamic else A
    product = jsparse.einsum("ij,ik->ij", full, empty, out_format="csr")
    assert int(product.nnz) == 0
    total = jsparse.evaluate("C[i,j] = A[i,j] * Z[i,k] + A[j,i]", A=full, Z=empty)
    assert int(total.nnz) == A.nse
    np.testing.assert_array_equal(total.todense(), np.arange(9).reshape(3, 3).T)


@pytest.mark.parametrize("format", ["csr", "coo", "dcsc", "(i, j) -> (j : compressed(nonunique), i : compressed)"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_dense_levels_of_no_size_are_added(format, dynamic):
    full = A.asformat(format)
    got = jsparse.einsum("ah,jh->ajh", full.dynamic(10) if dynamic else full, np.zeros((0, 3), np.float32))
    assert isinstance(got, jsparse.SparseTensor)
    assert got.shape == got.todense().shape == (3, 0, 3)
    assert (got.nse, int(got.nnz)) == (0, 0)
