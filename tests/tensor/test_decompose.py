"""Decomposed tensors are sums of parts: every operation agrees with dense NumPy."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse

FILLED = jsparse.block_fill(4, 4, 0.4)
CHOICES = {
    "blocks and the rest": [(FILLED, "bsr(4, 4)"), (None, "csr")],
    "three parts": [(FILLED, "dbsr(4, 4)"), (jsparse.row_length(2), "ell"), (None, "hyb")],
    "one part": [(None, "group_coo(4)")],
    "blocks of two sizes": [(FILLED, "bsr(4, 4)"), (jsparse.block_fill(2, 2, 0.5), "bsr(2, 2)"), (None, "bsr(1, 2)")],
    "an empty part": [(jsparse.row_length(0), "ell(2)"), (lambda coords: coords[0] < 0, "bsr(4, 4)"), (None, "coo")],
    "columns": [(lambda coords: coords[1] % 2 == 0, "csc"), (None, "dcsr")],
    "halves of blocks": [(lambda coords: coords[0] % 2 == 0, "bsr(4, 4)"), (None, "csr")],
}
RNG = np.random.default_rng(0)
X = RNG.integers(-4, 5, (50, 7)).astype(np.float32)


def matrix(dtype=np.float32):
    x = (RNG.random((45, 50)) < 0.05) * RNG.integers(1, 9, (45, 50))
    x[8:16, 4:8] = 3
    x[40:45, 48:50] = 2
    x[30] = 1
    return x.astype(dtype)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("parts", CHOICES.values(), ids=CHOICES)
@pytest.mark.parametrize("source", ["csr", "csc", "coo", "dcsr", "bsr(3, 2)"])
def test_values_products_and_gradients(source, parts):
    x = matrix()
    A = jsparse.asarray(x, format=source)
    D = jsparse.decompose(A, parts)
    assert [part.format.name.partition("(")[0] for part in D.parts] == [f.partition("(")[0] for _, f in parts]
    np.testing.assert_array_equal(D.todense(), x)
    np.testing.assert_array_equal(sum(np.asarray(part.todense()) for part in D.parts), x)
    np.testing.assert_array_equal(D.asformat("csr").todense(), x)
    np.testing.assert_array_equal(jax.jit(lambda D, X: D @ X)(D, X), x @ X)
    np.testing.assert_array_equal(D.T @ X[:45], x.T @ X[:45])
    np.testing.assert_array_equal(jsparse.einsum("ij,ik,jk->ij", D, X[:45], X).todense(), x * (X[:45] @ X.T))
    np.testing.assert_array_equal((D @ D.T).todense(), x @ x.T)
    np.testing.assert_array_equal((D + 2 * D).todense(), 3 * x)
    np.testing.assert_array_equal(D.max(1), x.max(1))
    np.testing.assert_array_equal(D[3:9].todense(), x[3:9])
    weights = RNG.integers(-3, 4, (45, 7)).astype(np.float32)
    slope = jsparse.grad(lambda D: (weights * (D @ X)).sum())(D)
    assert slope.pattern == D.pattern
    stored = D.with_values(np.ones(D.nse, np.float32)).todense() > 0
    np.testing.assert_array_equal(slope.todense(), np.where(stored, weights @ X.T, 0))

    def loss(values):
        return (weights * (jsparse.decompose(A.with_values(values), parts) @ X)).sum()

    expected = jax.grad(lambda values: (weights * (A.with_values(values) @ X)).sum())(A.values)
    np.testing.assert_array_equal(jax.jit(jax.grad(loss))(A.values), expected)


@pytest.mark.parametrize("parts", CHOICES.values(), ids=CHOICES)
def test_parts_have_no_entry_in_common(parts):
    D = jsparse.decompose(jsparse.asarray(matrix()), parts)
    counts = sum(np.asarray(p.with_values(np.ones(p.nse, np.float32)).todense()) for p in D.parts)
    assert counts.max() == 1
    assert D.nnz == counts.sum() == D.asformat("csr").nse


def test_values_in_slots_come_back_as_they_are():
    D = jsparse.decompose(jsparse.asarray(matrix()), CHOICES["three parts"])
    kept = D.with_values(RNG.integers(1, 9, D.nse).astype(np.float32))  # padding becomes 0
    again = kept.with_values(np.where(kept.values == 0, np.nan, kept.values))
    np.testing.assert_array_equal(again.values, kept.values)
    dynamic = kept.dynamic()
    np.testing.assert_array_equal(jax.jit(lambda D: D @ X)(dynamic), kept.todense() @ X)
    np.testing.assert_array_equal(dynamic.static().values, kept.values)
    assert dynamic.static().pattern == kept.pattern
    assert pickle.loads(pickle.dumps(kept)).pattern == kept.pattern


def test_batches_and_bfloat16():
    x = matrix(jnp.bfloat16)
    D = jsparse.decompose(jsparse.asarray(x), CHOICES["blocks and the rest"])
    wide = x.astype(np.float32)
    np.testing.assert_array_equal(D @ X.astype(jnp.bfloat16), (wide @ X).astype(jnp.bfloat16))
    scales = np.arange(3, dtype=np.float32)
    found = jax.vmap(lambda s: (D.astype("float32") * s) @ X)(scales)
    np.testing.assert_array_equal(found, scales[:, None, None] * (wide @ X))


def test_three_dimensions_and_empty_tensors():
    x = ((RNG.random((5, 20, 30)) < 0.1) * RNG.integers(1, 9, (5, 20, 30))).astype(np.float32)
    D = jsparse.decompose(jsparse.asarray(x), [(jsparse.row_length(2), "ell"), (None, "hyb")])
    np.testing.assert_array_equal(D.todense(), x)
    np.testing.assert_array_equal(jsparse.einsum("rij,jk->ik", D, X[:30]), np.einsum("rij,jk->ik", x, X[:30]))
    for shape in ((0, 5), (5, 0), (3, 4)):
        D = jsparse.decompose(jsparse.zeros(shape), CHOICES["blocks and the rest"])
        np.testing.assert_array_equal(D @ np.ones((shape[1], 2), np.float32), np.zeros((shape[0], 2)))
