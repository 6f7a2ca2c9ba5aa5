"""Programs hold no array of a sparse operand's dense shape, and no index array of a static pattern."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from einsum.cases import FEW, Case
from einsum.hlo import compiled_text, largest_array, largest_constant

import jsparse
from jsparse import SparseTensor

HUGE = 10**8


def tensor(shape, nse, format, seed=0):
    """A tensor of `nse` small integers at random coordinates."""
    rng = np.random.default_rng(seed)
    coords = np.stack([rng.integers(0, size, nse) for size in shape])
    coords[:, 0] = [size - 1 for size in shape]
    return SparseTensor.from_coords(coords, rng.integers(1, 4, nse).astype(np.float32), shape, format)


def test_the_helper_sees_dense_arrays_and_constants():
    A = Case("ij,j->i", "csr").tensor()
    assert largest_array(compiled_text(lambda A: jnp.sin(A.todense()), A)) == 35
    baked = np.random.default_rng(0).normal(size=123).astype(np.float32)
    assert largest_constant(compiled_text(lambda x: x + baked, baked)) == 123


@pytest.mark.parametrize("format", ["csr", "csc", "coo"])
def test_a_matrix_too_large_to_be_dense(format):
    n, nse, columns = 200_000, 300_000, 2
    A, X = tensor((n, n), nse, format), jnp.ones((n, columns))
    loss = lambda A, X: (jsparse.einsum("ij,jk->ik", A, X) ** 2).sum()  # noqa: E731
    program = jax.jit(jax.grad(loss, (0, 1))).lower(A, X).compile()
    text = program.as_text()
    assert largest_array(text) <= max(A.nse, X.size)
    assert largest_constant(text) <= 1
    assert program.memory_analysis().temp_size_in_bytes <= 8 * 4 * max(A.nse, X.size)

    rows, cols = A.pattern.to_coords()
    values = np.asarray(A.values, np.float64)
    row_sums = np.bincount(rows, values, n)
    dA, dX = program(A, X)
    np.testing.assert_array_equal(dA.values, 2 * columns * row_sums[rows])
    np.testing.assert_array_equal(dX[:, 1], np.bincount(cols, 2 * values * row_sums[rows], n))


@pytest.mark.parametrize("format", ["dcsr", "coo", "dcsc"])
def test_a_matrix_with_huge_dimensions(format):
    A = tensor((HUGE, HUGE), 50, format)

    def f(A, s):
        whole = jsparse.einsum("ij->", A)
        scaled = jsparse.einsum("ij,->ij", A, s)
        outer = jsparse.einsum("ij,k->ijk", A, jnp.array([1.0, 2.0]))
        turned = jsparse.einsum("ij->ji", scaled)
        square = jsparse.einsum("ij,ij->ij", A, A)
        return whole**2, scaled, outer, turned, square, jsparse.einsum("ij,ij->", A, scaled)

    whole, scaled, outer, turned, square, dot = jax.jit(f)(A, 3.0)
    values = np.asarray(A.values)
    assert (float(whole), float(dot)) == (values.sum() ** 2, 3 * (values**2).sum())
    np.testing.assert_array_equal(scaled.values, 3 * values)
    np.testing.assert_array_equal(turned.values, 3 * values)
    np.testing.assert_array_equal(square.values, values**2)
    np.testing.assert_array_equal(outer.values, np.stack([values, 2 * values], 1).ravel())
    assert (turned.shape, outer.shape) == (A.shape, (HUGE, HUGE, 2))

    def loss(A, s):
        whole, scaled, outer, turned, square, dot = f(A, s)
        return whole + scaled.values.sum() + outer.values.sum() + turned.values.sum() + square.values.sum() + dot

    text = compiled_text(jax.grad(loss, (0, 1)), A, 3.0)
    assert largest_array(text) <= 2 * A.nse
    dA, ds = jax.grad(loss, (0, 1))(A, 3.0)
    np.testing.assert_array_equal(dA.values, 2 * values.sum() + 3 + 3 + 3 + 2 * values + 6 * values)
    assert ds == 2 * values.sum() + (values**2).sum()


@pytest.mark.parametrize("format", ["csf", "coo"])
def test_order_three_with_huge_dimensions(format):
    """Dense operands have only the small dimension."""
    A = tensor((HUGE, HUGE, 5), 50, format)
    x = jnp.arange(5.0)
    values, last = np.asarray(A.values), A.pattern.to_coords()[2]
    f = lambda A, x: jsparse.einsum("ijk,k->k", A, x)  # noqa: E731
    np.testing.assert_array_equal(f(A, x), np.bincount(last, values * last, 5))
    np.testing.assert_array_equal(jsparse.einsum("ijk->k", A), np.bincount(last, values, 5))
    np.testing.assert_array_equal(jsparse.einsum("ijk,k->ijk", A, x).values, values * last)
    np.testing.assert_array_equal(jsparse.einsum("ijk,k->", A, x), (values * last).sum())
    gradient = jax.grad(lambda A, x: (f(A, x) * x).sum(), (0, 1))
    dA, dx = gradient(A, x)
    np.testing.assert_array_equal(dA.values, (last * last).astype(np.float32))
    np.testing.assert_array_equal(dx, 2 * np.bincount(last, values * last, 5))
    assert largest_array(compiled_text(gradient, A, x)) <= A.nse


def test_one_huge_dimension_sampled():
    A = tensor((HUGE, 6), 50, "dcsr")
    x, w = jnp.arange(6.0), jnp.ones((6, 4))
    cols = A.pattern.to_coords()[1]
    found = jax.jit(lambda A: jsparse.einsum("ij,j,jk->ij", A, x, w))(A)
    np.testing.assert_array_equal(found.values, 4 * A.values * cols)
    np.testing.assert_array_equal(jsparse.einsum("ij->j", A), np.bincount(cols, A.values, 6))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("case", FEW, ids=str)
def test_no_index_array_is_a_constant(case):
    f, operands = case.function(), case.operands()
    gradient = jax.grad(lambda *o: (f(*o) ** 2).sum(), tuple(range(len(operands))))
    text = compiled_text(gradient, *operands)
    assert largest_constant(text) <= 1
    assert not [line for line in text.splitlines() if " gather(" in line or " scatter(" in line or " while(" in line]


def test_a_closure_holds_values_but_no_indices():
    """Values that a function closes over become constants, like any array. Index arrays do not: JAX never sees them."""
    A = tensor((300, 300), 2000, "csr")
    text = compiled_text(lambda v, x: A.with_values(v) @ x, A.values, jnp.ones(300))
    assert largest_constant(text) <= 1
    closed = compiled_text(lambda x: A @ x, jnp.ones(300))
    assert "s32[" not in closed
