"""Range levels: runs of consecutive coordinates without an array of coordinates."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse

import jsparse
from jsparse.formats import Format

RUNS = "(i, j) -> (i : dense, j : range)"
NOTATIONS = [
    RUNS,
    "(i, j) -> (j : dense, i : range)",
    "(i, j) -> (i : range, j : range)",
    "(i, j) -> (i : range, j : compressed)",
    "(i, j) -> (i : range, j : dense)",
    "(i, j) -> (i : compressed, j : range)",
    "(i, j) -> (j : compressed(nonunique), i : range)",
]


def banded(rows: int, columns: int, below: int, above: int, seed: int = 0) -> np.ndarray:
    """A matrix of integers in a band, with some zeros inside."""
    rng = np.random.default_rng(seed)
    at = np.arange(columns) - np.arange(rows)[:, None]
    return rng.integers(-4, 5, (rows, columns)) * ((at >= -below) & (at <= above)).astype(int)


def test_a_row_stores_its_run_and_no_coordinates():
    dense = np.array([[0, 3, 0, 5, 0], [0, 0, 0, 0, 0], [7, 0, 0, 0, 8], [0, 0, 2, 0, 0]])
    a = jsparse.asarray(dense, format=RUNS)
    assert a.format.arrays == ((1, "pointers"), (1, "starts"))
    pointers, starts = a.pattern.arrays
    assert pointers.tolist() == [0, 3, 3, 8, 9]
    assert starts.tolist() == [1, 0, 0, 2]
    assert a.values.tolist() == [3, 0, 5, 7, 0, 0, 0, 8, 2]
    assert a.pattern.to_coords().tolist() == [[0, 0, 0, 2, 2, 2, 2, 2, 3], [1, 2, 3, 0, 1, 2, 3, 4, 2]]
    np.testing.assert_array_equal(a.todense(), dense)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("notation", NOTATIONS)
@pytest.mark.parametrize("shape", [(7, 5), (1, 6), (6, 1), (0, 4), (4, 0)])
def test_intake_and_conversions(notation, shape):
    dense = banded(*shape, 2, 1)
    a = jsparse.asarray(dense, format=notation)
    np.testing.assert_array_equal(a.todense(), dense)
    for other in (NOTATIONS[1], NOTATIONS[2], NOTATIONS[6], "csr", "coo"):
        there = a.asformat(other)
        assert there.format == Format.of(other, 2)
        np.testing.assert_array_equal(there.todense(), dense)
        np.testing.assert_array_equal(there.asformat(notation).todense(), dense)
    np.testing.assert_array_equal(jsparse.asarray(scipy.sparse.csr_array(dense), format=notation).todense(), dense)
    assert pickle.loads(pickle.dumps(a)).pattern is a.pattern
    np.testing.assert_array_equal(a.T.todense(), dense.T)
    np.testing.assert_array_equal(a.to_scipy().toarray(), dense)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("notation", NOTATIONS)
def test_products(notation):
    dense, other = banded(9, 8, 1, 3).astype(np.float32), banded(8, 9, 2, 2, 1).astype(np.float32)
    rng = np.random.default_rng(2)
    x, v = rng.integers(-3, 4, (8, 5)).astype(np.float32), rng.integers(-3, 4, 8).astype(np.float32)
    a = jsparse.asarray(dense, format=notation)
    np.testing.assert_array_equal(a @ v, dense @ v)
    np.testing.assert_array_equal(a @ x, dense @ x)
    np.testing.assert_array_equal(a.T @ (dense @ x), dense.T @ (dense @ x))
    for format in (NOTATIONS[0], NOTATIONS[3], "csc"):
        b = jsparse.asarray(other, format=format)
        np.testing.assert_array_equal((a @ b).todense(), dense @ other)
        np.testing.assert_array_equal((a * b.T).todense(), dense * other.T)
        np.testing.assert_array_equal((a + b.T).todense(), dense + other.T)
        out = jsparse.einsum("ij,jk->ik", a, b, out_format=notation)
        assert out.format == Format.of(notation, 2)
        np.testing.assert_array_equal(out.todense(), dense @ other)


def test_gaps_have_gradients_like_any_stored_zero():
    a = jsparse.asarray(np.array([[2.0, 0.0, 3.0], [0.0, 5.0, 0.0]], np.float32), format=RUNS)
    v = jnp.array([1.0, 10.0, 100.0])
    gradient = jax.grad(lambda values: (a.with_values(values) @ v).sum())(a.values)
    np.testing.assert_array_equal(gradient, [1, 10, 100, 10])
    batch = jax.vmap(lambda values: a.with_values(values) @ v)(jnp.stack([a.values, 2 * a.values]))
    np.testing.assert_array_equal(batch, [[302, 50], [604, 100]])


@pytest.mark.parametrize("rows, columns", [(2000, 300), (300, 4000)])
def test_many_rows_are_divided_over_threads(rows, columns):
    dense = banded(rows, columns, 3, 40).astype(np.float32)
    dense[rows // 2] = 1  # several chunks share this row
    a = jsparse.asarray(dense, format=RUNS)
    v = np.random.default_rng(0).integers(-3, 4, columns).astype(np.float32)
    np.testing.assert_array_equal(a @ v, dense @ v)
    x = np.random.default_rng(0).integers(-3, 4, (columns, 64)).astype(np.float32)
    np.testing.assert_array_equal(jax.jit(lambda a, x: a @ x)(a, x), dense @ x)


def test_sampling_computes_gaps_too():
    """A result on a pattern is computed in all of its slots."""
    a = jsparse.asarray(np.array([[2.0, 0.0, 3.0], [0.0, 5.0, 0.0]], np.float32), format=RUNS)
    x, y = np.arange(1.0, 3, dtype=np.float32), np.arange(1.0, 4, dtype=np.float32)
    out = jsparse.einsum("i,j->ij", x, y, out_format=a)
    np.testing.assert_array_equal(out.values, [1, 2, 3, 4])


@pytest.mark.parametrize("notation", [RUNS, "(i, j) -> (i : range, j : compressed)"])
def test_dynamic_patterns(notation):
    dense = banded(6, 7, 1, 2).astype(np.float32)

    @jax.jit
    def product(x, v):
        a = jsparse.asarray(x, format=notation, dynamic=True, nse=42)
        return a @ v, a.todense()

    v = np.arange(7, dtype=np.float32)
    found, back = product(dense, v)
    np.testing.assert_array_equal(found, dense @ v)
    np.testing.assert_array_equal(back, dense)


def test_a_program_sorts_the_entries_of_a_result_with_ranges():
    """It cannot append them, because the gaps before an entry need positions. The explanation says that it sorts."""
    a = jsparse.asarray(banded(6, 7, 1, 2).astype(np.float32), dynamic=True, nse=42)
    b = jsparse.asarray(banded(7, 6, 2, 1).astype(np.float32), dynamic=True, nse=42)
    assert "listed, then sorted" in str(jsparse.explain("ij,jk->ik", a, b, out_format=RUNS, nse=36))
    out = jsparse.einsum("ij,jk->ik", a, b, out_format=RUNS, nse=36)
    np.testing.assert_array_equal(out.todense(), a.todense() @ b.todense())
