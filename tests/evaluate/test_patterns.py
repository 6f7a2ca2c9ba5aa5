"""Patterns in statements: tensors of ones without values, among terms, numbers and indirect accesses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse

pytestmark = pytest.mark.semantics

RNG = np.random.default_rng(0)


def pattern(*shape, format="csr"):
    mask = RNG.random(shape) < 0.4
    return jsparse.asarray(mask.astype(np.int8), format).pattern, mask.astype(np.int32)


def integers(*shape):
    return RNG.integers(-4, 5, shape).astype(np.int32)


@pytest.mark.parametrize("format", ["csr", "csc", "coo", "dcsr"])
def test_statements(format):
    (P, p), (Q, q), x, b = pattern(5, 6, format=format), pattern(5, 6), integers(6), integers(5)
    y = jsparse.evaluate("y[i] = P[i,j] * x[j]", P=P, x=x)
    np.testing.assert_array_equal(y, p @ x)
    y = jsparse.evaluate("y[i] = b[i] - 2 * P[i,j] * x[j] + P[i,j]", P=P, x=x, b=b)
    np.testing.assert_array_equal(y, b - 2 * (p @ x) + p.sum(1))
    D = jsparse.evaluate("D[i,j] = P[i,j] + 3 * Q[i,j]", P=P, Q=Q)
    assert D.nse == np.count_nonzero(p + q)
    np.testing.assert_array_equal(D.todense(), p + 3 * q)
    D = jsparse.evaluate("D[i,j] = P[i,j] * Q[i,j] * x[j] - P[i,j]", P=P, Q=Q, x=x)
    np.testing.assert_array_equal(D.todense(), p * q * x - p)
    D = jsparse.evaluate("D[i,j,k] = P[i,j]", P=P, shape=(5, 6, 2))
    np.testing.assert_array_equal(D.todense(), np.repeat(p[:, :, None], 2, 2))
    C = jsparse.evaluate("C[i,k] = (P[i,j] + Q[i,j]) * P[k,j]", P=P, Q=Q, out_format="dense")
    np.testing.assert_array_equal(C, (p + q) @ p.T)


def test_dtypes():
    P, p = pattern(5, 6)
    x = jnp.asarray(integers(6)).astype(jnp.bfloat16)
    y = jsparse.evaluate("y[i] = P[i,j] * x[j] + 2 * P[i,j]", P=P, x=x)
    assert y.dtype == jnp.bfloat16
    np.testing.assert_array_equal(y.astype(np.int32), p @ np.asarray(x).astype(np.int32) + 2 * p.sum(1))
    assert jsparse.evaluate("y[i] = P[i,j]", P=P).dtype == np.int32
    half = jsparse.evaluate("y[i] = 0.5 * P[i,j]", P=P)
    assert half.dtype == np.float32
    np.testing.assert_array_equal(half, p.sum(1) / 2)


def test_minima_and_maxima():
    (P, p), x, y = pattern(5, 6), integers(6), integers(6)
    largest, smallest = 2**31 - 1, -(2**31)
    for text, expected in [
        ("d[i] min= P[i,j] * x[j]", np.where(p, x, largest).min(1)),
        ("d[i] max= 2 * P[i,j] * x[j]", np.where(p, 2 * x, smallest).max(1)),
        ("d[i] min= P[i,j] + x[j]", np.where(p, 1 + x, largest).min(1)),
        ("d[i] max= P[i,j] * x[j] + y[j]", np.where(p, x + y, smallest).max(1)),
        ("d[i] min= 3 * P[i,j]", np.where(p, 3, largest).min(1)),
    ]:
        tensors = {name: t for name, t in (("P", P), ("x", x), ("y", y)) if f"{name}[" in text}
        np.testing.assert_array_equal(jsparse.evaluate(text, **tensors), expected, err_msg=text)


def test_semirings():
    (P, p), x = pattern(5, 6), integers(6)
    y = jsparse.evaluate("y[i] = P[i,j] * x[j]", P=P, x=x, semiring="max_plus")
    np.testing.assert_array_equal(y, np.where(p, x, -(2**31)).max(1))


@pytest.mark.parametrize("traced", [False, True])
def test_indirect_accesses(traced):
    (P, p), x, rows = pattern(5, 6), integers(6), np.array([3, 0, 3, -1])

    def gathered(rows):
        return jsparse.evaluate("y[e] = P[rows[e],j] * x[j]", P=P, rows=rows, x=x)

    def scattered(rows):
        return jsparse.evaluate("y[to[i]] += P[i,j]", P=P, to=rows, shape=(4,))

    to = np.array([2, 0, 2, 9, 1])
    found = (jax.jit(gathered)(rows), jax.jit(scattered)(to)) if traced else (gathered(rows), scattered(to))
    np.testing.assert_array_equal(found[0], np.where(rows >= 0, (p @ x)[rows], 0))
    expected = np.zeros(4, np.int32)
    np.add.at(expected, to[to < 4], p.sum(1)[to < 4])
    np.testing.assert_array_equal(found[1], expected)
