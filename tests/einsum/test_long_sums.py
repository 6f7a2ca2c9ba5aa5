"""Long sums of float32, which are formed in blocks: their errors, their reproducibility, and infinities."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiler.test_blocked_sums import run_of

import jsparse
from jsparse import SparseTensor

MANY = 10**7
TENTH = float(np.float32(0.1))
WITHIN = 1e-6


def close(found, exact):
    """Whether relative errors are small."""
    error = np.abs(np.asarray(found, np.float64) - exact)
    return bool(np.all(error <= WITHIN * np.abs(exact)))


@pytest.fixture(scope="module")
def row():
    """A matrix of one row with 10⁷ entries 0.1."""
    coords = np.stack([np.zeros(MANY, np.int32), np.arange(MANY, dtype=np.int32)])
    return SparseTensor.from_coords(coords, np.full(MANY, 0.1, np.float32), (1, MANY), "csr")


@pytest.fixture(scope="module")
def column(row):
    """The same entries as the column of a csr matrix."""
    return row.T.asformat("csr")


def test_one_long_row(row):
    ones = np.ones(MANY, np.float32)
    for found in (row.sum(), row.sum(1), row @ ones, row.dynamic() @ ones, row.asformat("coo") @ ones):
        assert close(found, TENTH * MANY)
    assert close(row.mean(), TENTH)
    assert close(row @ np.ones((MANY, 4), np.float32), TENTH * MANY)


def test_one_long_column(column):
    """On a dynamic pattern, the loop scatters into one element."""
    ones = np.ones(MANY, np.float32)
    for A in (column, column.dynamic()):
        for found in (A.sum(0), ones @ A, A.sum()):
            assert close(found, TENTH * MANY)


def test_derivatives(row, column):
    """The derivative of a product by an element that many terms contain is a long sum."""
    assert close(jax.grad(lambda s: jsparse.einsum("ij,->", row, s))(jnp.float32(1)), TENTH * MANY)
    for A in (column, column.dynamic()):
        assert close(jax.grad(lambda x, A=A: (A @ x).sum())(jnp.ones(1)), TENTH * MANY)


def test_random_entries_in_a_thousand_rows():
    values = np.random.default_rng(0).random((1000, MANY // 1000)).astype(np.float32)
    coords = np.indices(values.shape, np.int32).reshape(2, -1)
    A, exact = SparseTensor.from_coords(coords, values.reshape(-1), values.shape, "csr"), values.astype(np.float64)
    for axis in (None, 0, 1):
        assert close(A.sum(axis), exact.sum(axis))


def test_many_short_rows():
    coords = np.indices((MANY // 100, 10), np.int32).reshape(2, -1)
    A = SparseTensor.from_coords(coords, np.full(MANY // 10, 0.1, np.float32), (MANY // 100, 10), "csr")
    assert close(A.sum(), TENTH * MANY / 10)
    assert close(jsparse.einsum("ij,jk->k", A, np.ones((10, 16), np.float32)), TENTH * MANY / 10)


def test_a_long_dense_index():
    operands = np.full((2, 10**6), 0.1, np.float32), np.ones((2, 10**6), np.float32)
    where = SparseTensor.from_coords([[0, 1], [1, 0]], np.ones(2, np.float32), (2, 2), "csr")
    assert close(jsparse.einsum("ik,jk->ij", *operands, out_format=where).values, TENTH * 10**6)


def test_entries_of_sparse_results():
    """One entry is the sum of many products, computed by rows and as an inner product."""
    n = 10**6
    along, zeros = np.arange(n, dtype=np.int32), np.zeros(n, np.int32)
    A = SparseTensor.from_coords(np.stack([zeros, along]), np.full(n, 0.1, np.float32), (1, n), "csr")
    B = SparseTensor.from_coords(np.stack([along, zeros]), np.ones(n, np.float32), (n, 1), "csr")
    assert close((A @ B).values, TENTH * n)
    assert close(jsparse.einsum("ij,kj->ik", A, B.T.asformat("csr")).values, TENTH * n)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "complex64"])
def test_many_duplicates(dtype):
    """Millions of entries share one or two coordinate tuples, in sorted and in unsorted order."""
    n = MANY // 4
    coords, values = np.zeros((2, n), np.int32), jnp.full(n, 0.01, dtype)
    exact = complex(values[0]) * n
    for given in (coords, np.stack([np.arange(n, dtype=np.int32) % 2, coords[0]])):
        A = SparseTensor.from_coords(given, np.asarray(values), (3, 3), "csr")
        within = WITHIN if dtype in ("float32", "complex64") else float(jnp.finfo(dtype).eps)
        assert np.abs(np.asarray(A.values).astype(complex) - exact / A.nse).max() <= within * abs(exact)


def heavy_row(n=60_000):
    rng = np.random.default_rng(0)
    coords = np.concatenate([np.stack([np.full(n, 3), np.arange(n)]), np.stack([np.arange(n), np.arange(n) % 97])], 1)
    coords = np.unique(coords, axis=1)
    return SparseTensor.from_coords(coords, rng.normal(size=coords.shape[1]).astype(np.float32), (n, n), "csr")


@pytest.mark.parametrize("text", ["ij,j->i", "ij,jk->ik", "ij->", "ij,jk->k", "ij,i->j"])
def test_bits_do_not_depend_on_the_number_of_threads(text):
    A = heavy_row()
    shape = {"ij->": None, "ij,j->i": (60_000,), "ij,i->j": (60_000,)}.get(text, (60_000, 16))
    dense = [] if shape is None else [np.random.default_rng(1).normal(size=shape).astype(np.float32)]
    run = run_of(text, A, *dense)
    first = run.by_code(1)
    for threads in (2, 3, 8):
        np.testing.assert_array_equal(run.by_code(threads), first)


@pytest.mark.parametrize("columns", [None, 5, 64])
def test_infinities_and_nan(columns):
    """Rows of three blocks have infinite or NaN values in the first and the last one. Sums follow IEEE 754."""
    rows = [[np.inf, 1], [np.inf, -np.inf], [np.nan, 1], [-np.inf, -np.inf], [1, 2]]
    values = np.zeros((len(rows), 150), np.float32)
    values[:, [0, -1]] = rows
    coords = np.indices(values.shape).reshape(2, -1)
    A = SparseTensor.from_coords(coords, values.reshape(-1), values.shape, "csr")
    found = A @ np.ones(150 if columns is None else (150, columns), np.float32)
    want = np.array([np.inf, np.nan, np.nan, -np.inf, 3], np.float32)
    np.testing.assert_array_equal(found, want if columns is None else np.stack([want] * columns, 1))


@pytest.mark.parametrize("columns", [None, 64])
def test_only_a_block_overflows(columns):
    """A sum beyond float32 is infinite within a block, and as a result, but not between blocks. Positions in lanes have
    blocks of 64 terms for each lane."""
    block = 64 * (8 if columns is None else 1)
    values = np.repeat(np.array([[256, -256], [256, 256], [256, 0]], np.float32), 2 * block, axis=1) * np.float32(
        1e36 / block
    )
    values[2, :block] = 1e38
    values[2, block:] = -1e38
    coords = np.indices(values.shape).reshape(2, -1)
    A = SparseTensor.from_coords(coords, values.reshape(-1), values.shape, "csr")
    found = A @ np.ones(4 * block if columns is None else (4 * block, columns), np.float32)
    want = np.array([0, np.inf, np.nan], np.float32)
    np.testing.assert_array_equal(found, want if columns is None else np.stack([want] * columns, 1))
