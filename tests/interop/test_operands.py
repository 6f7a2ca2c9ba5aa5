"""BCOO, BCSR and scipy.sparse arrays as operands."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from jax.experimental import sparse

import jsparse

DENSE = np.array([[0, 1, 2], [3, 0, 0]], np.float32)
OTHER = np.array([[1, 0, 0], [5, 0, -2]], np.float32)
X = jnp.array([1.0, 2.0, 4.0])
FOREIGN = {
    "bcoo": sparse.BCOO.fromdense,
    "bcoo, dense rows": lambda x: sparse.BCOO.fromdense(x, n_dense=1),
    "bcsr": sparse.BCSR.fromdense,
    "csr_array": scipy.sparse.csr_array,
    "csc_matrix": scipy.sparse.csc_matrix,
    "coo_array": scipy.sparse.coo_array,
}


@pytest.fixture(params=FOREIGN)
def A(request):
    return FOREIGN[request.param](DENSE)


def dense(x):
    return x.todense() if isinstance(x, jsparse.SparseTensor) else x


def test_functions_take_arrays_of_other_libraries(A):
    np.testing.assert_array_equal(jsparse.einsum("ij,j->i", A, X), DENSE @ X)
    np.testing.assert_array_equal(jsparse.einsum(A, [0, 1], X, [1], [0]), DENSE @ X)
    np.testing.assert_array_equal(jsparse.einsum("ij,ij->", A, jsparse.asarray(OTHER)), (DENSE * OTHER).sum())
    found = jsparse.evaluate("y[i] = 2 * A[i,j] * x[j] - b[i]", A=A, x=X, b=jnp.ones(2))
    np.testing.assert_array_equal(found, 2 * DENSE @ X - 1)
    assert isinstance(jsparse.einsum("ij->ji", A), jsparse.SparseTensor)
    assert "loop" in str(jsparse.explain("ij,j->i", A, X))
    assert "loop" in str(jsparse.explain("y[i] = A[i,j] * x[j]", A=A, x=X))


def test_operators_take_arrays_of_other_libraries(A):
    B = jsparse.asarray(OTHER)
    np.testing.assert_array_equal(dense(B.T @ A), OTHER.T @ DENSE)
    np.testing.assert_array_equal(dense(B + A), OTHER + DENSE)
    np.testing.assert_array_equal(dense(B - A), OTHER - DENSE)
    np.testing.assert_array_equal(dense(B * A), OTHER * DENSE)


@pytest.mark.parametrize("make", [sparse.BCOO.fromdense, sparse.BCSR.fromdense])
def test_traced_and_differentiated(make):
    A = make(DENSE)
    run = lambda A, x: jsparse.einsum("ij,j->i", A, x)  # noqa: E731
    np.testing.assert_array_equal(jax.jit(run)(A, X), DENSE @ X)
    gradient = jax.jit(jax.grad(lambda A, x: (run(A, x) ** 2).sum(), allow_int=True))(A, X)
    np.testing.assert_array_equal(gradient.data, [40, 80, 6])
    np.testing.assert_array_equal(jax.grad(lambda x: run(A, x).sum())(X), DENSE.sum(0))


def test_batches_are_mapped_over():
    batch = np.stack([DENSE, OTHER])
    A = sparse.BCOO.fromdense(batch, n_batch=1)
    mapped = jax.vmap(lambda A: jsparse.einsum("ij,j->i", A, X))(A)
    np.testing.assert_array_equal(mapped, batch @ X)
    flat = jsparse.einsum("bij,j->bi", A.update_layout(n_batch=0), X, out_format="dense")
    np.testing.assert_array_equal(flat, batch @ X)
