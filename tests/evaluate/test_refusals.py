"""Statements that `evaluate` refuses; `refusals.txt` has the messages of the rows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from refusals import test_refusals as test_refusals

import jsparse
from jsparse import (
    DTypeError,
    FormatError,
    IntegerRangeError,
    NotYetSupportedError,
    PatternError,
    ScheduleError,
    SemiringError,
    ShapeError,
    SubscriptError,
    evaluate,
)

D = (np.arange(35).reshape(5, 7) % 3).astype(np.float32)
A = jsparse.asarray(D)
x = np.ones(7, np.float32)


@pytest.mark.semantics
def test_a_tensor_may_be_called_text():
    np.testing.assert_array_equal(evaluate("y[i] = 2 * text[i]", text=x), 2 * x)


def both(error, text, **tensors):
    """The rows of a call of `evaluate`, and of one inside `jit`."""
    eager, traced = lambda text: evaluate(text, **tensors), lambda text: jax.jit(lambda: evaluate(text, **tensors))()
    return (error, eager, [text]), (error, traced, [text])


def statements():
    yield from both(SubscriptError, "y[i] = A[i,j] * x[j]", A=A)
    yield from both(SubscriptError, "y[i] = A[i,j] * x[j]")
    yield from both(SubscriptError, "y[i] = A[i,j] * x[j]", A=A, x=x, z=x)
    yield from both(SubscriptError, "y[i] = A[i,j] * x[j]", A=A, x=x, y=x)
    yield from both(ShapeError, "y[i] = A[i,j] * x[j]", A=A, x=x[:6])
    yield from both(ShapeError, "y[i] = A[i] * x[i]", A=A, x=x)
    yield from both(ShapeError, "s = A", A=A)
    yield from both(ShapeError, "C[i,j] = A[i,j] + B[i,j]", A=A, B=A.T)
    yield from both(ShapeError, "y[i] = A[i,i]", A=A)
    yield from both(SubscriptError, "y[i] = A[i,j] x[j]", A=A, x=x)
    yield from both(SubscriptError, "y[k] = A[i,j]", A=A)
    yield from both(ShapeError, "y[i] += A[i,j]", A=A, y=x)
    yield from both(DTypeError, "y[i] = A[c[i],j]", A=A, c=x)
    yield from both(SubscriptError, "y[i] = A[i,j] + A[i]", A=A)
    yield from both(SubscriptError, "y[i] = y[i] + A[i,j]", A=A, y=x)
    yield from both(SubscriptError, "y[i] = ")
    yield from both(SubscriptError, "A[i,j]", A=A)
    yield from both(DTypeError, "y[i] = A[i,j]", A="abc")
    yield from both(DTypeError, "y[i] = A[i,j]", A=None)
    yield from both(DTypeError, "y[i] = A[i,j] * x[j]", A=A, x=jnp.ones(7, jnp.int4))
    yield from both(IntegerRangeError, "y[j] = 2199023255552 * A[i,j]", A=A.astype("int8"))
    yield from both(DTypeError, "y[j] = x[j] - A[i,j]", A=A.astype(bool), x=x.astype(bool))
    yield SubscriptError, lambda: evaluate(3, A=A)
    yield SubscriptError, lambda: evaluate(A)
    yield ShapeError, lambda: evaluate("y[i] = nse[i]", nse=x)
    yield SubscriptError, lambda: evaluate("y[i] = out_format[i]", out_format=x)


def options():
    def add(**options):
        return evaluate("C[i,j] = A[i,j] + B[i,j]", A=A, B=A.asformat("coo"), **options)

    yield ScheduleError, lambda: add(schedule=1)
    yield DTypeError, lambda dtype: add(preferred_element_type=dtype), ["nonsense", "int4"]
    yield ShapeError, lambda: add(shape=(5, 8))
    yield SemiringError, lambda: add(semiring="nonsense")
    yield FormatError, lambda format: add(out_format=format), ["csx", "csf(3)", 3, jsparse.Format.of("csf", 3)]
    yield ShapeError, lambda: add(out_format=A.T)
    yield PatternError, lambda: add(nse=3)
    yield ShapeError, lambda nse: add(nse=nse), [-1, 2.0, True]
    B, C, text = A.dynamic(30), A.dynamic(25), "C[i,j] = A[i,j] + B[i,j]"
    yield ShapeError, lambda nse: evaluate(text, A=B, B=C, nse=nse), [-1, 2.0, "3", True]


def functions():
    E, X, m, n, b = np.eye(5, 6, dtype=np.float32), np.ones((5, 6)), np.ones(5), np.ones(6), np.ones(4)
    every = {"E": jsparse.asarray(E), "F": jsparse.asarray(E, "csc"), "X": X, "m": m, "n": n, "b": b}

    def call(error, text, **options):
        return both(error, text, **{name: x for name, x in every.items() if f"{name}[" in text}, **options)

    yield from call(PatternError, "R[i,j] = exp(E[i,j])")
    yield from call(PatternError, "R[i,j] = exp(E[i,j])", out_format="csr")
    yield from call(PatternError, "R[i,j] = E[i,j] >= -1")
    yield from call(PatternError, "R[i,j] = cos(E[i,j]) + F[i,j]")
    yield from call(PatternError, "y[i] = exp(E[i,j]) * n[j]")
    yield from call(PatternError, "y[i] += max(E[i,j], m[i])")
    yield from call(PatternError, "R[i,k] = E[i,j] * exp(n[j] + b[k])")
    yield from call(PatternError, "R[i,j] += E[i,j] * exp(m[i] + n[j] + b[k])")
    yield from call(ShapeError, "R[i,j] = exp(E[i,j] - n[i])")
    yield from call(ShapeError, "R[i,j] = exp(E[i,j] + m[i,j])")
    yield from call(SubscriptError, "R[i,j] = exp(E[i,j] + q[i])")
    yield from call(SubscriptError, "y[i] = exp(E[i,j])")
    yield from call(SubscriptError, "y[i] = sine(m[i])")
    yield from call(NotYetSupportedError, "y[i] = tanh(m[i])", semiring="min_plus")
    yield DTypeError, lambda: evaluate("y[i] = exp(x[i])", x=None)
    yield DTypeError, lambda: evaluate("y[i] = sign(x[i])", x=np.ones(3, bool))
    yield IntegerRangeError, lambda: evaluate("y[i] += relu(3000000000 * x[i])", x=np.ones(3, np.int32))
    many = {f"A{n}": jsparse.asarray(np.eye(9, 3, -n, np.float32)) for n in range(9)}
    terms = " + ".join(f"{name}[i,j]" for name in many)
    yield NotYetSupportedError, lambda: evaluate(f"y[i] += relu({terms})", **many)
    text, small = "R[i,j] = relu(E[i,j] * F[i,j])", every["E"].dynamic(30)
    yield PatternError, lambda: evaluate(text, E=small, F=every["F"], nse=1)


def powers():
    X = np.triu(np.ones((4, 5), np.float32))
    texts = ["C[i,j] = A[i,j] ** 0", "C[i,j] = A[i,j] ** -0.0", "y[i] = A[i,j] ** 0", "C[i,j] = abs(A[i,j]) ** 0"]
    texts += ["C[i,j] = sin(A[i,j] ** 0)", "C[i,j] = (A[i,j] + A[i,j]) ** 0", "C[i,j] = (A[i,j] ** 0) ** 2"]
    texts += ["C[i,j] = 1 / A[i,j] ** 0"]
    for A in (jsparse.asarray(X), jsparse.asarray(X, dynamic=True), jsparse.asarray(X).pattern):
        for text in texts:
            yield from both(PatternError, text, A=A)
        for text in ("y[i] = A[i,j] ** 0 * t[j]", "C[i,j] = (A[i,j] * t[j]) ** 0"):
            yield from both(PatternError, text, A=A, t=np.ones(5))
    yield SubscriptError, lambda: evaluate("y[i] = s[i] / (A[i,j] + t[j])", A=X, s=np.ones(4), t=np.ones(5))
    yield SubscriptError, lambda: evaluate("y[i] = (A[i,j] + s[i]) ** 0.5", A=X, s=np.ones(4))
    yield SubscriptError, lambda: evaluate("y[i] = A[i,j] ** t[j]", A=X, t=np.ones(5))
    yield NotYetSupportedError, lambda: evaluate("y[i] = (A[i,j] + s[i]) ** 300", A=X, s=np.ones(4))
    texts = ["y[i] = A[i,j] ** 2 ** 2", "y[i] = A[i,j] / 0", "y[i] = A[i,j] * 0 ** -1"]
    texts += ["y[i] = A[i,j] * (-2) ** 0.5", "y[i] = A[i,j] * 10 ** 400"]
    yield SubscriptError, lambda text: evaluate(text, A=X), texts


def tables():
    V, r, text = np.zeros((5, 2), np.float32), np.zeros(5, int), "C[r[p],n] += V[p,n]"
    yield ShapeError, lambda: evaluate(text, r=r, V=V)
    yield ShapeError, lambda: evaluate(text, shape=(4,), r=r, V=V)
    yield ShapeError, lambda: evaluate(text, shape=(4, 2), r=np.zeros(3, int), V=V)
    yield ShapeError, lambda: evaluate(text, shape=(4, 9), r=r, V=V)
    yield DTypeError, lambda r: evaluate(text, shape=(4, 2), r=r, V=V), [np.zeros(5), np.zeros(5, bool), 3]
    yield SubscriptError, lambda: evaluate(text, shape=(4, 2), V=V)
    yield ShapeError, lambda: evaluate("C[r[p,q],n] += V[p,n]", shape=(4, 2), r=r, V=V)
    yield ShapeError, lambda shape: evaluate(text, shape=shape, r=r, V=V), [4, (-1, 2)]
    yield ShapeError, lambda: evaluate(text, shape=(4, 2), r=r, V=V, C=[[0, 0]] * 3)
    sparse = jsparse.asarray(np.eye(5, 2, dtype=np.float32), format="csr")
    yield NotYetSupportedError, lambda: evaluate("C[r[p],n] = V[p,n]", r=np.arange(5), V=V, C=sparse)
    yield SubscriptError, lambda: evaluate("C[p,n] = V[p,n]", V=V, C=np.zeros((5, 2)))
    table = jsparse.asarray(np.eye(3, dtype=np.int32)[0])
    yield DTypeError, lambda: evaluate("C[r[p]] += V[p]", shape=(3,), r=table, V=np.zeros(3))
    yield SubscriptError, lambda: evaluate("y[i] += A[i,p]", A=A, semiring="min_plus")
    V, r, C = np.ones(4, np.float32), np.array([0, 2, 3, 3]), np.zeros(4, np.float32)
    yield FormatError, lambda: evaluate("C[r[p]] += V[p]", C=C, V=V, r=r, out_format="csr")
    yield PatternError, lambda: evaluate("C[r[p]] = V[p]", shape=(5,), r=np.array([2, 0, 2, 1]), V=V)
    tables = {"r": np.array([1, 0, 1, 1]), "c": np.array([0, 0, 0, 2])}
    yield PatternError, lambda: evaluate("C[r[p],c[p]] = V[p]", shape=(5, 5), V=V, **tables)
    tables_of_tables = {"r": np.array([3, 4, 3]), "s": np.array([0, 1, 2, -1])}
    yield PatternError, lambda: evaluate("C[r[s[p]]] = V[p]", shape=(5,), V=V, **tables_of_tables)
    yield DTypeError, lambda: evaluate("y[t[i]] += x[i]", t=A.pattern, x=np.ones(3), shape=(3,))
    yield DTypeError, lambda: evaluate("D[i,j] += A[i,j]", D=A.pattern, A=D)


def repeated_dimensions():
    text = "C[i,k] = A[i,j] * x[j]"
    yield SubscriptError, lambda: evaluate(text, A=A, x=x)
    yield ShapeError, lambda shape: evaluate(text, shape=shape, A=A, x=x), [(4, 3), (5,)]
    yield ShapeError, lambda: evaluate("C[i] = A[i,j] * x[j]", shape=(4,), A=A, x=x)
    yield ShapeError, lambda: evaluate(text, shape=(5, 3), out_format=jsparse.eye(5, 4), A=A, x=x)
    yield PatternError, lambda: evaluate("C[i,j,k] = A[i,j]", A=A, shape=(5, 7, 3), nse=20)
