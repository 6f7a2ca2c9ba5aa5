"""Overflow: eager calls raise, traced calls give NaN, and results remain marked as overflowed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse
from jsparse.convert.creation import asarray
from jsparse.tensor.sparse_tensor import SparseTensor

FORMATS = ["csr", "csc", "coo", "dcsr", "dcsc", "(i, j) -> (i : compressed, j : dense)"]


def overflowed(dense, format="csr"):
    A = jax.jit(lambda x: asarray(x, format, dynamic=True, nse=7))(dense)
    assert A.overflowed
    return A


@pytest.mark.sampled(2)
@pytest.mark.parametrize("format", FORMATS)
def test_everything_that_follows_is_nan(dense, format):
    A = overflowed(dense, format)
    assert A.nse == 7
    assert A.nnz > 7
    x = jnp.ones(7)
    for found in (
        A.values,
        A.todense(),
        A @ x,
        x[:5] @ A,
        A.T @ x[:5],
        A.sum(0),
        (2 * A).values,
        (A * np.ones((5, 7))).values,
        A.with_values(jnp.ones(7)).values,
        A.with_values(jnp.ones(7)) @ x,
        A.asformat("coo").values,
        A.asformat("csr", nse=35).values,
        A.asformat("dense").values,
        A.with_transpose() @ x,
        A.dynamic(30).values,
        jsparse.einsum("ik,jk->ij", jnp.ones((5, 2)), jnp.ones((7, 2)), out_format=A).values,
    ):
        assert np.isnan(found).all()


@pytest.mark.parametrize("target", FORMATS)
def test_results_stay_overflowed(dense, target):
    A = overflowed(dense)
    for B in (A.asformat(target, nse=35), 2 * A, A.T, A.astype(jnp.int32), jax.jit(lambda A: A.asformat(target))(A)):
        assert B.overflowed
        assert B.nnz > B.nse


def test_integers_keep_the_entries_within_capacity(dense):
    with jsparse.config(overflow="cut"):
        A = overflowed(dense.astype(np.int32))
    assert A.overflowed
    assert set(A.values.tolist()) <= set(dense.ravel().astype(int).tolist())


def test_gradients_are_nan(dense):
    A = overflowed(dense)
    gradient = jsparse.grad(lambda A: A.todense().sum())(A)
    assert np.isnan(gradient.values).all()
    coords = np.array([[0, 1, 2], [0, 1, 2]])
    loss = lambda v: SparseTensor.from_coords(coords, v, (3, 3), nse=2).values.sum()  # noqa: E731
    assert np.isnan(jax.jit(jax.value_and_grad(loss))(jnp.ones(3))[0])


def test_infinities_and_signed_zeros_are_kept():
    values = np.array([np.inf, -np.inf, -0.0, 3, complex(np.inf, 1)], np.complex64)
    A = SparseTensor.from_coords(np.arange(5)[None], np.ones(5, np.complex64), (5,), nse=5)
    np.testing.assert_array_equal(A.with_values(values).values, values)
    real = A.with_values(values.real).values
    np.testing.assert_array_equal(real, values.real)
    assert np.signbit(real[2])
