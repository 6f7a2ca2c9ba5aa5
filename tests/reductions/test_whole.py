"""Reductions with numpy's meaning: an entry that is not stored is 0."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse

NAMES = ("sum", "max", "min", "prod", "mean", "any", "all")


def example(dtype=np.float32):
    """A matrix with a full row, a row and a column of negative numbers, and an empty row."""
    rng = np.random.default_rng(0)
    x = rng.integers(-3, 4, (6, 8)) * (rng.random((6, 8)) < 0.5)
    x[2], x[4], x[5] = rng.integers(1, 5, 8), 0, -1
    return x.astype(dtype)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.bool_, np.int32, jnp.bfloat16])
def test_dtypes_are_those_of_jnp(dtype):
    x = np.abs(example(np.int32)).astype(dtype)
    A, dense = jsparse.asarray(x), jnp.asarray(x)
    for name in NAMES:
        got, want = getattr(A, name)(1), getattr(jnp, name)(dense, 1)
        assert got.dtype == want.dtype, name
        np.testing.assert_allclose(got.astype(float), want.astype(float), rtol=1e-2)
    assert A.sum(0, dtype=np.float32).dtype == A.mean(0, dtype=np.float32).dtype == np.float32
    assert jsparse.asarray(np.full(300, 1, np.int8)).sum() == 300  # more than an int8 counts


def test_a_tensor_that_stores_everything():
    x = np.where(example() > 0, -2, example() - 1).astype(np.float32)
    A = jsparse.asarray(x, format="(i, j) -> (i : dense, j : dense)")
    for name in ("max", "min", "prod", "all"):
        np.testing.assert_allclose(getattr(A, name)(0), getattr(np, name)(x, 0))
    assert A.max() == x.max() < 0


def test_third_order():
    rng = np.random.default_rng(2)
    x = (rng.integers(-3, 4, (3, 4, 5)) * (rng.random((3, 4, 5)) < 0.6)).astype(np.float32)
    x[0] = -1
    A = jsparse.asarray(x, format="csf")
    cases = [(name, axis) for axis in (0, -1, (0, 2), (1, 2), None) for name in ("max", "min", "mean", "any")]
    for found, (name, axis) in zip(jax.jit(lambda A: [getattr(A, n)(a) for n, a in cases])(A), cases, strict=True):
        np.testing.assert_allclose(found, getattr(np, name)(x, axis), rtol=1e-6)
    sums = A.sum(0, keepdims=True)
    assert isinstance(sums, jsparse.SparseTensor)
    np.testing.assert_array_equal(sums.todense(), x.sum(0, keepdims=True))
    assert A.sum(0, out_format="csc").format.name == "csc"


def test_levels_that_remain_and_are_dense_give_an_array():
    x = np.zeros((4, 2, 3), np.float32)
    x[1], x[3] = 2, 1
    A = jsparse.asarray(x, format="(i, j, k) -> (i : compressed, j : dense, k : dense)")
    assert isinstance(A.sum(0), jax.Array)
    np.testing.assert_array_equal(A.sum(0), x.sum(0))


def test_long_dimensions():
    A = jsparse.SparseTensor.from_coords([[3, 10**9 - 1], [0, 5]], [-1.0, -2.0], (10**9, 10**9), "dcsr")
    assert (A.max(), A.min(), A.mean(), A.prod()) == (0, -2, np.float32(-3e-18), 0)
    assert A.any()
    assert not A.all()
    assert A.all(stored=True)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("format", ["csr", "csc", "coo"])
def test_arg(format, name):
    x = example()
    A = jsparse.asarray(x, format=format)
    mask = np.zeros(x.shape, bool)
    mask[tuple(np.asarray(A.to_coords()[0]))] = True
    filled = np.where(mask, x, -np.inf if name == "argmax" else np.inf)
    for tensor in (A, A.dynamic(A.nse + 3)):
        found = jax.jit(lambda A: [getattr(A, name)(axis) for axis in (None, 0, 1)])(tensor)
        for axis, got in zip((None, 0, 1), found, strict=True):
            assert got.dtype == np.int32
            np.testing.assert_array_equal(got, np.where(mask.any(axis), getattr(np, name)(filled, axis), -1))
    assert getattr(A, name)(1, keepdims=True).shape == (6, 1)


def test_arg_with_nan_and_long_dimensions():
    A = jsparse.asarray(np.array([[0, 1, np.nan, 3], [0, 0, 0, 2]], np.float32))
    np.testing.assert_array_equal(A.argmax(1), [2, 3])
    np.testing.assert_array_equal(A.argmin(1), [2, 3])
    B = jsparse.SparseTensor.from_coords([[3, 3, 4], [10**9 - 1, 7, 9]], [1.0, 5.0, 2.0], (5, 10**9))
    for tensor in (B, B.dynamic(6)):
        np.testing.assert_array_equal(tensor.argmax(1), [-1, -1, -1, 7, 9])
