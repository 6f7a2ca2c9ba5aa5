"""Conversions from and to BCOO and BCSR, inside jit and outside."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import sparse

from jsparse.convert.creation import asarray
from jsparse.formats import Format

CUBE = np.random.default_rng(1).integers(0, 3, (4, 5, 3)).astype(np.float32)
CUBE[1] = 0


@pytest.mark.sampled(3)
@pytest.mark.parametrize("make", [sparse.BCOO.fromdense, sparse.BCSR.fromdense])
@pytest.mark.parametrize("format", [None, "csr", "csc", "coo", "dense"])
def test_matrices(dense, make, format):
    x = make(dense, nse=20)
    A = asarray(x, format)
    assert A.format == Format.of(format or ("coo" if make == sparse.BCOO.fromdense else "csr"), 2)
    assert not A.is_dynamic
    assert format == "dense" or A.nse == np.count_nonzero(dense)
    np.testing.assert_array_equal(A.todense(), dense)
    B = jax.jit(lambda x: asarray(x, format))(x)
    assert B.is_dynamic == (format != "dense")
    assert format == "dense" or B.nse == 20
    np.testing.assert_array_equal(B.todense(), dense)
    assert format == "dense" or asarray(x, format, dynamic=True, nse=25).nse == 25
    assert asarray(x, dtype=np.int32).dtype == np.int32


def test_disorder_duplicates_and_padding():
    indices = np.array([[2, 1], [0, 3], [2, 1], [3, 4], [-1, 0], [0, 9]])
    data = jnp.array([1.0, 2, 4, 8, 16, 32])
    expected = np.array([[0, 0, 0, 2], [0, 0, 0, 0], [0, 5, 0, 0]])
    x = sparse.BCOO((data, indices), shape=(3, 4))
    for A in (asarray(x), jax.jit(asarray)(x), asarray(x, dynamic=True)):
        assert A.nnz == 2
        np.testing.assert_array_equal(A.todense(), expected)
    weights = jnp.arange(12.0).reshape(3, 4)
    for where in (lambda f: f, jax.jit):
        loss = where(lambda d, i: (asarray(sparse.BCOO((d, i), shape=(3, 4))).todense() * weights).sum())
        assert jax.grad(loss)(data, jnp.asarray(indices)).tolist() == [9, 3, 9, 0, 0, 0]


def test_disorder_in_a_bcsr():
    arrays = (jnp.array([1.0, 2, 3, 4, 9]), jnp.array([2, 0, 1, 1, 0]), jnp.array([0, 2, 4]))
    x = sparse.BCSR(arrays, shape=(2, 3))
    for A in (asarray(x), jax.jit(asarray)(x)):
        np.testing.assert_array_equal(A.todense(), [[2, 0, 1], [0, 7, 0]])
        assert A.nnz == 3


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "format, n_dense",
    [
        *((None, n) for n in range(4)),
        ("csf", 1),
        ("coo", 3),
        ("(i, j, k) -> (i : compressed, k : dense, j : dense)", 2),
    ],
)
def test_dense_dimensions(format, n_dense):
    x = sparse.BCOO.fromdense(CUBE, n_dense=n_dense)
    A, B = asarray(x, format), jax.jit(lambda x: asarray(x, format))(x)
    if format is None:
        assert A.format == B.format
        assert A.format.trailing_dense == n_dense
    if format is None and n_dense == 1:
        assert A.format.name == "(i, j, k) -> (i : compressed(nonunique), j : singleton, k : dense)"
    for found in (A, B):
        found.validate()
        np.testing.assert_array_equal(found.todense(), CUBE)
    gradient = jax.jit(jax.grad(lambda x: (asarray(x, format).todense() ** 2).sum() / 2, allow_int=True))(x)
    np.testing.assert_array_equal(gradient.data, x.data)


def test_dense_dimensions_of_a_bcsr():
    x = sparse.BCSR.fromdense(CUBE, n_dense=1)
    for A in (asarray(x), jax.jit(asarray)(x)):
        assert A.format.name == "(i, j, k) -> (i : dense, j : compressed, k : dense)"
        np.testing.assert_array_equal(A.todense(), CUBE)


@pytest.mark.parametrize("make", [sparse.BCOO.fromdense, sparse.BCSR.fromdense])
def test_a_batch_is_an_operand_of_vmap(make):
    batch = asarray(make(CUBE, n_batch=1))
    assert batch.shape == (5, 3)
    assert batch.is_dynamic
    assert batch.values.shape == (4, batch.nse)
    batch.validate()
    x = jnp.arange(3.0)
    for where in (lambda f: f, jax.jit):
        np.testing.assert_array_equal(where(jax.vmap(lambda A: A @ x))(batch), CUBE @ x)
        np.testing.assert_array_equal(where(jax.vmap(lambda A: A.todense()))(batch), CUBE)
        np.testing.assert_array_equal(where(lambda A: A.to_bcoo().todense())(batch), CUBE)
    inside = jax.jit(lambda x: jax.vmap(lambda A: A.todense())(asarray(x)))(make(CUBE, n_batch=1))
    np.testing.assert_array_equal(inside, CUBE)


def test_two_batch_axes_and_shared_indices():
    x = np.stack([CUBE, 2 * CUBE])
    batch = asarray(sparse.BCOO.fromdense(x, n_batch=2, n_dense=1))
    assert batch.shape == (5, 3)
    np.testing.assert_array_equal(jax.vmap(jax.vmap(lambda A: A.todense()))(batch), x)
    shared = sparse.BCOO((jnp.ones((4, 2)), jnp.array([[[0, 1], [2, 2]]])), shape=(4, 5, 3))
    dense = jax.vmap(lambda A: A.todense())(asarray(shared))
    np.testing.assert_array_equal(dense, shared.todense())


@pytest.mark.sampled(3)
@pytest.mark.parametrize("format", ["csr", "csc", "dense", "(i, j) -> (i : compressed, j : dense)"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_conversion_to_bcoo_and_bcsr(dense, format, dynamic):
    A = asarray(dense, format, dynamic=dynamic, nse=35)
    for where in (lambda f: f, jax.jit):
        coo, csr = where(lambda A: A.to_bcoo())(A), where(lambda A: A.to_bcsr())(A)
        np.testing.assert_array_equal(coo.todense(), dense)
        np.testing.assert_array_equal(csr.todense(), dense)
        np.testing.assert_array_equal(asarray(coo).todense(), dense)
        assert (coo.n_batch, csr.n_batch) == (0, 0)
        if not coo.n_dense:
            np.testing.assert_allclose(coo @ jnp.arange(7.0), dense @ np.arange(7.0))
            np.testing.assert_array_equal(coo.sum_duplicates(nse=35).todense(), dense)
    gradient = jax.grad(lambda v: (A.with_values(v).to_bcoo().todense() ** 2).sum() / 2)(A.values)
    np.testing.assert_array_equal(gradient, A.values)


@pytest.mark.parametrize("dynamic", [False, True])
def test_blocks_to_bcoo_and_bcsr(dynamic):
    A = asarray(CUBE, "(i, j, k) -> (i : compressed(nonunique), j : singleton, k : dense)", dynamic=dynamic, nse=60)
    assert A.to_bcoo().n_dense == 1
    assert A.to_bcsr().n_dense == 1
    np.testing.assert_array_equal(A.to_bcoo().todense(), CUBE)
    np.testing.assert_array_equal(A.to_bcsr().todense(), CUBE)
    B = asarray(CUBE, "(i, j, k) -> (k : compressed, i : dense, j : dense)")
    assert B.to_bcoo().n_dense == 0
    np.testing.assert_array_equal(B.to_bcoo().todense(), CUBE)


def test_padding_may_have_any_values(dense):
    A = asarray(dense, dynamic=True, nse=30)
    x = A.with_values(jnp.ones(30)).to_bcoo()
    np.testing.assert_array_equal(x.todense(), dense != 0)
    assert x.data.sum() == A.nnz
