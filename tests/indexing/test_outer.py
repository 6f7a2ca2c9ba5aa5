"""Outer indexes: index tables that vary along different axes, such as np.ix_, with and without repeats."""

import itertools

import jax
import numpy as np
import pytest
from indexing.cases import FORMATS, as_dense, random_dense

import jsparse
from jsparse.tensor.sparse_tensor import SparseTensor

ROWS, COLUMNS, REPEATED = np.array([4, 0, 2]), np.array([6, 1, 3, 0]), np.array([2, 2, -1, 0, 2])
MATRIX = [
    np.ix_(ROWS, COLUMNS),
    np.ix_(REPEATED, COLUMNS),
    np.ix_(REPEATED, REPEATED),
    np.ix_(ROWS, []),
    np.ix_([3], [3]),
    (ROWS[None, :], COLUMNS[:, None]),
    (ROWS[:, None], COLUMNS.reshape(1, 4)),
    (ROWS.reshape(3, 1, 1), COLUMNS.reshape(2, 2)),
    (REPEATED.reshape(5, 1, 1).astype(np.int8), REPEATED[:4].reshape(2, 2)),
    (ROWS.reshape(1, 3, 1), COLUMNS.reshape(2, 1, 2)),  # the axes of the columns are around the axis of the rows
    (REPEATED.reshape(1, 5, 1), COLUMNS[[0, 0, 1, 2]].reshape(2, 1, 2)),
]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("format", ["csr", "csc", "coo", "dcsr", "(i, j) -> (i : dense, j : range)"])
def test_matrices(dense, format, dynamic):
    A = jsparse.asarray(dense, format, dynamic=dynamic)
    for index in MATRIX[::3] if dynamic else MATRIX:
        np.testing.assert_array_equal(A[index], dense[index])
        np.testing.assert_array_equal(A.pattern[index], (dense != 0)[index] | np.asarray(A.pattern[index]))


ITEMS = [
    (ROWS[:3][:, None] % 4, COLUMNS % 5),
    (ROWS[:3][:, None] % 4, slice(1, 4), COLUMNS % 6),
    (REPEATED[:, None] % 4, slice(None, None, -1), REPEATED),
    (slice(3), [[1], [1], [0]], [0, 2]),
    ([[1], [0]], 2, [5, 5, 0]),
    (np.arange(3)[:, None], np.array([2, 0, 2])[:, None], [1, 1]),  # two dimensions vary together
    (np.arange(3)[:, None], [1, 1], np.array([2, 0, 2])[:, None]),
    ([[[1]], [[1]]], [[[0], [2]]], [0, 4, 4]),
    ([[3]], slice(None), [1, 0]),
    (None, [[1], [0]], slice(None), [5, 0]),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("format", FORMATS[3])
@pytest.mark.parametrize("index", ITEMS, ids=str)
def test_tensors_of_three_dimensions(format, index):
    x = random_dense(np.random.default_rng(1), (4, 5, 6))
    found = jsparse.asarray(x, format)[index]
    assert isinstance(found, SparseTensor) == (len(index) < 3 or any(isinstance(item, slice) for item in index))
    np.testing.assert_array_equal(as_dense(found), x[index])
    if isinstance(found, SparseTensor) and "dense" not in format and "range" not in format:
        assert found.nse == (x[index] != 0).sum()


def test_traced_tables(dense):
    for A in (jsparse.asarray(dense), jsparse.asarray(dense, dynamic=True)):
        read = jax.jit(lambda A, i, j: A[i[:, None], j])
        for rows in (ROWS, np.array([2, 2, 1])):
            np.testing.assert_array_equal(read(A, rows, COLUMNS), dense[np.ix_(rows, COLUMNS)])
        assert read._cache_size() == 1


@pytest.mark.parametrize("dtype", ["bool", "int8", "bfloat16", "float16", "complex64"])
def test_values_of_any_dtype(dense, dtype):
    A = jsparse.asarray(dense)
    A = A.with_values(A.values.astype(dtype))
    for index in (np.ix_(ROWS, COLUMNS), np.ix_(REPEATED, COLUMNS)):
        assert A[index].dtype == A.dtype
        np.testing.assert_array_equal(A[index], dense.astype(A.dtype)[index])


def test_the_rows_of_a_result_may_be_longer_than_all_of_the_tensor():
    """One row is selected a million times, but just one of its entries."""
    A = jsparse.asarray(np.ones((1, 1000), np.float32))
    np.testing.assert_array_equal(A[np.ix_(np.zeros(1_000_000, int), [7])], np.ones((1_000_000, 1)))


def test_dimensions_may_be_long():
    coords = np.array([[3, 10**9 - 1, 5], [5, 10**8, 5], [1, 2**40, 3]])
    A = SparseTensor.from_coords(coords, np.array([1, 2, 3], np.float32), (10**9, 10**9, 2**61))
    wanted = np.zeros((2, 3))
    wanted[0, 1], wanted[1, 0] = 2, 3
    found = A[:, [[10**8], [5]], [3, 2**40, 7]].sum(0)
    np.testing.assert_array_equal(as_dense(found), wanted)


def test_all_pairs_of_short_tables():
    x = random_dense(np.random.default_rng(5), (3, 4))
    tables = [np.array(t) for n in (1, 2, 3) for t in itertools.product(range(3), repeat=n)]
    for format in ("csr", "csc", "coo"):
        A = jsparse.asarray(x, format)
        for rows in tables:
            columns = tables[(7 * int(rows.sum()) + len(rows)) % len(tables)]
            np.testing.assert_array_equal(A[np.ix_(rows, columns)], x[np.ix_(rows, columns)])
            np.testing.assert_array_equal(as_dense(A[:, columns][rows]), x[:, columns][rows])
