"""Rows without entries contribute nothing, even if the other factor is infinite there."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse

D = np.array([[0, 2, 0], [0, 0, 0], [3, 0, 5]], np.float32)
FORMATS = ("csr", "coo", "dcsr", "csc", "dcsc")


def _factors(columns):
    X = np.ones((3, columns), np.float32)
    X[1], X[0, 0] = np.inf, np.nan
    return X


@pytest.mark.sampled(3)
@pytest.mark.parametrize("columns", [1, 3, 70])
@pytest.mark.parametrize("format", FORMATS)
def test_row_sums_times_dense_rows(format, columns):
    X = _factors(columns)
    wanted = np.where(D.sum(1)[:, None] != 0, D.sum(1)[:, None] * np.where(np.isinf(X), 0, X), 0)
    A = jsparse.asarray(D, format=format)
    np.testing.assert_array_equal(jsparse.einsum("ij,ik->ik", A, X, out_format="dense"), wanted)
    dynamic = jsparse.asarray(D, format=format, dynamic=True, nse=7)
    run = jax.jit(lambda A: jsparse.einsum("ij,ik->ik", A, X, out_format="dense"))
    np.testing.assert_array_equal(run(dynamic), wanted)


@pytest.mark.parametrize("format", ["csf", "coo"])
def test_fibres_of_a_factored_product(format):
    T = np.zeros((3, 4, 5), np.float32)
    T[0, 1] = T[2, 3] = 1
    B, C = np.ones((4, 33), np.float32), np.ones((5, 33), np.float32)
    B[0] = np.inf  # no fibre meets it
    out = jsparse.einsum("ijk,jr,kr->ir", jsparse.asarray(T, format=format), B, C)
    np.testing.assert_array_equal(out, np.array([5, 0, 5], np.float32)[:, None] * np.ones(33))


def test_gradients_are_finite():
    A, X = jsparse.asarray(D), jnp.ones((3, 5)).at[1].set(jnp.inf)
    values = jax.grad(lambda v: jsparse.einsum("ij,ik->ik", A.with_values(v), X, out_format="dense")[2].sum())(A.values)
    np.testing.assert_array_equal(values, [0, 5, 5])


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("text, shape", [("ij,k->i", (0,)), ("ij,jk->i", (3, 0)), ("ij,jk->ij", (3, 0))])
def test_an_index_without_coordinates_leaves_no_terms(text, shape, dynamic):
    """The sum over k alone would be 0, and 0 times NaN is NaN."""
    A = jsparse.asarray(np.where(D == 2, np.nan, np.where(D == 3, np.inf, D)))
    found = jsparse.einsum(text, A.dynamic(7) if dynamic else A, np.zeros(shape, np.float32))
    found = found.todense() if isinstance(found, jsparse.SparseTensor) else found
    np.testing.assert_array_equal(found, np.zeros((3,) * (1 + text.endswith("ij"))))
