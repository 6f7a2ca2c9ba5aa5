"""`evaluate` against numpy: statements of every form, with several combinations and formats of sparse operands."""

import itertools

import numpy as np
import pytest
from einsum.structure import check_structure, dense_array, integers, random_format, stored_in, structural_nonzeros
from programs.amount import sample

import jsparse
from jsparse import SparseTensor

SHAPES = {
    "A": (4, 4),
    "B": (4, 4),
    "E": (4, 4),
    "x": (4,),
    "y": (4,),
    "a": (),
    "long_name_of_2": (4, 4),
}

# the statement, the same by numpy
STATEMENTS = [
    ("C[i,j] = A[i,j] + B[i,j]", lambda A, B: A + B),
    ("C[i,j] = A[i,j] + B[j,i]", lambda A, B: A + B.T),
    ("C[i,j] = A[i,j] - (B[i,j] - E[i,j])", lambda A, B, E: A - (B - E)),
    ("C[i,j] = (A[i,k] + B[i,k]) * E[k,j]", lambda A, B, E: (A + B) @ E),
    ("C[i,j] = (A[i,k] + B[i,k]) * (A[k,j] - E[k,j])", lambda A, B, E: (A + B) @ (A - E)),
    ("y[i] = x[i] + A[i,j] * x[j]", lambda x, A: x + A @ x),
    ("C[i,j] = x[i] + A[i,j]", lambda x, A: x[:, None] + A),
    ("C[i,j] = x[j] + y[i]", lambda x, y: x[None] + y[:, None]),
    ("C[i,j] = A[i,j] + 1", lambda A: A + 1),
    ("C[i,j] = A[i,j] * 1", lambda A: A),
    ("C[i,j] = -A[i,j]", lambda A: -A),
    ("C[i,j] = -(-A[i,j]) * (2 - 1) * 0.5", lambda A: A * 0.5),
    ("C[i,j] = a * A[i,j] + B[i,j]", lambda a, A, B: a * A + B),
    ("s = x[i] * A[i,j] * y[j] + 3", lambda x, A, y: x @ A @ y + 3),
    ("s = A[i,i]", lambda A: np.trace(A)),
    ("z[i] = A[i,j] + B[j,i]", lambda A, B: A.sum(1) + B.sum(0)),
    ("C[i,j,k] = A[i,j] + B[j,k]", lambda A, B: A[:, :, None] + B[None]),
    ("A[A,C] = B[A,B] * E[B,C]", lambda B, E: B @ E),
    ("x[A] = A[A,x] * y[x]", lambda A, y: A @ y),
    ("out_1[row,column_2] = long_name_of_2[row,q] * A[q,column_2]", lambda long_name_of_2, A: long_name_of_2 @ A),
    ("C[i,j]=A[i,k]*A[k,j]+A[i,j]", lambda A: A @ A + A),
    ("C[i,j] = 0 * A[i,j] + B[i,j]", lambda A, B: 0 * A + B),
    ("C[i,j] = A[i,j] + 0", lambda A: A + 0),
]

# Results that are dense even for sparse tensors: a term sums over indices of each of its tensors, or is a number.
DENSE = {
    "y[i] = x[i] + A[i,j] * x[j]",
    "C[i,j] = A[i,j] + 1",
    "C[i,j] = A[i,j] + 0",
    "s = x[i] * A[i,j] * y[j] + 3",
    "s = A[i,i]",
    "z[i] = A[i,j] + B[j,i]",
    "x[A] = A[A,x] * y[x]",
}


def named(function):
    return function.__code__.co_varnames[: function.__code__.co_argcount]


def check_rule(statement, function, tensors):
    """Check that the result of sparse tensors is sparse unless in DENSE, and stores exactly the possible nonzeros."""
    found = jsparse.evaluate(statement, **tensors)
    assert isinstance(found, SparseTensor) == (statement not in DENSE)
    if isinstance(found, SparseTensor) and "0 *" not in statement:
        mask = structural_nonzeros(function, list(tensors.values()))
        check_structure(found, mask)
        for out_format in ("coo", "csf") if found.ndim else ():
            check_structure(jsparse.evaluate(statement, out_format=out_format, **tensors), mask, out_format)


@pytest.mark.sampled(3)
@pytest.mark.semantics
@pytest.mark.parametrize("statement, function", sample(STATEMENTS, 0, 3), ids=lambda x: x if isinstance(x, str) else "")
def test_statements(statement, function):
    names = named(function)
    rng = np.random.default_rng(len(statement))
    kinds = list(itertools.product((True, False), repeat=len(names)))
    chosen = [kinds[0], *(kinds[n] for n in rng.permutation(len(kinds))[:2])]
    for sparse in chosen:
        tensors = {}
        for name, kind in zip(names, sparse, strict=True):
            array = integers(rng, SHAPES[name], 0.4 if SHAPES[name] else 1)
            tensors[name] = stored_in(array, random_format(rng, array.ndim), zeros=1) if kind else array
        expected = function(*map(dense_array, tensors.values()))
        if all(sparse):
            check_rule(statement, function, tensors)
        described = str(tensors)
        for out_format in (None, "dense", "coo" if expected.ndim else None):
            found = jsparse.evaluate(statement, out_format=out_format, **tensors)
            assert found.shape == np.shape(expected)
            np.testing.assert_array_equal(dense_array(found), expected, described)
            assert not (out_format == "dense" and isinstance(found, SparseTensor))
            assert out_format != "coo" or isinstance(found, SparseTensor)


@pytest.mark.semantics
def test_examples_of_the_documentation():
    rng = np.random.default_rng(0)
    b, x, A, B, E, F = (integers(rng, SHAPES[name], 0.5) for name in ("y", "x", "A", "B", "E", "E"))
    S, T = stored_in(A, "csr"), stored_in(B, "coo")
    y = jsparse.evaluate("y[i] = b[i] - 2 * A[i,j] * x[j]", b=b, A=S, x=x)
    np.testing.assert_array_equal(y, b - 2 * dense_array(S) @ x)
    D = jsparse.evaluate("D[i,j] = (A[i,k] + B[i,k]) * E[k,j] - F[i,j]", A=S, B=T, E=E, F=F)
    np.testing.assert_array_equal(D, (dense_array(S) + dense_array(T)) @ E - F)
