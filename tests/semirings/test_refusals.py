"""Errors of semirings and their messages, which stand in `refusals.txt`."""

import jax
import numpy as np
from refusals import test_refusals as test_refusals
from semirings.cases import matrix

import jsparse
from jsparse import DTypeError, NotYetSupportedError, ScheduleError, SemiringError, ShapeError
from jsparse.compiler.semiring import PLUS_TIMES, EqualityMask, Semiring

x = np.ones(9, np.float32)


def names():
    A = matrix()
    yield SemiringError, lambda: jsparse.einsum("ij,j->i", A, x, semiring="plus")
    yield SemiringError, lambda: jsparse.einsum("ij,j->i", np.ones((7, 9)), x, semiring="plus")
    yield SemiringError, lambda: jsparse.evaluate("y[i] = A[i,j] * x[j]", A=A, x=x, semiring=3)
    yield SemiringError, lambda: jsparse.explain("ij,j->i", A, x, semiring="min plus")
    yield SemiringError, lambda: jsparse.einsum("ij,j->i", A, x, semiring="or_and")
    yield SemiringError, lambda: jax.jit(lambda A: jsparse.einsum("ij,j->i", A, x, semiring="or_and"))(A)
    yield ValueError, lambda: Semiring("-", "*")
    yield ValueError, lambda: EqualityMask("*", 0)


def statements():
    A, b, min_plus = matrix(), np.ones(7, np.float32), {"semiring": "min_plus"}
    yield NotYetSupportedError, lambda: jsparse.evaluate("y[i] = 2 * A[i,j] * x[j]", A=A, x=x, **min_plus)
    yield NotYetSupportedError, lambda: jsparse.evaluate("y[i] = A[i,j] * x[j] + 3", A=A, x=x, **min_plus)
    yield NotYetSupportedError, lambda: jsparse.evaluate("y[i] = b[i] - b[i]", b=b, **min_plus)
    texts = ["C[i,j] = A[i,j] - A[i,j]", "C[i,j] = A[i,j] + 2", "C[i,j] = 2 * A[i,j] + A[i,j]"]
    yield NotYetSupportedError, lambda text: jsparse.evaluate(text, A=A, **min_plus), texts
    schedule, text = jsparse.Schedule().reorder("i j"), "C[i,j] = A[i,j] + B[i,j]"
    yield ScheduleError, lambda: jsparse.evaluate(text, A=A, B=matrix(seed=1), schedule=schedule, **min_plus)
    yield NotYetSupportedError, lambda: jsparse.explain(text, A=A, B=matrix(seed=1), **min_plus)


def reductions():
    A, C = matrix(), matrix(dtype="complex64")
    yield DTypeError, lambda: C.min()
    yield DTypeError, lambda: C.max(0)
    for name in ("sum", "min", "max", "mean", "prod"):
        yield ShapeError, lambda axis, name=name: getattr(A, name)(axis), [2, -3, (0, 0), (0, -2)]


def test_operations():
    assert str(Semiring("min", "+")) == "min_plus"
    assert str(Semiring("min", "*")) == "min of *"
    assert PLUS_TIMES.is_linear
    assert PLUS_TIMES.zero("float32") == 0
    assert Semiring("min", "+").zero("int32") == np.iinfo(np.int32).max
    assert Semiring("max", "+").zero("uint8") == 0
    assert Semiring("max", "+").zero("bool") == 0
    assert Semiring("|", "&").one("int32") == -1
    assert Semiring("|", "&").one("bool") == 1
    assert Semiring("*", "*").zero("float64") == 1
