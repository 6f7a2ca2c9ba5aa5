"""Composed tensors with dynamic patterns: products, derivatives and conversions, in jit too, beside numpy."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse
from jsparse import SparseTensor
from jsparse.errors import PatternError

RNG = np.random.default_rng(0)
FORMATS = ["bsr(2, 4)", "dbsr(4, 2)", "block_group_coo(2, 2, 2)", "ell(12)", "group_coo(2)"]
SHAPES = [(8, 12), (7, 11)]


def draw(*shape):
    return np.where(RNG.random(shape) < 0.4, RNG.integers(1, 5, shape), 0).astype(np.float32)


def dense(x):
    return np.asarray(x.todense() if isinstance(x, SparseTensor) else x)


def stored(A):
    return dense(A.with_values(jnp.ones(A.nse)))


def dynamic(A):
    """The tensor with room for more entries. The slots of the format ell have room already."""
    return A.dynamic(A.nse if A.format.name.startswith("ell") else A.nse + 32)


def capacity(A):
    return None if A.format.name.startswith("ell") else A.nse + 32


@pytest.fixture(params=[(format, shape) for format in FORMATS for shape in SHAPES], ids=lambda x: f"{x[0]} {x[1]}")
def case(request):
    """A dense array, and a dynamic tensor of it."""
    format, shape = request.param
    D = draw(*shape)
    return D, dynamic(jsparse.asarray(D, format=format))


@pytest.mark.sampled(2)
def test_products_and_gradients(case):
    D, A = case
    X = draw(D.shape[1], 3)

    def loss(values, X):
        return ((A.with_values(values) @ X) ** 2).sum()

    np.testing.assert_array_equal(A @ X, D @ X)
    np.testing.assert_array_equal(A.T @ np.ones((D.shape[0], 2), np.float32), D.T @ np.ones((D.shape[0], 2)))
    of_values, of_x = jax.jit(jax.grad(loss, (0, 1)))(A.values, X)
    of_dense, expected = jax.grad(lambda D, X: ((D @ X) ** 2).sum(), (0, 1))(D, X)
    np.testing.assert_array_equal(of_x, expected)
    np.testing.assert_array_equal(dense(A.with_values(of_values)), of_dense * stored(A))
    np.testing.assert_array_equal(A.with_values(of_values).values, of_values)  # 0 in padding


@pytest.mark.sampled(2)
def test_one_program_serves_other_entries(case):
    D, A = case
    X, traces = draw(D.shape[1], 3), []

    @jax.jit
    def product(A, X):
        traces.append(1)
        return A @ X

    np.testing.assert_array_equal(product(A, X), D @ X)
    other = D * (np.arange(D.shape[1]) % 3 > 0)
    np.testing.assert_array_equal(product(jsparse.asarray(other, format=A.format).dynamic(A.nse), X), other @ X)
    assert len(traces) == 1


@pytest.mark.sampled(2)
def test_operations(case):
    D, A = case
    np.testing.assert_array_equal(dense(A), D)
    np.testing.assert_array_equal(dense(A.static()), D)
    np.testing.assert_array_equal(A.sum(1), D.sum(1))
    np.testing.assert_array_equal(dense(2 * A), 2 * D)
    np.testing.assert_array_equal(dense(A.map(lambda x: x + 1)), D + stored(A))
    np.testing.assert_array_equal(dense(A.asformat("csr")), D)
    np.testing.assert_array_equal(jax.jit(lambda A: A.asformat("csr").todense())(A), D)
    X = draw(D.shape[1], 3)
    many = np.stack([X, 2 * X])
    np.testing.assert_array_equal(jax.vmap(lambda X: A @ X)(many), D @ many)


def test_validate_checks_the_index_arrays(case):
    _, A = case
    A.validate()
    leaves, tree = jax.tree.flatten(A)
    leaves[-1] = jnp.full_like(leaves[-1], -7)  # coordinates, or pointers that decrease
    with pytest.raises(PatternError):
        jax.tree.unflatten(tree, leaves).validate()


@pytest.mark.sampled(2)
def test_conversions(case):
    D, A = case
    C, X, format = jsparse.asarray(D).dynamic(jsparse.asarray(D).nse + 9), draw(D.shape[1], 3), A.format
    np.testing.assert_array_equal(dense(C.asformat(format, nse=capacity(A))), D)
    np.testing.assert_array_equal(jax.jit(lambda C, X: C.asformat(format, nse=capacity(A)) @ X)(C, X), D @ X)
    found = jax.grad(lambda v: (C.with_values(v).asformat(format, nse=capacity(A)) @ X).sum())(C.values)
    np.testing.assert_array_equal(dense(C.with_values(found)), (np.ones((D.shape[0], 3)) @ X.T) * (D != 0))


@pytest.mark.parametrize("format", ["bsr(2, 4)", "block_group_coo(2, 2, 2)", "group_coo(2)"])
def test_a_capacity_that_is_exceeded_in_a_program(format):
    C = jsparse.asarray(draw(8, 12)).dynamic()
    assert np.isnan(np.asarray(jax.jit(lambda C: C.asformat(format, nse=8).todense())(C))).any()


def test_a_row_that_is_too_long():
    C = jsparse.asarray(np.ones((3, 5), np.float32)).dynamic()
    assert np.isnan(np.asarray(jax.jit(lambda C: C.asformat("ell(4)").todense())(C))).all()
    np.testing.assert_array_equal(jax.jit(lambda C: C.asformat("ell(5)").todense())(C), np.ones((3, 5)))
