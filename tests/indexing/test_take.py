"""`A.take`, and integers that are traced."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from indexing.cases import as_dense

import jsparse

FORMATS = ["csr", "csc", "coo", "(i, j) -> (i : compressed, j : dense)"]


def rows_of(dense, rows):
    """The rows, of zeros where an index is out of range: nothing wraps around."""
    found = np.zeros((*np.shape(rows), dense.shape[1]), dense.dtype)
    inside = (np.asarray(rows) >= 0) & (np.asarray(rows) < len(dense))
    found[inside] = dense[np.asarray(rows)[inside]]
    return found


@pytest.mark.parametrize("format", FORMATS)
def test_known_indices(dense, format):
    A = jsparse.asarray(dense, format)
    for axis in (0, -1):
        for indices in ([4, 0, 0, -1], 3, np.array([[0], [2]]), []):
            found = A.take(indices, axis)
            wanted = np.take(dense, np.asarray(indices, int), axis)
            np.testing.assert_array_equal(as_dense(found), wanted)
    assert A.take([4, 0], 0, nse=30).nse == A[[4, 0]].nse
    dynamic = A.dynamic().take([4, 0, 0, -1], 0, nse=40)
    assert dynamic.is_dynamic
    assert dynamic.nse == 28
    np.testing.assert_array_equal(as_dense(dynamic), dense[[4, 0, 0, -1]])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("format", FORMATS)
def test_traced_indices(dense, format, dynamic):
    A = jsparse.asarray(dense, format, dynamic=dynamic)
    taken = jax.jit(lambda A, rows: A.take(rows, axis=0, nse=40))
    for rows in ([0, -1, 5, 2, 2], [4, 3, 2, 1, 0]):
        found = taken(A, jnp.array(rows))
        assert found.is_dynamic
        np.testing.assert_array_equal(as_dense(found), rows_of(dense, rows))
    assert taken._cache_size() == 1
    columns = jax.jit(lambda A, at: A.take(at, axis=1, nse=40))(A, jnp.array([[6, 0], [9, 3]]))
    np.testing.assert_array_equal(as_dense(columns), np.moveaxis(rows_of(dense.T, [[6, 0], [9, 3]]), 2, 0))


@pytest.mark.parametrize("dynamic", [False, True])
def test_traced_integers_need_no_capacity(dense, dynamic):
    A = jsparse.asarray(dense, dynamic=dynamic)
    cases = {
        "row": lambda A, i: A[i],
        "part": lambda A, i: A[i, 5:0:-2],
        "column": lambda A, i: A[::2, i],
        "new": lambda A, i: A[None, i],
        "element": lambda A, i: A[i, 4],
        "listed": lambda A, i: A[i, [3, 3]],
        "taken": lambda A, i: A.take(i, 1),
    }
    for name, indexed in cases.items():
        for i in (0, 3):
            np.testing.assert_array_equal(as_dense(jax.jit(indexed)(A, i)), as_dense(indexed(dense, i)), name)
    assert jax.jit(lambda A, i: A[i])(A, -1).nnz == 0
    assert jax.jit(lambda A, i: A[i])(A, 0).nse == (7 if dynamic else 3)


def test_rows_in_a_loop(dense):
    A = jsparse.asarray(dense)
    total = jax.lax.fori_loop(0, 5, lambda i, sums: sums + i * A[i].todense(), jnp.zeros(7))
    np.testing.assert_array_equal(total, np.arange(5) @ dense)


@pytest.mark.parametrize("dynamic", [False, True])
def test_derivatives_and_batches_over_indices(dense, dynamic):
    A = jsparse.asarray(dense, dynamic=dynamic)
    pairs = jnp.array([[0, 2], [4, 9]])
    found = jax.vmap(lambda rows: A.take(rows, 0, nse=20).todense())(pairs)
    np.testing.assert_array_equal(found, rows_of(dense, pairs))

    def loss(values, rows):
        return (A.with_values(values).take(rows, 0, nse=40).todense() ** 2).sum()

    gradient = jax.jit(jax.grad(loss))(A.values, jnp.array([3, 0, 3, 7]))
    np.testing.assert_array_equal(
        A.with_values(gradient).todense(), 2 * dense * np.array([1, 0, 0, 2, 0])[:, None].astype(np.float32)
    )


def test_vectors():
    v = jsparse.asarray(np.array([0, 3, 0, 5], np.float32))
    np.testing.assert_array_equal(v.take([3, 0]).todense(), [5, 0])
    assert v.take(1) == 3
    assert jax.jit(lambda v, i: v.take(i))(v, 1) == 3
    np.testing.assert_array_equal(jax.jit(lambda v, i: v[i].todense())(v, jnp.array([3, 9, 3])), [5, 0, 5])
