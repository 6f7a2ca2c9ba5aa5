"""How dynamic tensors are made, inside jit and outside."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse

from jsparse.convert.creation import asarray
from jsparse.tensor.sparse_tensor import SparseTensor

FORMATS = ["csr", "csc", "coo", "dcsr", "dcsc", "(i, j) -> (i : compressed, j : dense)"]
COORDS = np.array([[2, 0, 2, 1], [1, 3, 1, 0]])
VALUES = np.array([1, 2, 4, 8], np.float32)
EXPECTED = np.array([[0, 0, 0, 2], [8, 0, 0, 0], [0, 5, 0, 0]], np.float32)


@pytest.mark.parametrize("format", [*FORMATS, "dense"])
@pytest.mark.parametrize("make", [np.asarray, jnp.asarray, scipy.sparse.lil_matrix, lambda x: asarray(x, "coo")])
def test_concrete_sources(dense, format, make):
    A = asarray(make(dense), format, dynamic=True, nse=35)
    assert A.is_dynamic == (format != "dense")
    assert (A.nse, A.format.name) == (35, asarray(dense, format).format.name)
    A.validate()
    np.testing.assert_array_equal(A.todense(), dense)
    assert asarray(A) is A
    assert asarray(A, nse=35).nse == 35


def test_the_default_capacity_is_the_number_of_entries(dense):
    A = asarray(dense, dynamic=True)
    assert A.nse == A.nnz == np.count_nonzero(dense)
    assert asarray(dense, dynamic=True, nse=10**9).nse == dense.size
    assert asarray(dense, "(i, j) -> (i : compressed, j : dense)", dynamic=True, nse=29).nse == 35


@pytest.mark.parametrize(
    "format, dtype",
    [
        *((format, "float32") for format in [None, *FORMATS, "dense"]),
        *(("csr", dtype) for dtype in ["int32", "bfloat16", "bool", "int8", "complex64"]),
    ],
)
def test_traced_arrays(dense, format, dtype):
    x = jnp.asarray(dense).astype(dtype)
    A = jax.jit(lambda x: asarray(x, format, dynamic=True, nse=35))(x)
    assert A.dtype == dtype
    coords, values = A.to_coords()
    found = np.zeros(dense.shape, x.dtype)
    found[tuple(coords)] = values
    np.testing.assert_array_equal(found, x)
    assert asarray(dense, format, dtype=dtype, dynamic=True).dtype == dtype


@pytest.mark.sampled(3)
@pytest.mark.parametrize("format", [*FORMATS, "dense"])
@pytest.mark.parametrize("nse", [None, 12, 5])
def test_traced_coordinates(format, nse):
    make = lambda c, v: SparseTensor.from_coords(c, v, (3, 4), format, nse=nse)  # noqa: E731
    if nse == 5 and "dense)" in format:
        nse = 12  # whole rows
    A = jax.jit(make)(COORDS, VALUES)
    assert A.is_dynamic == (format != "dense")
    assert not A.overflowed
    np.testing.assert_array_equal(A.todense(), EXPECTED)
    A.validate()
    weights = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    gradient = jax.jit(jax.grad(lambda v, c: (make(c, v).todense() * weights).sum()))(VALUES, COORDS)
    np.testing.assert_array_equal(gradient, weights[tuple(COORDS)])


def test_the_default_capacity_of_coordinates():
    made = jax.jit(lambda c, v: SparseTensor.from_coords(c, v, (30, 40), "csr"))(COORDS, VALUES)
    assert (made.nse, made.nnz) == (4, 3)
    blocks = "(i, j) -> (i : compressed, j : dense)"
    assert jax.jit(lambda c, v: SparseTensor.from_coords(c, v, (30, 40), blocks))(COORDS, VALUES).nse == 160


def test_concrete_coordinates_are_static_unless_nse_is_given():
    assert not SparseTensor.from_coords(COORDS, VALUES, (3, 4)).is_dynamic
    made = []
    jax.jit(lambda v: made.append(SparseTensor.from_coords(COORDS, v, (3, 4)).is_dynamic))(VALUES)
    assert made == [False]
    A = SparseTensor.from_coords(COORDS, VALUES, (3, 4), nse=10)
    assert (A.is_dynamic, A.nse, A.nnz) == (True, 10, 3)
    np.testing.assert_array_equal(A.todense(), EXPECTED)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64])
def test_dtypes_of_coordinates(dtype):
    coords = COORDS.astype(dtype)
    np.testing.assert_array_equal(SparseTensor.from_coords(coords, VALUES, (3, 4), nse=9).todense(), EXPECTED)
    made = jax.jit(lambda c: SparseTensor.from_coords(c, VALUES, (3, 4)).todense())(coords)
    np.testing.assert_array_equal(made, EXPECTED)


@pytest.mark.parametrize("format", ["csr", "coo", "dense", "(i, j) -> (i : compressed, j : dense)"])
def test_coordinates_out_of_range_are_padding_and_none_wraps(format):
    strange = np.array([[2, -1, 0, 3, 2**32 + 1, -(2**40), 0], [1, 1, -4, 0, 1, 0, 2**63 - 1]])
    x = SparseTensor.from_coords(strange, np.arange(1.0, 8), (3, 4), format, nse=12)
    np.testing.assert_array_equal(x.todense(), np.array([[0] * 4, [0] * 4, [0, 1, 0, 0]]))
    small = np.clip(strange, -9, 9).astype(np.int32)
    x = jax.jit(lambda c: SparseTensor.from_coords(c, jnp.arange(1.0, 8), (3, 4), format).todense())(small)
    np.testing.assert_array_equal(x, np.array([[0] * 4, [0] * 4, [0, 1, 0, 0]]))


def test_explicit_zeros_stay():
    made = jax.jit(lambda c, v: SparseTensor.from_coords(c, v, (3, 4)))(COORDS, 0 * VALUES)
    assert made.nnz == 3


def test_wide_indices_with_x64():
    coords = np.array([[0, 2**31, 2**40], [5, 6, 7]])
    with jax.enable_x64(True):
        A = jax.jit(lambda c: SparseTensor.from_coords(c, jnp.ones(3), (2**41, 10), "coo"))(coords)
        assert A.pattern.index_dtype == np.int64
        np.testing.assert_array_equal(A.to_coords()[0], coords)
        np.testing.assert_array_equal(A.static().dynamic(9).to_coords()[0], coords)
    assert SparseTensor.from_coords(coords, np.ones(3), (2**41, 10)).nse == 3


@pytest.mark.parametrize("format", ["coo", "csf"])
def test_nothing_is_proportional_to_a_dimension(format):
    coords = np.random.default_rng(0).integers(0, 10**9, (3, 50))
    A = jax.jit(lambda c: SparseTensor.from_coords(c, jnp.ones(50), (10**9,) * 3, format))(coords)
    B = A.asformat("csf" if format == "coo" else "coo").T
    assert (A.nnz, B.nnz, B.shape) == (50, 50, (10**9,) * 3)
    order = np.lexsort(coords[::-1])
    np.testing.assert_array_equal(A.to_coords()[0], coords[:, order])
    np.testing.assert_array_equal(B.T.to_coords()[0], coords[:, order])
    assert (A * 2).values.sum() == A.sum() * 2 == 100
    A.validate()


def test_nse_of_static_patterns(dense):
    A = asarray(dense)
    assert asarray(dense, nse=A.nse).pattern is A.pattern
    assert A.asformat("coo", nse=A.nse).nse == A.nse
