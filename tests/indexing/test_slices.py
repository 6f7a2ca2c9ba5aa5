"""Integers, slices and None as indices of static matrices and tensors."""

import numpy as np
import pytest
from indexing.cases import as_dense

from jsparse.convert.creation import asarray
from jsparse.tensor.sparse_tensor import SparseTensor

MATRIX_FORMATS = ["csr", "csc", "coo", "dcsr", "dcsc", "dense", "(i, j) -> (i : compressed, j : dense)"]
INDICES = [
    0,
    -1,
    np.int64(2),
    slice(2, 5),
    slice(None),
    slice(9, 2),
    slice(-3, None, 2),
    slice(None, None, -1),
    (slice(4, None, -2), slice(None, 1, -3)),
    (1, 2),
    (0, slice(None)),
    (slice(None), 3),
    (slice(0, 5, 2), slice(1, 6, 3)),
    (..., 2),
    (1, ...),
    (None, 1),
    (slice(None), None, 2),
    (1, 2, None),
    None,
    (..., None),
    (None, ..., None, 1),
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("format", MATRIX_FORMATS)
@pytest.mark.parametrize("index", INDICES, ids=str)
def test_matrices(dense, format, index):
    found = asarray(dense, format)[index]
    assert found.shape == dense[index].shape
    np.testing.assert_array_equal(as_dense(found), dense[index])


@pytest.mark.parametrize("format", ["coo", "csf", "(i, j, k) -> (i : compressed(nonunique), j : singleton, k : dense)"])
@pytest.mark.parametrize(
    "index", [1, (slice(None), 2), (..., 3), (1, slice(1, 3)), (0, ..., slice(None, None, 2)), (2, 1, 1)], ids=str
)
def test_tensors_of_three_dimensions(format, index):
    x = np.random.default_rng(0).integers(0, 3, (3, 4, 5)).astype(np.float32)
    found = asarray(x, format)[index]
    np.testing.assert_array_equal(as_dense(found), x[index])


@pytest.mark.parametrize(
    "format, index, left",
    [("csr", 0, "coo"), ("csr", slice(0, 2), "csr"), ("coo", 0, "coo"), ("csr", (slice(None), 0), "coo")],
)
def test_formats_of_results(dense, format, index, left):
    assert asarray(dense, format)[index].format.name == left


def test_nothing_is_proportional_to_a_dimension():
    A = SparseTensor.from_coords([[3, 10**9 - 1], [5, 10**8]], np.ones(2, np.float32), (10**9, 10**9))
    assert A[10**8 :].shape == (9 * 10**8, 10**9)
    assert A[10**8 :].nse == A[3].nse == A[-1, 10**8] == 1


def test_the_whole_tensor_is_itself(dense):
    A = asarray(dense)
    B = asarray(dense, dynamic=True)
    assert A[...] is A[:] is A[:, :] is A
    assert B[...] is B


def test_slices_of_equal_patterns_share_theirs(dense):
    A = asarray(dense)
    first, second = A[1:4], A[1:4, :]
    assert first.pattern is second.pattern


def test_results_share_no_memory_with_the_tensor():
    A = asarray(np.eye(200, dtype=np.float32))
    row = A[100:150]
    owners = [array if array.base is None else array.base for array in row.pattern.arrays]  # arrays are read-only views
    assert [owner.nbytes for owner in owners] == [array.nbytes for array in row.pattern.arrays]
    assert row.values.unsafe_buffer_pointer() != A.values.unsafe_buffer_pointer()
