"""Calls that `einsum` refuses; `refusals.txt` has the messages of the rows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from refusals import test_refusals as test_refusals

import jsparse
from jsparse import (
    DTypeError,
    FormatError,
    LeafError,
    Pattern,
    PatternError,
    ScheduleError,
    SemiringError,
    ShapeError,
    SparseTensor,
    SubscriptError,
    einsum,
)

D = (np.arange(35).reshape(5, 7) % 3).astype(np.float32)
A = jsparse.asarray(D)
x, X, Y = np.ones(7, np.float32), np.ones((7, 2), np.float32), np.ones((5, 2), np.float32)


@pytest.mark.semantics
def test_arguments_of_other_einsums():
    for name in ("out", "casting", "order", "nothing"):
        with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'"):
            einsum("ij->i", A, **{name: None})
    with pytest.raises(TypeError, match="dtype= or preferred_element_type="):
        einsum("ij->i", A, dtype="float32", preferred_element_type="float32")
    for options in ({"optimize": "optimal"}, {"optimize": False}, {"precision": "highest"}, {"dtype": "float32"}):
        np.testing.assert_allclose(einsum("ij->i", A, **options), A.todense().sum(1), rtol=1e-6)
        np.testing.assert_allclose(einsum("ij->i", X, **options), np.asarray(X).sum(1), rtol=1e-6)


def operands():
    yield ShapeError, lambda: einsum("ijk,j->i", A, x)
    yield ShapeError, lambda: einsum("ij,jk->i", A, x)
    yield ShapeError, lambda: einsum("ij,,jk->ik", A, x, X)
    yield ShapeError, lambda text: einsum(text, A), ["", "->"]
    yield ShapeError, lambda: einsum("...ijk,j", A, x)
    yield ShapeError, lambda: einsum("...,...", A, x[:2])
    yield SubscriptError, lambda: einsum("ij->i", A, x, out_format=A)
    yield SubscriptError, lambda: einsum("ij,j,k->i", A, x, out_format=A)
    yield SubscriptError, lambda: einsum("ij,,jk->ik", A, X, out_format=A)
    yield SubscriptError, lambda: einsum("ij,j->i", X, out_format=A)
    yield SubscriptError, lambda: einsum("ij->i", X, x, out_format=A)
    yield SubscriptError, lambda: einsum("", out_format=A)
    for x_ in ("abc", None, object(), [A.pattern], np.array([["a"]])):
        yield DTypeError, lambda x: einsum("ij,jk->ik", A, x), [x_]
        yield DTypeError, lambda x: einsum("ij,jk->ik", x, X), [x_]
    yield DTypeError, lambda: einsum("ij,j->i", A, jax.random.split(jax.random.key(0), 7))


def sizes():
    yield ShapeError, lambda: einsum("ij,j->i", A, x[:6])
    yield ShapeError, lambda: einsum("ik,jk->ij", Y, X[:6], out_format=A)
    yield ShapeError, lambda: einsum("ii->", A)
    yield ShapeError, lambda: einsum("ik,jk->jik", Y, X, out_format=A)
    yield ShapeError, lambda: einsum("ij,j->i", A, x, out_format=A)
    yield ShapeError, lambda: jax.jit(lambda A, x: einsum("ij,j->i", A, x))(A, x[:6])
    yield ShapeError, lambda: einsum("ii->i", A[:1])


def subscripts():
    yield SubscriptError, lambda text: einsum(text, A), ["ij->k", "i j->>ji", "ij->ji->ij"]
    wrong = ["ij,j->ii", "ij,j-", "ij;j->i", "1j,j->1", "éj,j->é", "ij,j->i,", "ij,j\n->i"]
    yield SubscriptError, lambda text: einsum(text, A, x), wrong
    yield SubscriptError, lambda: einsum(A)
    yield SubscriptError, lambda first: einsum(first, A, x), [None, 3, b"ij,j->i"]


def dtypes():
    narrow = jnp.asarray(x).astype("float8_e4m3fn")
    yield DTypeError, lambda: einsum("ij,j->i", A.astype("bfloat16"), narrow)
    dtypes = ["int4", "float8_e4m3fn", "nonsense", "S3", object(), [("a", "f4")]]
    yield DTypeError, lambda dtype: einsum("ij,j->i", A, x, preferred_element_type=dtype), dtypes
    yield DTypeError, lambda: einsum("ij,j->i", A, x * 1j, preferred_element_type=jnp.float32)


def capacities():
    row = jsparse.asarray(D[0])
    for text, *operands in [("ij,jk->ik", A, A.T), ("ij,kj->ik", A, A), ("ij,k->ikj", A, row)]:
        first, second = (operand.dynamic() for operand in operands)
        yield PatternError, lambda text, A, B: einsum(text, A, B), [(text, first, second), (text, operands[0], second)]
    yield ShapeError, lambda nse: einsum("ij,jk->ik", A, A.T, nse=nse), [-1, 2.5, True, "3"]
    yield PatternError, lambda: einsum("ij,jk->ik", A, A.T, nse=3)
    yield PatternError, lambda: einsum("ij,jk->ik", A, A.T, nse=24)
    yield PatternError, lambda: einsum("ij,i->ij", A, x[:5], nse=3)
    yield PatternError, lambda: jax.jit(lambda A: einsum("ij,kj->ik", A, A))(A.dynamic())


def out_formats():
    yield FormatError, lambda: einsum("ij,jk->ik", A, X, out_format="csx")
    yield SubscriptError, lambda out: einsum("ij,jk->ik", A, X, out_format=out), ["", "(i, j) -> (i : dense)"]
    for out in [3, [], D, jnp.ones(3), scipy.sparse.csr_array(D), object()]:
        yield FormatError, lambda out: einsum("ij,jk->ik", A, X, out_format=out), [out]
        yield FormatError, lambda out: einsum("ij,jk->ik", D, X, out_format=out), [out]
    yield FormatError, lambda: einsum("ij,jk->ik", A, X, out_format=jsparse.Format.of("csf", 3))
    P, Q, K = jsparse.eye(6).pattern, np.ones((6, 4, 5)), np.ones((6, 4, 5))
    yield ShapeError, lambda: einsum("ihd,jhd->ijh", np.ones((6, 6, 2)), np.ones((6, 6, 2)), out_format=P)
    yield ShapeError, lambda: einsum("ihd,jhd->ijh", Q[:5], K, out_format=P)
    yield ShapeError, lambda: jsparse.evaluate("C[i,j,k] = x[i]", x=np.ones(6), out_format=P)
    yield ShapeError, lambda: einsum("ij,j->i", jsparse.eye(6), np.ones(6, np.float32), out_format=P)


def schedules_and_semirings():
    yield ScheduleError, lambda A: einsum("ij,j->i", A, x, schedule=1), [A, D]
    yield SemiringError, lambda name: einsum("ij,j->i", A, x, semiring=name), ["nonsense", None, 3]


def tensors():
    yield PatternError, lambda coords: SparseTensor.from_coords(coords, [1.0], (5, 7)), [[[5], [0]], [[0], [-1]]]
    arrays = [([0, 2, 1], [0, 1]), ([0, 1, 5], [0, 1]), ([0, 1], [0]), ([0, 1, 2], [0, 3]), ([0, 2, 2], [1, 1])]
    yield PatternError, lambda pointers, columns: Pattern((2, 3), "csr", (pointers, columns)), arrays
    yield FormatError, lambda: A.asformat("nonsense")


def patterns():
    P, dynamic = A.pattern, A.dynamic().pattern
    cut = jax.tree.map(lambda leaf: leaf[:2], dynamic)
    yield SemiringError, lambda: einsum("ij,j->i", P, x, semiring="or_and")
    yield DTypeError, lambda: einsum("ij,j->i", [P, P], x)
    yield ShapeError, lambda: einsum("ijk,j->i", P, x)
    yield ShapeError, lambda: einsum("ij,j->i", P, x[:5])
    yield FormatError, lambda: einsum("ij,j->i", P, x, out_format=[P])
    yield LeafError, lambda: einsum("ij,j->i", cut, x)
    yield LeafError, lambda: einsum("i,j->ij", x[:5], x, out_format=cut)


def results_larger_than_memory():
    huge = 2**32 - 1
    with jax.enable_x64(True):
        A = SparseTensor.from_coords([[0, 5, huge - 1], [1, 5, 0]], np.ones(3, np.float32), (huge, huge))
        ones = jnp.ones(4)
        yield ShapeError, lambda: A.todense()
        yield ShapeError, lambda: einsum("ij->ij", A, out_format="dense")
        yield ShapeError, lambda: jsparse.evaluate("C[i,j,k] = A[i,j] * x[k]", A=A, x=ones, out_format="dense")
        yield ShapeError, lambda: jax.jit(lambda A: A.todense())(A)
        yield ShapeError, lambda: jax.eval_shape(lambda A: A.todense(), A)
    # One result fits; a batch of 10¹⁸ of them does not.
    x = SparseTensor.from_coords(np.zeros((1, 1), int), np.ones(1, np.float32), (2**20,), "csf")
    structs = jax.ShapeDtypeStruct((2**30, 1), jnp.float32)
    yield ShapeError, lambda: jax.eval_shape(jax.vmap(lambda v: x.with_values(v).todense()), structs)
    coords, one, size = np.zeros((2, 1), int), np.ones(1, np.float32), 2**31 - 1
    yield ShapeError, lambda: SparseTensor.from_coords(coords, one, (size, size), nse=2**62)
