"""Functions in statements, against numpy: values, where they are computed, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from einsum.structure import dense_array

import jsparse
from jsparse import SparseTensor
from jsparse.notation.functions import COMPARISONS, FUNCTIONS

RNG = np.random.default_rng(0)


def matrix(*shape, density=0.4):
    return np.where(RNG.random(shape) < density, RNG.normal(size=shape), 0).astype(np.float32)


E, F, X = matrix(5, 6), matrix(5, 6), RNG.normal(size=(5, 6)).astype(np.float32)
M, N, B = RNG.normal(size=5).astype(np.float32), RNG.normal(size=6).astype(np.float32), matrix(4, density=1)
DENSE = {"E": E, "F": F, "X": X, "m": M, "n": N, "b": B, "P": (E != 0).astype(np.float32)}
COLUMN = M[:, None]


def operands(text, e_format="csr", f_format="csc", dynamic=False):
    found = {name: x for name, x in DENSE.items() if f"{name}[" in text}
    for name, format in (("E", e_format), ("F", f_format), ("P", e_format)):
        if name in found:
            found[name] = jsparse.asarray(found[name], format)
            found[name] = found[name].dynamic(nse=25) if dynamic and format != "dense" else found[name]
    if "P" in found:
        on_e = found.get("E", found["P"])
        found["P"] = on_e.pattern if e_format != "dense" else jsparse.asarray(E).pattern
    return found


def relu(x):
    return np.maximum(x, 0)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def leaky(x):
    return np.where(x > 0, x, 0.2 * x)


def stored(x):
    """What is stored of E alone."""
    return np.where(E != 0, x, 0)


FORMATS = [("coo", "dcsr"), ("dense", "csr"), ("dcsc", "coo")]

# the statement, the same by numpy, whether the result of sparse E and F is sparse
STATEMENTS = [
    ("R[j,i] = relu(E[i,j])", relu(E).T, True),
    ("R[i,j] = relu(E[i,j] * n[j] + 2 * F[i,j])", relu(E * N + 2 * F), True),
    ("R[i,j] = max(E[i,j], F[i,j], 0)", relu(np.maximum(E, F)), True),
    ("R[i,j] = where(E[i,j] > F[i,j], E[i,j], -F[i,j])", np.where(E > F, E, -F), True),
    ("R[i,j] = where(E[i,j] > 0.3, X[i,j], 0)", np.where(E > 0.3, X, 0), True),
    ("R[i,j] = where(abs(E[i,j]) > 0, exp(E[i,j]), 0)", stored(np.exp(E)), True),
    ("R[i,j] = E[i,j] != F[i,j]", E != F, True),
    (
        "R[i,j,k] = E[i,j] * exp(m[i] + n[j] + b[k])",
        E[:, :, None] * np.exp(COLUMN[:, :, None] + N[:, None] + B),
        True,
    ),
    (
        "R[k,j] += E[i,j] * exp(m[i] - n[j] + b[k])",
        np.einsum("ij,ijk->kj", E, np.exp(COLUMN[:, :, None] - N[:, None] + B)),
        True,
    ),
    ("R[i,j] = (E[i,j] < 0) * F[i,j] ** 2", (E < 0) * F**2, True),
    ("R[i,j] = expm1(tanh(E[i,j])) * sin(E[i,j])", np.expm1(np.tanh(E)) * np.sin(E), True),
    ("R[i,j] = P[i,j] * leaky_relu(m[i] + n[j], 0.2)", stored(leaky(COLUMN + N)), True),
    ("R[i,j] = P[i,j] * exp(E[i,j] - m[i]) / (1 + m[i] ** 2)", stored(np.exp(E - COLUMN) / (1 + COLUMN**2)), True),
    ("R[i,j] = E[i,j] * exp(F[i,j])", E * np.exp(F), True),
    ("R[i,j] = max(E[i,j], P[i,j])", np.maximum(E, E != 0), True),
    ("R[i,j] = pow(abs(E[i,j]), 1.5)", abs(E) ** 1.5, True),
    ("R[i,j,k] = relu(E[i,j] * b[k])", relu(E[:, :, None] * B), True),
    ("R[i,j] = X[i,j] * exp(E[i,j])", X * np.exp(E), False),
    ("R[i,j] = exp(m[i] - n[j]) + E[i,j]", np.exp(COLUMN - N) + E, False),
    ("y[i] = E[i,j] * sigmoid(n[j])", E @ sigmoid(N), False),
    ("y[i] = F[i,j] * exp(E[i,j] - m[i]) * n[j]", (F * np.exp(E - COLUMN)) @ N, False),
    ("y[j] += relu(E[i,j] * n[j] + F[i,j]) ** 2", (relu(E * N + F) ** 2).sum(0), False),
    (
        "l += (m[i] - 1) * (m[i] > 0) + square(n[j] - 1)",
        (M * (M > 0)).sum() - (M > 0).sum() + ((N - 1) ** 2).sum(),
        False,
    ),
    ("y[i] max= abs(X[i,j])", abs(X).max(1), False),
]


@pytest.mark.sampled(3)
@pytest.mark.semantics
@pytest.mark.parametrize("text, expected, sparse", STATEMENTS, ids=[text for text, _, _ in STATEMENTS])
def test_values(text, expected, sparse):
    given, other = operands(text), operands(text, *FORMATS[len(text) % len(FORMATS)])
    compiled = jax.jit(lambda given: jsparse.evaluate(text, **given))
    results = [jsparse.evaluate(text, **given), jsparse.evaluate(text, **other), compiled(operands(text, dynamic=True))]
    for found in results:
        assert isinstance(found, SparseTensor) == sparse
        np.testing.assert_allclose(dense_array(found), expected, rtol=2e-5, atol=1e-6)
    if "P[" not in text:
        plain = jsparse.evaluate(text, **{name: DENSE[name] for name in given})
        np.testing.assert_allclose(plain, expected, rtol=2e-5, atol=1e-6)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("row", [*FUNCTIONS.values(), *COMPARISONS.values()], ids=lambda row: row.name)
def test_what_functions_are_at_zero(row):
    dtypes = (jnp.int32,) if row.takes_integers else (jnp.float32,) if row.divides else (jnp.float32, jnp.int32)
    for dtype in dtypes:
        zeros = [jnp.zeros((), dtype)] * row.arity[0]
        assert bool(row(*zeros) == 0) is row.is_zero_at_zero


def test_a_tensor_and_its_transpose_store_other_entries():
    """They share their index arrays, dynamic ones, too."""
    a = matrix(6, 6)
    for A in (jsparse.asarray(a), jsparse.asarray(a).dynamic(30)):
        found = jsparse.evaluate("R[i,j] = max(A[i,j], B[i,j])", A=A, B=A.T)
        np.testing.assert_array_equal(found.todense(), np.maximum(a, a.T))
        np.testing.assert_array_equal(jsparse.minimum(A, A.T).todense(), np.minimum(a, a.T))


@pytest.mark.semantics
def test_a_given_pattern_says_where():
    found = jsparse.evaluate(
        "R[i,j] = exp(E[i,j] - m[i]) / s[i]", **operands("E["), m=M, s=M, out_format=jsparse.asarray(E)
    )
    np.testing.assert_allclose(found.todense(), stored(np.exp(E - COLUMN) / COLUMN), rtol=1e-5)
    # At an entry that the pattern has and E has not, E is 0.
    on_f = jsparse.asarray(F, "csc")
    found = jsparse.evaluate("R[i,j] = exp(E[i,j]) - E[i,j]", **operands("E["), out_format=on_f.pattern)
    assert found.pattern == on_f.pattern
    np.testing.assert_allclose(found.todense(), np.where(F != 0, np.exp(E) - E, 0), rtol=1e-5)
    dense = jsparse.evaluate("R[i,j] = exp(E[i,j])", **operands("E["), out_format="dense")
    np.testing.assert_allclose(dense, np.exp(E), rtol=1e-6)


def test_a_given_pattern_may_lack_dimensions():
    P = jsparse.asarray(E).pattern
    for given in (P, P.extended((4,)), jsparse.asarray(E).dynamic(nse=25)):
        found = jsparse.evaluate("R[i,j,k] = exp(m[i] * b[k]) * n[j]", m=M, n=N, b=B, out_format=given)
        np.testing.assert_allclose(
            found.todense(), stored(1)[:, :, None] * np.exp(COLUMN[:, None] * B) * N[:, None], rtol=1e-5
        )


@pytest.mark.semantics
def test_what_is_absent_contributes_nothing():
    infinite = np.full(6, np.inf, np.float32)
    given = {**operands("E[ F["), "n": infinite, "x": N}
    found = jsparse.evaluate("R[i,j] = tanh(E[i,j] * n[j] + F[i,j] * x[j])", **given)
    with np.errstate(invalid="ignore"):
        expected = np.tanh(np.where(E != 0, E * infinite, 0) + F * N)
    np.testing.assert_allclose(found.todense(), expected, rtol=1e-5)
    # Powers and divisors act on stored entries, also of sums and functions.
    either = (E != 0) | (F != 0)
    found = jsparse.evaluate("R[i,j] = 1 / (E[i,j] + F[i,j])", **operands("E[ F["))
    np.testing.assert_allclose(found.todense(), np.where(either, 1 / np.where(either, E + F, 1), 0), rtol=1e-5)
    found = jsparse.evaluate("R[i,j] = exp(1 / (E[i,j] + F[i,j]))", **operands("E[ F["), out_format="dense")
    np.testing.assert_allclose(found, np.exp(np.where(either, 1 / np.where(either, E + F, 1), 0)), rtol=1e-5)
    found = jsparse.evaluate("R[i,j] = exp(tanh(E[i,j]) * n[j])", E=given["E"], n=infinite, out_format="dense")
    np.testing.assert_allclose(found[E == 0], 1)


def test_entries_are_exactly_those_that_may_differ_from_0():
    given = operands("E[ F[")
    union = given["E"].pattern | given["F"].pattern
    both = given["E"].pattern & given["F"].pattern
    for text, pattern in [
        ("R[i,j] = relu(E[i,j] - F[i,j])", union),
        ("R[i,j] = E[i,j] > F[i,j]", union),
        ("R[i,j] = tanh(E[i,j] * F[i,j])", both),
        ("R[i,j] = tanh(E[i,j]) * sin(F[i,j])", both),
        ("R[i,j] = where(E[i,j] > 0, F[i,j], 0)", both),
        ("R[i,j] = max(E[i,j] * F[i,j], E[i,j])", given["E"].pattern),
    ]:
        found = jsparse.evaluate(text, **given).pattern
        assert found.nse == pattern.nse == (pattern & found).nse, text


def test_indirect_accesses():
    rows, cols = np.array([0, 2, 9, 1, 4]), np.array([1, 1, 3, -1, 5])
    m, n = np.where(rows < 5, M[rows % 5], 0), np.where(cols >= 0, N[cols], 0)
    given = {"m": M, "n": N, "r": rows, "c": cols}
    text = "e[p] = leaky_relu(m[r[p]] + n[c[p]], 0.2)"
    np.testing.assert_allclose(jsparse.evaluate(text, **given), leaky(m + n), rtol=1e-6)
    np.testing.assert_allclose(jax.jit(lambda given: jsparse.evaluate(text, **given))(given), leaky(m + n), rtol=1e-6)
    text = "C[r[p]] += exp(n[c[p]])"
    expected = np.zeros(5)
    np.add.at(expected, rows[rows < 5], np.exp(n)[rows < 5])
    np.testing.assert_allclose(jsparse.evaluate(text, n=N, r=rows, c=cols, shape=(5,)), expected, rtol=1e-6)
    # An index out of range contributes nothing, even against Inf.
    m = np.full(5, np.inf, np.float32)
    found = jsparse.evaluate("e[p] = tanh(m[r[p]] * x[p] + 1)", m=m, r=np.array([7, 1]), x=np.zeros(2, np.float32) + 0)
    np.testing.assert_allclose(found, [np.tanh(1), np.nan], rtol=1e-6)


DTYPES = ["float16", "bfloat16", "float32", "int8", "int16", "int32", "uint8", "bool", "complex64"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(dtype):
    values = RNG.integers(0, 3, (5, 6))
    dense = jnp.asarray(values).astype(dtype)
    A = jsparse.asarray(dense)
    functions = {"abs(A[i,j])": jnp.abs, "tanh(A[i,j])": jnp.tanh, "A[i,j] != 0": lambda a: a != 0}
    if dtype != "complex64":
        functions |= {"max(A[i,j], 0)": lambda a: jnp.maximum(a, 0), "where(A[i,j] > 1, 1, 0)": lambda a: (a > 1) * 1}
    for text, reference in functions.items():
        found = jsparse.evaluate(f"R[i,j] = {text}", A=A)
        assert found.dtype == reference(dense).dtype, text
        np.testing.assert_allclose(
            np.asarray(found.todense(), complex), np.asarray(reference(dense), complex), rtol=1e-2
        )


def test_float64():
    with jax.enable_x64(True):
        e = E.astype(np.float64)
        found = jsparse.evaluate("R[i,j] = expm1(E[i,j] * n[j])", E=jsparse.asarray(e), n=N)
        assert found.dtype == np.float64
        np.testing.assert_allclose(found.todense(), np.expm1(e * N), rtol=1e-12)


def test_many_operands_on_one_pattern():
    one = jsparse.asarray(matrix(3, 3))
    on_one = {f"A{n}": one.with_values(one.values * n) for n in range(9)}
    text = f"R[i,j] = relu({' + '.join(f'A{n}[i,j]' for n in range(9))})"
    np.testing.assert_allclose(jsparse.evaluate(text, **on_one).todense(), relu(36 * one.todense()), rtol=1e-6)


def test_explain_shows_the_operations():
    given = operands("E[ m[")
    shown = jsparse.explain("R[i,j] = exp(E[i,j] - m[i]) / m[i]", **given, out_format=given["E"])
    assert [kernel.title.split()[0] for kernel in shown.kernels] == ["einsum", "map", "einsum"]
    indirect = jsparse.explain("y[r[p]] += exp(m[c[p]])", m=M, r=np.array([0, 1]), c=np.array([1, 2]), shape=(5,))
    assert len(indirect.kernels) == 2
