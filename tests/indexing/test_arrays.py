"""Index tables and masks: of one dimension, of several, and beside slices."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from indexing.cases import as_dense

import jsparse
from jsparse.tensor.sparse_tensor import SparseTensor

ROWS, COLUMNS = np.array([3, 0, 0, -1]), [1, -7, 2]
MASK = np.array([True, False, True, True, False])
KEPT = [  # the result is a SparseTensor
    ROWS,
    MASK,
    [],
    (slice(None), COLUMNS),
    (slice(3, None, -1), COLUMNS),
    (ROWS, 2),
    (2, COLUMNS),
    (ROWS, None),
    (None, 2, COLUMNS),
    ROWS.reshape(2, 2),
    ROWS[::-2],
    (slice(None), np.zeros((0, 2), int)),
]
READ = [  # the result is an array
    (ROWS, ROWS),
    (ROWS[:, None], COLUMNS),
    np.ix_([0, 2], [3, 1, 1]),
    (MASK, [0, 1, 2]),
    (ROWS, None, ROWS),
    ([0], ROWS),
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("format", ["csr", "csc", "coo", "(i, j) -> (i : compressed, j : dense)"])
@pytest.mark.parametrize("index", KEPT + READ, ids=str)
def test_matrices(dense, format, index):
    found = jsparse.asarray(dense, format)[index]
    assert isinstance(found, SparseTensor) == any(index is one for one in KEPT)
    np.testing.assert_array_equal(as_dense(found), dense[index])


TRUTHS = [True, False, np.True_, np.array(False), jnp.array(True), (True, 0), (0, False), (slice(1, 3), True, 2)]
TRUTHS += [
    (True, [2, 0]),
    (False, [2]),
    (2, 1, True),
    (2, None, True),
    ([0, 1], True, [2, 0]),
    (..., False),
    (True, True),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("index", TRUTHS, ids=str)
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_bools_are_masks_of_no_dimensions(dense, index, dynamic):
    A = jsparse.asarray(dense, dynamic=dynamic)
    np.testing.assert_array_equal(as_dense(A[index]), dense[index])
    np.testing.assert_array_equal(as_dense(jax.jit(lambda A: A[index])(A)), dense[index])
    gradient = jsparse.grad(lambda A: (getattr(A[index], "values", A[index]) ** 2).sum())(A).todense()
    expected = np.zeros_like(dense)
    np.add.at(expected, index, 2 * dense[index])
    np.testing.assert_array_equal(gradient, expected)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_empty_masks_of_dimensions_that_are_not_empty(dense, dynamic):
    A, none = jsparse.asarray(dense, dynamic=dynamic), np.zeros(0, bool)
    for index in (none, (none, 3), (slice(2), none), *(np.zeros(shape, bool) for shape in ((0, 7), (5, 0), (0, 0)))):
        np.testing.assert_array_equal(as_dense(A[index]), dense[index])


@pytest.mark.parametrize(
    "index",
    [
        ([1, 1, 0], slice(None), [2, 0, 4]),
        (slice(1, None), [1, 1, 0], [2, 0, 4]),
        ([[1], [2]], [0, 3], slice(None, None, -2)),
        (0, slice(None), [2, 0, 4]),
        (np.ones((3, 4), bool), slice(2)),
        (np.arange(60).reshape(3, 4, 5) % 3 == 0),
    ],
    ids=str,
)
@pytest.mark.parametrize("format", ["csf", "(i, j, k) -> (k : dense, i : compressed, j : dense)"])
def test_several_arrays_beside_slices(index, format):
    x = np.random.default_rng(1).integers(0, 3, (3, 4, 5)).astype(np.float32)
    np.testing.assert_array_equal(as_dense(jsparse.asarray(x, format)[index]), x[index])


def test_rows_keep_their_levels(dense):
    A = jsparse.asarray(dense)
    assert A[ROWS].format.name == "csr"
    assert A[ROWS.reshape(2, 2)].format.notation == "(i, j, k) -> (i : dense, j : dense, k : compressed)"
    assert A.asformat("coo")[ROWS.reshape(2, 2)].format.name == "coo"
    assert A[[0, 0]].nse == 2 * A[0].nse


def test_vectors_and_masks():
    x = np.array([0, 3, 0, 5, 7], np.float32)
    v = jsparse.asarray(x)
    np.testing.assert_array_equal(v[[3, 3, -1]].todense(), [5, 5, 7])
    np.testing.assert_array_equal(v[x > 3].todense(), [5, 7])
    assert v[[3, 0]].nse == 1


@pytest.mark.parametrize("dynamic", [False, True])
def test_whole_masks(dense, dynamic):
    A = jsparse.asarray(dense, dynamic=dynamic)
    np.testing.assert_array_equal(A[dense > 3], dense[dense > 3])
    np.testing.assert_array_equal(A[jnp.asarray(dense == 0)], np.zeros((dense == 0).sum()))
    large = A.with_values(A.values > 3)
    np.testing.assert_array_equal(A[large], dense[dense > 3])
    columns = jsparse.asarray(dense, "csc")
    np.testing.assert_array_equal(A[columns.with_values(columns.values > 3)], dense[dense > 3])
    gradient = jax.grad(lambda v: (A.with_values(v)[large] ** 2).sum())(A.values)
    np.testing.assert_array_equal(A.with_values(gradient).todense(), np.where(dense > 3, 2 * dense, 0))


def test_nothing_is_proportional_to_a_dimension():
    coords = np.array([[3, 10**9 - 1, 5], [5, 10**8, 5], [1, 2**40, 3]])
    A = SparseTensor.from_coords(coords, np.array([1, 2, 3], np.float32), (10**9, 10**9, 2**61))
    points = A[[5, 3, -1], :, [3, 1, 2**40]]
    np.testing.assert_array_equal(points[[0, 1, 2], [5, 5, 10**8]], [3, 1, 2])
    assert A[[5, 5, 4]].nse == A[::-1].nse - 1 == 2
    assert A[::-1][-6].nse == A[:, :, [2**40, 7]].nse == 1
    B = A[:, :, 1].dynamic(4)
    assert int(B[[7, 3]].nnz) == int(B[3].nnz) == B[:, 5::-1][3, 0] == B[[3, 4], [5, 5]].sum() == 1
