"""Explanations of fused chains: one kernel each, and where they end."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse
from jsparse import explain
from jsparse.compiler.kernel import interpret

MASK = jsparse.pattern.window(32, 4)
Q, K, V = jax.random.normal(jax.random.key(0), (3, 32, 8))


@jsparse.fuse
def attention(q, k, v):
    scores = jsparse.einsum("id,jd->ij", q, k, out_format=MASK)
    return jsparse.softmax(scores * 0.3, axis=1) @ v


def test_a_chain_is_one_kernel():
    (kernel,) = explain(attention)(Q, K, V).kernels
    assert kernel.title == "2 einsum, map, softmax as one kernel of 8 statements"
    text = str(kernel.summary)
    assert "array T7[i, j] below P0.0" in text
    assert "compute_at i" in text
    assert "select(T2[i] != -inf, T2[i], 0.0)" in text
    assert kernel.llvm
    assert kernel._repr_html_()


def test_a_gradient_says_where_its_chain_ends():
    gradient = jax.grad(lambda q, k, v: attention(q, k, v).sum(), (0, 1, 2))
    forward, backward, *columns = explain(gradient)(Q, K, V).kernels
    assert forward.fused is not None
    assert backward.cut == "then its statements share no loops"
    assert "where the chain ends" in str(backward.summary)
    assert len(columns) == 2  # of keys and of values, each a sum over columns


def test_what_is_not_fused_is_shown_as_it_is():
    together = jsparse.fuse(lambda x: jnp.arctan(jsparse.einsum("ij,jk->ik", MASK, x)))
    (kernel,) = explain(together)(V).kernels
    assert kernel.fused is None
    assert kernel.plan is not None


@pytest.mark.parametrize("is_dynamic", [False, True])
@pytest.mark.parametrize("format", ["csr", "(i, j, k) -> (i : dense, j : dense, k : compressed)"])
def test_rows_of_temporaries_are_cleared_entry_by_entry(monkeypatch, format, is_dynamic):
    """A row of a temporary on another pattern has room for all columns, but only its own entries are written."""
    stores, indices = [], "ij" if format == "csr" else "ijk"
    store = interpret._Machine.store
    monkeypatch.setattr(interpret._Machine, "store", lambda *args: (stores.append(0), store(*args)))

    def maxima(A, B, U):
        return jsparse.einsum(f"{indices}->i", jsparse.maximum(A.restrict(U), B.restrict(U)))

    def count(n):
        shape = (n, *[1] * (len(indices) - 2), n)
        A = jsparse.asarray(np.eye(n, dtype=np.float32).reshape(shape), format)
        B = jsparse.asarray((np.eye(n, k=1) - 2 * np.eye(n)).astype(np.float32).reshape(shape), format)
        A, B = (A.dynamic(), B.dynamic()) if is_dynamic else (A, B)
        U = A + B
        stores.clear()
        with jsparse.config(backend="interpret"):
            found = jsparse.fuse(maxima)(A, B, U)
        np.testing.assert_array_equal(found, np.where(np.arange(n) < n - 1, 2, 1))
        return len(stores)

    few, many = count(50), count(100)
    assert 100 <= many < 2.5 * few
