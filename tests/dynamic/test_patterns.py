"""Dynamic patterns as operands: padding, overflow, batches of index arrays, and patterns that are sorted anew."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse
from jsparse.planning.plan import Convert
from jsparse.planning.planned import plan_einsum

FORMATS = ["csr", "csc", "coo", "dcsr", "(i, j) -> (i : compressed, j : dense)"]
RNG = np.random.default_rng(0)


def pattern(dense, format="csr", nse=40):
    return jsparse.asarray(dense, format).dynamic(nse).pattern


def stored(dense, format):
    """The integers that a pattern stands for: 1 where it stores an entry."""
    made = jsparse.asarray(dense, format)
    found = np.zeros(dense.shape, np.int32)
    found[tuple(made.pattern.rows())] = 1
    return found


def whole(x):
    return np.asarray(x.todense() if isinstance(x, jsparse.SparseTensor) else x)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("format", FORMATS)
def test_padding_contributes_nothing(dense, format):
    P, p = pattern(dense, format), stored(dense, format)
    X = RNG.integers(-4, 5, (7, 3)).astype(np.int32)
    for text, *others in [
        ("ij,jk->ik", X),
        ("ij,j->ij", X[:, 0]),
        ("ij->i",),
        ("ij->ij",),
        ("ij->",),
        ("ij,jk->ijk", X),
    ]:
        found = jax.jit(lambda P, *x, text=text: jsparse.einsum(text, P, *x))(P, *others)
        np.testing.assert_array_equal(whole(found), np.einsum(text, p, *others), err_msg=text)
        if isinstance(found, jsparse.SparseTensor):
            assert not found.values[int(found.nnz) :].any()
    least = jsparse.einsum("ij,j->ij", P, X[:, 0], semiring="min_plus")
    np.testing.assert_array_equal(least.static().todense(), p * X[:, 0])
    assert not least.values[int(least.nnz) :].any()
    square = jsparse.einsum("ij,kj->ik", P, P, nse=25)
    np.testing.assert_array_equal(square.todense(), p @ p.T)
    total = jsparse.evaluate("D[i,j] = P[i,j] + 2 * Q[i,j]", P=P, Q=pattern(dense))
    np.testing.assert_array_equal(total.todense(), p + 2 * (dense != 0))


@pytest.mark.parametrize("format", FORMATS)
def test_an_overflow_makes_floats_nan(dense, format):
    P = jax.jit(lambda x: jsparse.asarray(x, format, dynamic=True, nse=7).pattern)(dense)
    assert P.overflowed
    x = jnp.ones(7)
    for found in (
        jsparse.einsum("ij,j->i", P, x),
        jsparse.einsum("ij->i", P, preferred_element_type=np.float32),
        jsparse.einsum("ij,j->ij", P, x).values,
        jsparse.einsum("ij,kj->ik", P, P, out_format="dense", preferred_element_type=np.float32),
        jsparse.einsum("ij,j->i", P, x, semiring="min_plus"),
        jax.grad(lambda x: jsparse.einsum("ij,j->i", P, x).sum())(x),
    ):
        assert np.isnan(found).all()
    assert jsparse.einsum("ij->ij", P).overflowed


def test_derivatives(dense):
    P, p = pattern(dense), (dense != 0).astype(np.float32)
    X = RNG.normal(size=(7, 3)).astype(np.float32)

    def loss(X, P):
        return (jsparse.einsum("ij,jk->ik", P, X) ** 2).sum()

    expected = 2 * p.T @ (p @ X)
    np.testing.assert_allclose(jax.jit(jax.grad(loss))(X, P), expected, rtol=1e-5)
    np.testing.assert_allclose(jax.jvp(lambda X: loss(X, P), (X,), (X,))[1], (expected * X).sum(), rtol=1e-5)


@pytest.mark.parametrize("format", ["csr", "coo", "csc"])
def test_batches_of_patterns(format):
    members = [(RNG.random((5, 7)) < 0.3).astype(np.float32) for _ in range(3)]
    patterns = [pattern(member, format, 35) for member in members]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *patterns)
    p = np.stack(members).astype(np.int32)
    X = RNG.integers(-4, 5, (3, 7, 2)).astype(np.int32)
    for text, other, axes in [("ij,jk->ik", X, (0, 0)), ("ij,jk->ik", X[0], (0, None)), ("ij,jk->jk", X, (0, 0))]:
        found = jax.vmap(lambda P, x, text=text: jsparse.einsum(text, P, x), axes)(stacked, other)
        each = [np.einsum(text, p[n], other[n] if other.ndim == 3 else other) for n in range(3)]
        np.testing.assert_array_equal(found, each, err_msg=text)
    np.testing.assert_array_equal(jax.vmap(lambda P: jsparse.einsum("ij->i", P))(stacked), p.sum(2))
    least = jax.vmap(lambda P: jsparse.einsum("ij,j->i", P, X[0, :, 0], semiring="min_plus"))(stacked)
    np.testing.assert_array_equal(least, np.where(p, X[0, :, 0], 2**31 - 1).min(2))
    square = jax.vmap(lambda P: jsparse.einsum("ij,kj->ik", P, P, nse=25))(stacked)
    for n in range(3):
        np.testing.assert_array_equal(jax.tree.map(lambda leaf, n=n: leaf[n], square).todense(), p[n] @ p[n].T)
    sampled = jax.vmap(lambda P: jsparse.einsum("ik,jk->ij", X[0, :5], X[1], out_format=P))(stacked)
    one = jax.tree.map(lambda leaf: leaf[1], sampled)
    np.testing.assert_array_equal(one.todense(), (X[0, :5] @ X[1].T) * p[1])


def test_patterns_are_sorted_anew_without_values():
    p, q = (RNG.random((2, 60, 60)) < 0.1).astype(np.float32)
    P, Q = pattern(p, "csr", 500), pattern(q, "csr", 500)
    text = "ij,kj->ik"
    plan = plan_einsum(text, (P, Q), None, nse=3600).plan
    assert any(isinstance(instruction, Convert) for instruction in plan.instructions)
    found = jsparse.einsum(text, P, Q, nse=3600)
    np.testing.assert_array_equal(found.todense(), (p @ q.T).astype(np.int32))
    titles = [kernel.title for kernel in jsparse.explain(text, P, Q, nse=3600).kernels]
    assert "sorted anew: converted from csr to csc" in titles[0]
    over = jax.jit(lambda x: jsparse.asarray(x, dynamic=True, nse=7).pattern)(q)
    with jsparse.config(overflow="cut"):
        assert jsparse.einsum(text, P, over, nse=3600).overflowed


def test_products_in_steps():
    p, q, r = ((RNG.random((80, 80)) < 0.05).astype(np.float32) for _ in range(3))
    P, Q, R = (pattern(x, "csr", 500) for x in (p, q, r))
    X = RNG.integers(-2, 3, (80, 8)).astype(np.int32)
    for text, operands, dense in [("ij,jk,kl->il", (P, Q, X), (p, q, X)), ("ij,jk,ik->", (P, Q, R), (p, q, r))]:
        found = jax.jit(lambda *x, text=text: jsparse.einsum(text, *x))(*operands)
        np.testing.assert_array_equal(found, np.einsum(text, *dense, optimize=True).astype(np.int32), err_msg=text)
