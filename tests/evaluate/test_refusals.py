"""Errors of `evaluate`: messages say what was expected, what was found, and where."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse
from jsparse import (
    DTypeError,
    FormatError,
    JsparseError,
    PatternError,
    ScheduleError,
    SemiringError,
    ShapeError,
    SubscriptError,
)

D = (np.arange(35).reshape(5, 7) % 3).astype(np.float32)
A = jsparse.asarray(D)
x = np.ones(7, np.float32)


@pytest.mark.parametrize(
    "text, tensors, error, parts",
    [
        (
            "y[i] = A[i,j] * x[j]",
            {"A": A},
            SubscriptError,
            ["'y[i] = A[i,j] * x[j]'", "Missing tensors: x.", "Pass x=..."],
        ),
        ("y[i] = A[i,j] * x[j]", {}, SubscriptError, ["Missing tensors: A, x.", "Pass A=..., x=..."]),
        ("y[i] = A[i,j] * x[j]", {"A": A, "x": x, "z": x}, SubscriptError, ["(A, x)", "Unexpected tensors: z."]),
        ("y[i] = A[i,j] * x[j]", {"A": A, "x": x, "y": x}, SubscriptError, ["no tensor for y", "overwrites all of it"]),
        ("y[i] = A[i,j] * x[j]", {"A": A, "x": x[:6]}, ShapeError, ["'j'", "7 in dimension 1 of operand A"]),
        ("y[i] = A[i] * x[i]", {"A": A, "x": x}, ShapeError, ["tensor A", "rank 1", "A[i]", "shape (5, 7)"]),
        ("s = A", {"A": A}, ShapeError, ["tensor A", "rank 0", "shape (5, 7)"]),
        ("C[i,j] = A[i,j] + B[i,j]", {"A": A, "B": A.T}, ShapeError, ["'i'", "5 in dimension 0 of operand A"]),
        ("y[i] = A[i,i]", {"A": A}, ShapeError, ["'i'", "5 in dimension 0", "7 in dimension 1"]),
        ("y[i] = A[i,j] x[j]", {"A": A, "x": x}, SubscriptError, ["products are written with '*'", "^"]),
        ("y[k] = A[i,j]", {"A": A}, SubscriptError, ["some term", "'k'", "^"]),
        ("y[i] += A[i,j]", {"A": A, "y": x}, ShapeError, ["y", "shape (5,)", "(7,)"]),
        ("y[i] = A[c[i],j]", {"A": A, "c": x}, DTypeError, ["integers to index by", "c has dtype float32"]),
        ("y[i] = A[i,j] + A[i]", {"A": A}, SubscriptError, ["A", "as many indices as before, 2"]),
        ("y[i] = y[i] + A[i,j]", {"A": A, "y": x}, SubscriptError, ["the target", "left only"]),
        ("y[i] = ", {}, SubscriptError, ["^"]),
        ("A[i,j]", {"A": A}, SubscriptError, ["Expected '='"]),
        ("y[i] = A[i,j]", {"A": "abc"}, DTypeError, ["'y[i] = A[i,j]'"]),
        ("y[i] = A[i,j]", {"A": None}, DTypeError, ["NoneType"]),
        ("y[i] = A[i,j] * x[j]", {"A": A, "x": jnp.ones(7, jnp.int4)}, DTypeError, ["int4", ".astype"]),
        ("y[j] = 2199023255552 * A[i,j]", {"A": A.astype("int8")}, DTypeError, ["at most 2147483647", "int8"]),
        ("y[j] = x[j] - A[i,j]", {"A": A.astype(bool), "x": x.astype(bool)}, DTypeError, ["all are bool", ".astype"]),
    ],
)
def test_statements(text, tensors, error, parts):
    with pytest.raises(error) as caught:
        jsparse.evaluate(text, **tensors)
    assert isinstance(caught.value, JsparseError)
    for part in parts:
        assert part in str(caught.value)
    with pytest.raises(error):
        jax.jit(lambda: jsparse.evaluate(text, **tensors))()


@pytest.mark.parametrize(
    "options, error, match",
    [
        ({"schedule": 1}, ScheduleError, "schedule="),
        ({"preferred_element_type": "nonsense"}, DTypeError, "preferred_element_type"),
        ({"preferred_element_type": "int4"}, DTypeError, "preferred_element_type"),
        ({"shape": (5, 8)}, ShapeError, r"shape \(5, 8\), but it has shape \(5, 7\)"),
        ({"semiring": "nonsense"}, SemiringError, "min_plus"),
        ({"out_format": "csx"}, FormatError, "csx"),
        ({"out_format": "csf(3)"}, FormatError, "csf"),
        ({"out_format": 3}, FormatError, "int"),
        ({"out_format": jsparse.Format.of("csf", 3)}, FormatError, "3"),
        ({"out_format": A.T}, ShapeError, r"out_format of shape \(7, 5\)"),
        ({"nse": 3}, PatternError, r"at most nse=3 .*but there are 23"),
        ({"nse": -1}, ShapeError, "nse="),
        ({"nse": 2.0}, ShapeError, "nse="),
        ({"nse": True}, ShapeError, "nse="),
    ],
)
def test_options(options, error, match):
    with pytest.raises(error, match=match):
        jsparse.evaluate("C[i,j] = A[i,j] + B[i,j]", A=A, B=A.asformat("coo"), **options)


@pytest.mark.parametrize("nse", [-1, 2.0, "3", True])
def test_nse_of_dynamic_patterns(nse):
    with pytest.raises(ShapeError, match=r"nse= of 'C\[i,j\] = A\[i,j\] \+ B\[i,j\]'"):
        jsparse.evaluate("C[i,j] = A[i,j] + B[i,j]", A=A.dynamic(30), B=A.dynamic(25), nse=nse)


def test_text_of_another_type():
    with pytest.raises(SubscriptError, match="of type int"):
        jsparse.evaluate(3, A=A)
    with pytest.raises(SubscriptError, match="of type SparseTensor"):
        jsparse.evaluate(A)


def test_names_that_are_options():
    """A tensor cannot have the name of an option."""
    with pytest.raises(JsparseError):
        jsparse.evaluate("y[i] = nse[i]", nse=x)
    with pytest.raises(JsparseError):
        jsparse.evaluate("y[i] = out_format[i]", out_format=x)
    np.testing.assert_array_equal(jsparse.evaluate("y[i] = 2 * text[i]", text=x), 2 * x)
