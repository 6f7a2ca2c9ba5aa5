"""Powers and divisors in statements."""

import jax
import numpy as np
import pytest

import jsparse

RNG = np.random.default_rng(0)
X = (RNG.integers(1, 5, (4, 5)) * (RNG.random((4, 5)) < 0.6)).astype(np.float32)
S, T = RNG.integers(1, 5, 4).astype(np.float32), RNG.integers(1, 5, 5).astype(np.float32)

CASES = {
    "C[i,j] = A[i,j] / s[i]": lambda x: x / S[:, None],
    "C[i,j] = A[i,j] / (s[i] * t[j])": lambda x: x / (S[:, None] * T),
    "C[i,j] = A[i,j] / (2 * s[i] ** 2) + A[i,j]": lambda x: x / (2 * S[:, None] ** 2) + x,
    "y[i] = A[i,j] ** 2 * t[j]": lambda x: x**2 @ T,
    "y[i] = (A[i,j] * t[j]) ** 2": lambda x: x**2 @ T**2,
    "y[i] = s[i] ** -0.5 * A[i,j] * t[j] ** 0.5": lambda x: S**-0.5 * (x @ T**0.5),
    "y[i] = (s[i] + A[i,j] * t[j]) ** 2": None,
    "y = 2 ** 3 * A[i,j] / 4 ** -1": lambda x: 32 * x.sum(),
    "y[i] = A[i,j] ** -1": lambda x: np.where(x, 1 / np.where(x, x, 1), 0).sum(1),
    "y[i] = 1 / A[i,j] ** -1": lambda x: x.sum(1),
    "y[i] = -A[i,j] ** 2 / 2": lambda x: -(x**2).sum(1) / 2,
    "y[i] = A[i,j] / (s[i] + t[j])": lambda x: (x / (S[:, None] + T)).sum(1),
    "y[i] = A[i,j] * (A[i,j] + s[i]) ** 0.5": lambda x: (x * (x + S[:, None]) ** 0.5).sum(1),
    "C[i,j] = A[i,j] / (A[i,j] + s[i]) ** 2": lambda x: x / (x + S[:, None]) ** 2,
    "C[i,j] = A[i,j] + (1 + t[j]) ** -0.5 - 1 / (1 + t[j])": lambda x: x + (1 + T) ** -0.5 - 1 / (1 + T),
}


def given(text, **operands):
    return {name: x for name, x in operands.items() if f"{name}[" in text}


# The dense array has zeros, whose negative powers are infinite.
WITH_DENSE = [text for text in CASES if "A[i,j] ** -1" not in text]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("text", "format"), [*((t, f) for t in CASES for f in ("csr", "csc")), *((t, None) for t in WITH_DENSE)]
)
def test_values(text, format):
    if CASES[text] is None:
        operands = given(text, A=X, s=S, t=T)
        # Every term is summed over the index variables that it has: s² is not repeated along j.
        want = S**2 + 2 * S * (X @ T) + X**2 @ T**2
    else:
        operands, want = given(text, A=X, s=S, t=T), CASES[text](X)
    operands["A"] = X if format is None else jsparse.asarray(X, format=format)
    for run in (jsparse.evaluate, jax.jit(jsparse.evaluate, static_argnums=0)):
        found = run(text, **operands)
        found = found.todense() if isinstance(found, jsparse.SparseTensor) else found
        np.testing.assert_allclose(found, want, rtol=1e-5)


SUMS_OF_ONES = {
    "C[i,j] = X[i,j] ** 0": lambda a, x: np.ones_like(x),
    "y[i] = X[i,j] ** 0": lambda a, x: np.full(4, 5),
    "y[i] = (X[i,j] * t[k]) ** 0": lambda a, x: np.full(4, 25),
    "y[i] = A[i,j] * t[j] ** 0": lambda a, x: a.sum(1),
    "y[i] = A[i,j] ** 0 * A[i,j]": lambda a, x: a.sum(1),
    "C[i,j] = P[i,j] * A[i,j] ** 0": lambda a, x: x != 0,
    "C[i,j] = A[i,j] ** 0 * X[i,j]": lambda a, x: x,
    "C[i,j] = A[i,j] + X[i,j] ** 0": lambda a, x: a + 1,
    "C[i,j] = X[i,j] * exp(A[i,j] ** 0)": lambda a, x: x * np.exp(1),
    "C[i,j] = A[i,j] * (s[i] - s[i]) ** 0.0": lambda a, x: a,
}


@pytest.mark.parametrize("text", SUMS_OF_ONES)
@pytest.mark.parametrize("dynamic", [False, True])
def test_the_power_0_is_1_also_of_zeros_that_are_not_stored(text, dynamic):
    other = np.roll(X, 1, axis=1)
    A = jsparse.asarray(X, dynamic=dynamic)
    operands = given(text, A=A, X=other, s=S, t=T, P=jsparse.asarray(other).pattern)
    for run in (jsparse.evaluate, jax.jit(jsparse.evaluate, static_argnums=0)):
        found = run(text, **operands)
        found = found.todense() if isinstance(found, jsparse.SparseTensor) else found
        np.testing.assert_allclose(found, SUMS_OF_ONES[text](X, other), rtol=1e-6)


def test_the_power_0_of_a_tensor_on_a_given_pattern():
    pattern = jsparse.asarray(X).pattern
    found = jsparse.evaluate("C[i,j] = A[i,j] ** 0", A=jsparse.asarray(X), out_format=pattern)
    np.testing.assert_array_equal(found.todense(), X != 0)


def test_integers_divide_to_floats():
    A = jsparse.asarray(X.astype(np.int32))
    found = jsparse.evaluate("y[i] = A[i,j] / s[i]", A=A, s=S.astype(np.int32))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, X.sum(1) / S, rtol=1e-6)


def test_explain():
    shown = str(jsparse.explain("C[i,j] = A[i,j] / s[i]", A=jsparse.asarray(X), s=S))
    assert "s[i]**-1" in shown
