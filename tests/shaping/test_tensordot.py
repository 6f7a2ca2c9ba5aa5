import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from relocations import as_dense, integers, made

import jsparse


@pytest.mark.sampled(2)
@pytest.mark.parametrize("axes", [1, 2, 0, ([0, 2], [1, 0]), ([-1], [0]), (0, 1)], ids=str)
def test_operands_of_any_kind(axes):
    x, y = integers(3, 4, 5), integers(5, 3, 4, seed=1)
    if axes == 2:
        y = y.transpose(2, 0, 1).reshape(4, 5, 3)
    if axes == (0, 1):
        y = y.reshape(5, 3, 4)
    expected = np.tensordot(x, y, axes)
    for a, b in [(made(x, "csf"), made(y, "coo")), (made(x, "csf"), y), (x, jsparse.asarray(y)), (x, y)]:
        np.testing.assert_array_equal(as_dense(jsparse.tensordot(a, b, axes)), expected)


@pytest.mark.parametrize("axes", [1, ([1], [0])])
def test_lists(dense, axes):
    A, x = jsparse.asarray(dense), np.arange(12).reshape(6, 2)
    np.testing.assert_array_equal(as_dense(jsparse.tensordot(A, x.tolist(), axes)), dense @ x)
    np.testing.assert_array_equal(as_dense(jsparse.tensordot(x.T.tolist(), A.T, axes)), x.T @ dense.T)
    np.testing.assert_array_equal(as_dense(jsparse.tensordot(A, 3, 0)), 3 * dense)
    np.testing.assert_array_equal(jsparse.tensordot(x.T.tolist(), x.tolist(), axes), x.T @ x)


def test_options(dense):
    A, B = made(dense, "csr", dynamic=True), made(dense.T, "csr", dynamic=True)
    found = jsparse.tensordot(A, B, 1, nse=25)
    assert found.nse == 25
    np.testing.assert_array_equal(as_dense(found), dense @ dense.T)
    found = jsparse.tensordot(A, B, 1, out_format="dense", preferred_element_type="float16")
    assert found.dtype == np.float16
    np.testing.assert_array_equal(found, dense @ dense.T)
    found = jsparse.tensordot(scipy.sparse.csr_array(dense), jnp.ones(6), 1)
    np.testing.assert_array_equal(found, dense.sum(1))
