import jax
import jax.numpy as jnp
import numpy as np
import pytest
from relocations import BLOCKS, CUBES, MATRICES, agree, as_dense, integers, made

import jsparse


def largest(x, k, axis):
    """The k largest entries of each row: of equal ones the first, where 0 stands for no entry."""
    kept = np.zeros_like(x)
    rows, out = np.moveaxis(x, axis, -1), np.moveaxis(kept, axis, -1)
    for at in np.ndindex(rows.shape[:-1]):
        stored = [n for n in range(rows.shape[-1]) if rows[at][n]]
        for n in sorted(stored, key=lambda n: (-rows[at][n], n))[:k]:
            out[(*at, n)] = rows[at][n]
    return kept


@pytest.mark.parametrize("k, axis", [(2, -1), (1, 0), (0, 1), (9, 0)], ids=str)
def test_top_k(k, axis):
    x = integers(7, 9, seed=5)
    agree(
        lambda A: jsparse.top_k(A, k, axis),
        lambda x: largest(x, k, axis),
        x,
        formats=["csr", "csc", "coo", "dcsr"],
        jit=k == 1,
    )


def test_top_k_of_tensors_of_three_dimensions(cube):
    agree(lambda A: jsparse.top_k(A, 1, 1), lambda x: largest(x, 1, 1), cube, formats=["csf", "coo"], jit=False)


def test_top_k_of_blocks_counts_their_zeros():
    x = np.array([[0, -1, 2], [0, 0, 0], [-3, -2, -1]], np.float32)
    expected = np.array([[0, 0, 2], [0, 0, 0], [0, -2, -1]], np.float32)
    agree(lambda A: jsparse.top_k(A, 2), lambda _: expected, x, formats=[BLOCKS, "dense"])
    np.testing.assert_array_equal(
        as_dense(jax.jit(lambda A: jsparse.top_k(A, 2))(jsparse.asarray(x, "dense"))), expected
    )


@pytest.mark.sampled(2)
@pytest.mark.parametrize("format", ["csr", "csc", "coo", "dense"])
def test_top_k_of_a_traced_number(format):
    x = np.abs(integers(7, 9, seed=5))  # zeros that are stored are numbers, too
    A = jsparse.asarray(x, format)
    kept = jax.jit(lambda A, k: jsparse.top_k(A, k, nse=63))
    for k in (0, 1, 3, 100, -2):
        for tensor in (A, A.dynamic(A.nse + 3)) if format != "dense" else (A,):
            found = kept(tensor, k)
            assert (found.is_dynamic, found.nse) == (True, 63)
            np.testing.assert_array_equal(as_dense(found), largest(x, max(k, 0), -1))
    assert kept._cache_size() == (1 if format == "dense" else 2)
    assert jax.jit(jsparse.top_k)(A, 2).nse == (63 if format == "dense" else A.nse)
    slopes = jax.jit(jax.grad(lambda v, k: (jsparse.top_k(A.with_values(v), k).todense() ** 2).sum()))(A.values, 2)
    expected = 2 * largest(x, 2, -1)
    np.testing.assert_array_equal(slopes, expected.ravel() if format == "dense" else expected[tuple(A.coords)])


def test_top_k_orders_ties_and_nan():
    x = np.array([[3, np.nan, 3, 1, 3]], np.float32)
    for call in (jsparse.top_k, jax.jit(jsparse.top_k, static_argnums=1)):
        found = call(jsparse.asarray(x), 3)
        np.testing.assert_array_equal(as_dense(found), [[3, np.nan, 3, 0, 0]])


def test_top_k_capacity(dense):
    A = jsparse.asarray(dense)
    assert not jsparse.top_k(A, 1).is_dynamic
    assert jsparse.top_k(A, 1).format.name == "csr"
    traced = jax.jit(lambda A: jsparse.top_k(A, 1))(A)
    assert traced.is_dynamic
    assert traced.nse == 5
    assert jsparse.top_k(A.dynamic(100), 2).nse == 10
    assert jsparse.top_k(A.dynamic(), 99).nse == A.nse


@pytest.mark.parametrize("axis", [-1, 0])
def test_sort(dense, axis):
    agree(lambda A: jsparse.sort(A, axis), lambda x: np.sort(x, axis), dense, formats=MATRICES, jit=axis == 0)


def test_sort_of_other_ranks(cube):
    agree(lambda A: jsparse.sort(A, 1), lambda x: np.sort(x, 1), cube, formats=CUBES, jit=False)
    agree(jsparse.sort, np.sort, cube.reshape(-1), formats=["coo"], jit=False)


def test_sort_of_other_dtypes(dense):
    for dtype in (np.int8, np.uint8, np.bool_, np.float16, jnp.bfloat16):
        x = dense.astype(dtype)
        agree(jsparse.sort, lambda x: np.sort(x, -1), x, formats=["csr"], jit=False, dynamic=False)
    x = np.where(dense > 5, np.nan, dense)
    agree(jsparse.sort, np.sort, x, formats=["csr"], jit=False)


@pytest.mark.parametrize("format", MATRICES)
def test_nonzero(dense, format):
    for A in (made(dense, format), made(dense, format, format not in ("dense",))):
        for found, expected in zip(jsparse.nonzero(A), np.nonzero(dense), strict=True):
            np.testing.assert_array_equal(found, expected)
    A = jsparse.asarray(dense, format)
    assert [len(x) for x in A.with_values(0 * A.values).nonzero()] == [0, 0]
