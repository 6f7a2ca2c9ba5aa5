"""Sums of several terms by a semiring, against numpy on arrays that hold its zero where nothing is stored."""

import jax
import numpy as np
import pytest

import jsparse
from jsparse import SparseTensor

RNG = np.random.default_rng(0)
ADD = {"min_plus": np.minimum, "max_plus": np.maximum, "max_times": np.maximum}


def sparse(*shape):
    return (RNG.integers(1, 9, shape) * (RNG.random(shape) < 0.4)).astype(np.float32)


X, Y, Z = sparse(6, 7), sparse(6, 7), sparse(6, 7)
V = RNG.integers(1, 9, 7).astype(np.float32)
MAKE = {
    "csr and coo": lambda x, n: jsparse.asarray(x, ("csr", "coo", "csc")[n]),
    "dynamic": lambda x, n: jsparse.asarray(x, ("csr", "csc", "csr")[n]).dynamic(30),
}


def filled(x, zero):
    return np.where(x != 0, x, zero)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", MAKE)
@pytest.mark.parametrize("semiring", ADD)
def test_terms_are_combined_where_one_stores_an_entry(semiring, kind):
    zero = np.inf if semiring == "min_plus" else -np.inf
    expected = ADD[semiring].reduce([filled(x, zero) for x in (X, Y, Z)])
    tensors = dict(zip("ABC", (MAKE[kind](x, n) for n, x in enumerate((X, Y, Z))), strict=True))
    text = "R[i,j] = A[i,j] + B[i,j] + C[i,j]"
    found = jsparse.evaluate(text, **tensors, semiring=semiring)
    assert isinstance(found, SparseTensor)
    np.testing.assert_array_equal(found.todense(), np.where(np.isfinite(expected), expected, 0))
    assert int(found.nnz) == np.isfinite(expected).sum()
    np.testing.assert_array_equal(jsparse.evaluate(text, **tensors, semiring=semiring, out_format="dense"), expected)
    jitted = jax.jit(lambda t: jsparse.evaluate(text, **t, semiring=semiring, out_format="dense"))
    np.testing.assert_array_equal(jitted(tensors), expected)
    csc = jsparse.evaluate(text, **tensors, semiring=semiring, out_format="csc")
    assert csc.format.name == "csc"
    np.testing.assert_array_equal(csc.todense(), found.todense())


def test_products_among_the_terms():
    A, inf = jsparse.asarray(X), np.inf
    w = np.arange(6, dtype=np.float32)
    found = jsparse.evaluate("y[i] = A[i,j] * v[j] + w[i]", A=A, v=V, w=w, semiring="min_plus")
    np.testing.assert_array_equal(found, np.minimum((filled(X, inf) + V).min(1), w))
    given = jsparse.evaluate("C[i,j] = A[i,j] + B[i,j]", A=A, B=jsparse.asarray(Y), semiring="min_plus", out_format=A)
    wanted = np.minimum(filled(X, inf), filled(Y, inf))
    np.testing.assert_array_equal(given.todense(), np.where(X != 0, wanted, 0))
    reach = jsparse.evaluate("C[i,j] = A[i,j] + B[i,j]", A=A > 0, B=jsparse.asarray(Y) > 0, semiring="or_and")
    np.testing.assert_array_equal(reach.todense(), (X > 0) | (Y > 0))


def test_gradients_go_to_the_term_that_attains_the_minimum():
    A, B = jsparse.asarray(X + 0.5 * (X != 0)), jsparse.asarray(Y)

    def loss(v):
        return jsparse.evaluate("C[i,j] = A[i,j] + B[i,j]", A=A.with_values(v), B=B, semiring="min_plus").values.sum()

    found = A.with_values(jax.grad(loss)(A.values)).todense()
    np.testing.assert_array_equal(found, (X != 0) & (filled(X + 0.5, np.inf) < filled(Y, np.inf)))


def test_a_term_that_lacks_an_index_is_repeated_along_it():
    w = np.arange(6, dtype=np.float32)
    for text in ("C[i,j] = A[i,j] + w[i]", "C[i,j] = w[i] + A[i,j]"):
        found = jsparse.evaluate(text, A=jsparse.asarray(X), w=w, semiring="min_plus")
        np.testing.assert_array_equal(found, np.minimum(filled(X, np.inf), w[:, None]))
