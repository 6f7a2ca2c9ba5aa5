"""Errors of semirings and their messages."""

import jax
import numpy as np
import pytest
from semirings.cases import matrix

import jsparse
from jsparse import JsparseError, NotYetSupportedError, SemiringError
from jsparse.compiler.semiring import PLUS_TIMES, EqualityMask, Semiring

x = np.ones(9, np.float32)


def test_unknown_names_list_those_that_are_known():
    for operands in [(matrix(), x), (np.ones((7, 9)), x)]:
        with pytest.raises(SemiringError, match="plus_times, min_plus, max_plus, max_times, or_and, but got 'plus'"):
            jsparse.einsum("ij,j->i", *operands, semiring="plus")
    with pytest.raises(ValueError, match="min_plus"):
        jsparse.evaluate("y[i] = A[i,j] * x[j]", A=matrix(), x=x, semiring=3)
    with pytest.raises(SemiringError):
        jsparse.explain("ij,j->i", matrix(), x, semiring="min plus")


def test_bits_of_floats():
    with pytest.raises(SemiringError, match=r"bool or integers, but they are float32.*astype"):
        jsparse.einsum("ij,j->i", matrix(), x, semiring="or_and")
    with pytest.raises(SemiringError, match="bool or integers"):
        jax.jit(lambda A: jsparse.einsum("ij,j->i", A, x, semiring="or_and"))(matrix())


@pytest.mark.parametrize("text", ["y[i] = 2 * A[i,j] * x[j]", "y[i] = A[i,j] * x[j] + 3", "y[i] = b[i] - b[i]"])
def test_numbers_and_differences(text):
    tensors = {"A": matrix(), "x": x, "b": np.ones(7, np.float32)}
    tensors = {name: value for name, value in tensors.items() if f"{name}[" in text}
    with pytest.raises(NotYetSupportedError, match="sums of products of tensors by min_plus"):
        jsparse.evaluate(text, semiring="min_plus", **tensors)


def test_extremes_of_complex_entries():
    A = matrix()
    C = A.with_values(A.values.astype(np.complex64))
    with pytest.raises(JsparseError, match="order"):
        C.min()
    with pytest.raises(JsparseError, match="order"):
        C.max(0)


@pytest.mark.parametrize("axis", [2, -3, (0, 0), (0, -2)])
def test_wrong_axes(axis):
    for name in ("sum", "min", "max", "mean", "prod"):
        with pytest.raises(jsparse.ShapeError, match="different axes"):
            getattr(matrix(), name)(axis)


def test_operations():
    with pytest.raises(ValueError, match="no operations"):
        Semiring("-", "*")
    with pytest.raises(ValueError, match="no mask"):
        EqualityMask("*", 0)
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
