"""Dimensions of size 0: index arrays have the lengths of their format, and results agree with dense arrays."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from jax.experimental.sparse import BCOO

import jsparse
from jsparse.formats import Pattern

SHAPES = [(0,), (3, 0), (0, 3), (0, 0), (2, 3, 0), (2, 0, 3), (0, 2, 3), (2, 0, 0)]
FORMATS = {
    1: [None, "coo", "csf", "(i) -> (i : compressed(nonunique))"],
    2: [None, "coo", "csr", "csc", "dcsr", "dcsc", "(i, j) -> (i : compressed, j : dense)"],
    3: [
        None,
        "coo",
        "(i, j, k) -> (i : dense, j : dense, k : compressed)",
        "(i, j, k) -> (j : dense, i : dense, k : compressed)",
        "(i, j, k) -> (i : dense, j : compressed(nonunique), k : singleton)",
        "(i, j, k) -> (k : dense, j : compressed, i : dense)",
        "(i, j, k) -> (i : compressed, j : dense, k : compressed)",
    ],
}
CASES = [(shape, format) for shape in SHAPES for format in FORMATS[len(shape)]]


def check_lengths(A):
    """Check the index arrays as if a user had given them."""
    if A.is_dynamic:
        A.validate()
        check_lengths(A.static())
    else:
        assert Pattern(A.shape, A.format, A.pattern.arrays) == A.pattern
        assert A.values.shape == (A.nse,)


def sources(shape, format):
    dense = np.zeros(shape, np.float32)
    none = np.zeros((len(shape), 0), np.int32)
    out = np.full((len(shape), 2), -1)
    yield jsparse.asarray(dense, format)
    yield jsparse.asarray(dense, format, dynamic=True)
    yield jsparse.asarray(dense, format, dynamic=True, nse=5)
    yield jsparse.SparseTensor.from_coords(none, np.zeros(0, np.float32), shape, format)
    yield jsparse.SparseTensor.from_coords(out, np.ones(2, np.float32), shape, format, nse=4)
    yield jsparse.asarray(BCOO((np.ones(2, np.float32), out.T), shape=shape), format)
    if len(shape) < 3:
        yield jsparse.asarray(scipy.sparse.coo_array(dense), format)


@pytest.mark.parametrize("shape, format", CASES)
def test_every_intake(shape, format):
    for A in sources(shape, format):
        check_lengths(A)


@pytest.mark.parametrize("shape, format", CASES[::3])
def test_intake_of_traced_arrays(shape, format):
    A = jax.jit(lambda x: jsparse.asarray(x, format, dynamic=True, nse=5))(jnp.zeros(shape))
    check_lengths(A)
    assert int(A.nnz) == 0


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dynamic", [False, True])
def test_conversions_and_indexing(shape, dynamic):
    A = jsparse.asarray(np.zeros(shape, np.float32), dynamic=dynamic)
    for format in FORMATS[len(shape)][1:]:
        check_lengths(A.asformat(format))
    check_lengths(A.T)
    if not dynamic:
        for index in itertools.product([slice(None), slice(0, 1), slice(1, None, 2)], repeat=len(shape)):
            check_lengths(A[index])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("shape", [(0,), (3, 0), (2, 3, 0), (0, 3)])
@pytest.mark.parametrize("dynamic", [False, True])
def test_products_and_gradients(shape, dynamic):
    dense = np.zeros(shape, np.float32)
    formats = [None, "dense" if not dynamic else "coo", FORMATS[len(shape)][2]]
    letters = "ijk"[: len(shape)]
    loss = lambda A, B: jsparse.einsum(f"{letters},{letters}->", A, B)  # noqa: E731
    for A in [jsparse.asarray(dense, f, dynamic=dynamic) for f in formats]:
        for B in (jnp.asarray(dense), jsparse.asarray(dense)):
            assert loss(A, B) == 0
            of_a, of_b = jsparse.grad(loss, argnums=(0, 1))(A, B)
            assert of_a.shape == of_b.shape == shape
            assert of_a.nse == A.nse
        kept = jsparse.einsum(f"{letters}->{letters[:1]}", A, out_format="dense")
        np.testing.assert_array_equal(kept, dense.sum(tuple(range(1, len(shape)))))


@pytest.mark.parametrize("dynamic", [False, True])
def test_products_with_a_dimension_of_size_0(dynamic):
    A = jsparse.asarray(np.zeros((3, 0), np.float32), dynamic=dynamic)
    for C in (jsparse.einsum("ij,kj->ik", A, A, nse=4), jsparse.einsum("ji,jk->ik", A, A, nse=4), A + A, A * A):
        check_lengths(C)
        assert int(C.nnz) == 0
    np.testing.assert_array_equal(A @ np.ones((0, 4), np.float32), np.zeros((3, 4)))
    np.testing.assert_array_equal(A.T @ np.ones((3, 4), np.float32), np.zeros((0, 4)))
