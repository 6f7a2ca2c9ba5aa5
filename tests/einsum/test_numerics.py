"""Rounding, NaN and Inf."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from einsum.cases import FEW, SIZES

import jsparse
from jsparse import SparseTensor

FORMATS = ["csr", "csc", "coo", "dcsr"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("case", FEW, ids=str)
def test_rounding(case):
    """|error| ≤ (n + f) ε Σ|terms| for n terms of f factors, in any order of summation (Higham).

    n is at most the number of combinations of summed indices. The reference is computed in float64.
    """
    rng = np.random.default_rng(3)
    operands = [rng.normal(size=x.shape).astype(np.float32) for x in case.operands()]
    left, right = case.subscripts.split("->")
    combinations = np.prod([SIZES[v] for v in set(left) - set(right) - set(",")])
    bound = (combinations + left.count(",") + 1) * np.finfo(np.float32).eps
    arguments = tuple(range(len(operands)))
    with jax.enable_x64(True):
        wide = [x.astype(np.float64) for x in operands]
        reference = case.reference()
        exact, size = reference(*wide), reference(*map(np.abs, wide))
        exact_gradient = jax.grad(lambda *o: reference(*o).sum(), arguments)(*wide)
        gradient_size = jax.grad(lambda *o: reference(*o).sum(), arguments)(*map(np.abs, wide))
    f = case.function()
    assert np.all(np.abs(f(*operands) - np.asarray(exact)) <= bound * np.asarray(size))
    gradient = jax.grad(lambda *o: f(*o).sum(), arguments)(*operands)
    terms = np.prod([SIZES[v] for v in (set(left) | set(right)) - set(",")])
    for found, expected, scale in zip(gradient, exact_gradient, gradient_size, strict=True):
        error = np.abs(np.asarray(found, np.float64) - np.asarray(expected))
        assert np.all(error <= (terms + 3) * np.finfo(np.float32).eps * np.asarray(scale))


@pytest.mark.parametrize("format", FORMATS)
def test_long_sums_keep_their_precision(format):
    """One row and one column have half of all entries each, so sums have 20,000 terms. See `test_rounding`."""
    n = 20_000
    rng = np.random.default_rng(0)
    coords = np.concatenate([np.stack([np.full(n, 7), np.arange(n)]), np.stack([np.arange(n), np.full(n, 11)])], 1)
    values = rng.normal(size=2 * n).astype(np.float32)
    A = SparseTensor.from_coords(coords, values, (n, n), format)
    x = rng.normal(size=n).astype(np.float32)
    (rows, cols), stored = A.pattern.to_coords(), np.asarray(A.values, np.float64)
    eps = np.finfo(np.float32).eps
    for found, at, terms in [
        (A @ x, rows, stored * x[cols]),
        (x @ A, cols, stored * x[rows]),
        (A.sum(1), rows, stored),
        (jnp.atleast_1d(A.sum()), np.zeros_like(rows), stored),
    ]:
        length = len(found)
        counts = np.bincount(at, minlength=length)
        error = np.abs(np.asarray(found, np.float64) - np.bincount(at, terms, length))
        assert np.all(error <= (counts + 1) * eps * np.bincount(at, np.abs(terms), length))


SPOILED = np.array([np.nan, np.inf, -np.inf, 1, 2, 3, 4], np.float32)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("transposed", [False, True])
def test_elements_that_are_not_stored_contribute_nothing(format, transposed):
    """Columns (or rows) 0 to 2 of A are empty, and the dense operand is NaN or infinite there."""
    dense = np.ones((4, 7), np.float32)
    dense[:, :3] = 0
    dense[1] = 0
    A = jsparse.asarray(dense.T if transposed else dense, format)
    text = "ji,j->i" if transposed else "ij,j->i"
    expected = [10, 0, 10, 10]
    np.testing.assert_array_equal(jsparse.einsum(text, A, SPOILED), expected)
    many = text.replace(",j->i", ",jk->ik")
    X = np.stack([SPOILED] * 3, 1)
    np.testing.assert_array_equal(jsparse.einsum(many, A, X), np.stack([expected] * 3, 1))
    scaled = jsparse.einsum("ji,j->ji" if transposed else "ij,j->ij", A, SPOILED)
    assert np.all(np.isfinite(scaled.values))
    assert np.isfinite(jax.grad(lambda A: jsparse.einsum(text, A, SPOILED).sum())(A).values).all()


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("transposed", [False, True])
def test_a_stored_zero_multiplies(format, transposed):
    coords, values = np.array([[0, 1, 2, 3], [0, 1, 2, 3]]), np.zeros(4, np.float32)
    A = SparseTensor.from_coords(coords, values, (5, 7), format)
    if transposed:
        A = A.T
    x = np.resize(SPOILED, A.shape[1])
    found = A @ x
    np.testing.assert_array_equal(np.isnan(found), [True, True, True] + [False] * (A.shape[0] - 3))
    np.testing.assert_array_equal(found[3:], 0)
    X = np.stack([x] * 5, 1)
    np.testing.assert_array_equal(np.isnan(A @ X), np.isnan(np.stack([found] * 5, 1)))
    assert np.isnan(jsparse.einsum("ij,j->", A, x))
    sampled = jsparse.einsum("i,j->ij", np.zeros(A.shape[0], np.float32), x, out_format=A)
    cols = A.pattern.to_coords()[1]
    np.testing.assert_array_equal(np.isnan(sampled.values), cols < 3)


@pytest.mark.parametrize("rows", [6, 3000])  # one chunk, and several with sums of their own
@pytest.mark.parametrize("subscripts", ["ij,ik->k", "ij,ik->jk", "ij,i->", "ij,ik->", "ij,ik->ik"])
def test_rows_that_store_nothing_are_not_read(subscripts, rows):
    rng = np.random.default_rng(0)
    x = (rng.random((rows, 20)) < 0.3) * rng.integers(1, 5, (rows, 20)).astype(np.float32)
    x[::3] = 0
    dense = rng.integers(-3, 4, (rows, 5) if "k" in subscripts else rows).astype(np.float32)
    wild = dense.copy()
    wild[::3] = np.nan
    expected = np.einsum(subscripts, x, dense)
    for format in ("csr", "csc", "coo", "dcsr"):
        np.testing.assert_array_equal(jsparse.einsum(subscripts, jsparse.asarray(x, format), wild), expected)


@pytest.mark.parametrize("format", FORMATS)
def test_stored_nan_and_inf_propagate(format):
    A = SparseTensor.from_coords([[0, 2, 4], [1, 1, 6]], np.array([np.nan, np.inf, 1], np.float32), (5, 7), format)
    np.testing.assert_array_equal(A @ np.ones(7, np.float32), [np.nan, 0, np.inf, 0, 1])
    np.testing.assert_array_equal(np.ones(5, np.float32) @ A, [0, np.nan, 0, 0, 0, 0, 1])
    np.testing.assert_array_equal(A.todense()[4], [0, 0, 0, 0, 0, 0, 1])
    np.testing.assert_array_equal(A.sum(1), [np.nan, 0, np.inf, 0, 1])


def test_zeros_of_a_dense_level_are_stored():
    """In (i : compressed, j : dense) a row is stored with its zeros, and these multiply."""
    A = jsparse.asarray(np.diag(np.array([1, 0, 2], np.float32)), "(i, j) -> (i : compressed, j : dense)")
    assert A.nse == 6
    found = jsparse.einsum("ij,j->i", A, np.array([1, np.inf, 1], np.float32))
    np.testing.assert_array_equal(found, [np.nan, 0, np.nan])


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_integers(dtype):
    """Integers are exact, and wrap around like numpy's."""
    with jax.enable_x64(True):
        A = jsparse.asarray(np.array([[2**30, 0, 2**30], [0, -5, 7]], dtype))
        x = np.array([4, 3, 2], dtype)
        np.testing.assert_array_equal(A @ x, np.asarray(A.todense()) @ x)
        assert (A @ x).dtype == dtype
        assert jsparse.einsum("ij->", A) == np.asarray(A.todense()).sum(dtype=dtype)
