"""Indices of the target that no term has: the result is repeated along them, and `shape=` gives its shape."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jsparse import SparseTensor, asarray, evaluate, explain
from jsparse.notation import parse_statement

RNG = np.random.default_rng(0)


def integers(*shape, stored=0.4):
    return (RNG.integers(1, 9, shape) * (RNG.random(shape) < stored)).astype(np.float32)


A, B, X = integers(5, 6), integers(6, 4), integers(6, stored=1)
ROWS = np.array([2, 4, 2])
MIN = np.where(A != 0, A + X, np.inf).min(1)

# the statement, numpy's result without the missing index, and the axis of that index
DENSE = {
    "C[i,k] = A[i,j] * x[j]": (A @ X, 1),
    "C[k,i] = A[i,j] * x[j]": (A @ X, 0),
    "C[k] = A[i,j] * x[j]": ((A @ X).sum(), 0),
    "C[i,k] = 2 * A[i,j] * x[j] - 3": (2 * (A @ X) - 3, 1),
    "C[i,k,l] = A[i,j] * B[j,l]": (A @ B, 1),
    "C[i,k] = A[i,j] * B[j,l] * y[l]": (A @ (B @ np.arange(4)), 1),
    "C[j,k] = x[j]": (X, 1),
    "C[i,k] min= A[i,j] + x[j]": (MIN, 1),
    "C[rows[p],k] += v[p]": (np.array([0, 0, 4, 0, 2]), 1),
}
SPARSE = {
    "C[i,j,k] = A[i,j]": (A, 2, None),
    "C[k,i,j] = 2 * A[i,j]": (2 * A, 0, None),
    "C[i,j,k] = A[i,j] * x[j] - A[i,j]": (A * X - A, 2, None),
    "C[i,k,j] = A[i,j]": (A, 1, "csf"),
    "C[i,k] = A[i,j] * x[j]": (A @ X, 1, "csr"),
    "C[i,l,k] = A[i,j] * B[j,l]": (A @ B, 2, "csf"),
}


def made(dynamic):
    options = {"dynamic": True, "nse": 20} if dynamic else {}
    return {"A": asarray(A, **options), "B": asarray(B, **options)}


def arguments(text, dynamic=False):
    """The tensors named in the statement."""
    every = {**made(dynamic), "x": X, "y": np.arange(4.0), "rows": ROWS, "v": np.array([1.0, 2.0, 3.0])}
    return {name: every[name] for name in parse_statement(text, sized=True).tensors()}


def repeated(x, dim, size=3):
    return np.repeat(np.expand_dims(x, dim), size, dim)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("text", DENSE)
def test_dense_results(text, dynamic):
    once, dim = DENSE[text]
    for size in (3, 0):
        want = repeated(once, dim, size)
        found = evaluate(text, shape=want.shape, **arguments(text, dynamic))
        assert isinstance(found, jax.Array)
        np.testing.assert_array_equal(found, want)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("text", SPARSE)
def test_sparse_results(text, dynamic):
    once, dim, out_format = SPARSE[text]
    want = repeated(once, dim)
    nse = 60 if dynamic else None
    found = evaluate(text, shape=want.shape, out_format=out_format, nse=nse, **arguments(text, dynamic))
    assert isinstance(found, SparseTensor)
    assert found.shape == want.shape
    np.testing.assert_array_equal(found.todense(), want)


def test_other_sources_of_the_shape():
    before, given = jnp.ones((5, 3)), arguments("y[i] = A[i,j] * x[j]")
    want = repeated(A @ X, 1)
    np.testing.assert_array_equal(evaluate("C[i,k] += A[i,j] * x[j]", C=before, **given), before + want)
    on = asarray(np.eye(5, 3, dtype=np.float32))
    found = evaluate("C[i,k] = A[i,j] * x[j]", out_format=on, **given)
    np.testing.assert_array_equal(found.todense(), want * np.eye(5, 3))
    np.testing.assert_array_equal(evaluate("C[i,k] = 7", shape=(2, 3)), np.full((2, 3), 7))


def test_the_result_is_computed_once_and_repeated():
    given = arguments("y[i] = A[i,j] * x[j]")
    assert "C[i] = A[i, j] * x[j]" in str(explain("C[i,k] = A[i,j] * x[j]", shape=(5, 3), **given))


@pytest.mark.parametrize("text", ["C[i,k] = A[i,j] * x[j] + B[i,j] * y[j]", "C[i,k] = B[i,j] * y[j] + A[i,j] * x[j]"])
def test_blocks_and_entries_are_added_before_they_are_repeated(text):
    """Terms see a dense result in blocks or in rows, but only if they do not leave an index of it to the repetition."""
    a, b, x, y = integers(8, 12), integers(8, 12), integers(12, stored=1), integers(12, stored=1)
    found = evaluate(text, shape=(8, 3), A=asarray(a, format="bsr(4, 4)"), B=asarray(b), x=x, y=y)
    np.testing.assert_array_equal(found, repeated(a @ x + b @ y, 1))
