import jax
import numpy as np
import pytest
from relocations import BLOCKS, CUBES, MATRICES, agree, made

import jsparse


@pytest.mark.parametrize("repeats, axis", [(2, 0), (3, 1), (2, None), (0, 0), (1, 1)], ids=str)
def test_repeat(dense, repeats, axis):
    agree(
        lambda A: jsparse.repeat(A, repeats, axis),
        lambda x: np.repeat(x, repeats, axis),
        dense,
        formats=MATRICES,
        jit=repeats in (0, 2),
    )


COUNTS = [([2, 0, 1, 3, 1], 0), ([0, 1, 4, 0, 2, 1], 1), ([0] * 5, 0), ([3], 1), ([1] * 6, -1), (range(30), None)]


@pytest.mark.parametrize("repeats, axis", COUNTS, ids=str)
def test_repeat_by_counts(dense, repeats, axis):
    for given in (list(repeats), np.array(repeats, np.uint8), jax.numpy.asarray(repeats)):
        agree(
            lambda A, given=given: jsparse.repeat(A, given, axis),
            lambda x: np.repeat(x, repeats, axis),
            dense,
            formats=MATRICES if isinstance(given, list) else ["csr"],
            jit=isinstance(given, list) and repeats in ([2, 0, 1, 3, 1], [0, 1, 4, 0, 2, 1]),
        )


def test_repeat_by_counts_of_other_ranks_and_of_no_elements(cube):
    for counts, axis in (([1, 0, 2], 0), ([2, 0, 0, 1], 1), ([0, 3, 1, 1, 0], 2)):
        agree(
            lambda A, counts=counts, axis=axis: jsparse.repeat(A, counts, axis),
            lambda x, counts=counts, axis=axis: np.repeat(x, counts, axis),
            cube,
            formats=CUBES,
            jit=False,
        )
    assert jsparse.repeat(jsparse.zeros((0, 4)), np.zeros(0, int), 0).shape == (0, 4)
    np.testing.assert_array_equal(jsparse.repeat(jsparse.asarray([4.0, 0, 5]), [1, 2, 3]).todense(), [4, 0, 0, 5, 5, 5])


def test_capacities_of_elements_that_are_repeated_by_counts(dense):
    counts = np.array([2, 0, 1, 3, 1])
    exact = int(((dense != 0).sum(1) * counts).sum())
    A = jsparse.asarray(dense)
    assert jsparse.repeat(A, counts, 0).nse == exact
    assert jsparse.repeat(A.dynamic(), counts, 0).nse == 3 * A.nse
    found = jsparse.repeat(A.dynamic(), counts, 0, nse=exact)
    assert found.nse == exact
    np.testing.assert_array_equal(found.todense(), np.repeat(dense, counts, 0))
    assert jsparse.repeat(A.dynamic(), 2, 0, nse=2 * A.nse + 3).nse == 2 * A.nse + 3


@pytest.mark.parametrize("reps", [2, (2, 3), (1, 2), (2, 1, 3), (3, 1, 1), (0, 2)], ids=str)
def test_tile(dense, reps):
    formats = MATRICES
    agree(lambda A: jsparse.tile(A, reps), lambda x: np.tile(x, reps), dense, formats=formats, jit=reps == (2, 1, 3))


@pytest.mark.parametrize(
    "old, new", [((5, 6), (3, 5, 6)), ((5, 1, 6), (5, 4, 6)), ((1, 5, 1, 6), (2, 5, 3, 6))], ids=str
)
def test_broadcast_to(dense, old, new):
    agree(
        lambda A: jsparse.broadcast_to(A.reshape(old), new),
        lambda x: np.broadcast_to(x.reshape(old), new),
        dense,
        formats=MATRICES,
        jit=old == (5, 1, 6),
    )


def test_broadcast_of_stored_dimensions_of_size_1(dense):
    row = dense[:1]
    for format in ("csr", "csc", "coo", BLOCKS):
        agree(lambda A: jsparse.broadcast_to(A, (4, 6)), lambda x: np.broadcast_to(x, (4, 6)), row, formats=[format])


@pytest.mark.parametrize("dynamic", [False, True])
def test_added_dimensions_share_index_arrays(dense, dynamic):
    A = made(dense, "csr", dynamic)
    for found in (jsparse.broadcast_to(A, (3, 5, 6)), jsparse.tile(A, (3, 1, 1))):
        assert all(x is y for x, y in zip(found.pattern.arrays, A.pattern.arrays, strict=True))
        assert found.nse == 3 * A.nse
    assert jsparse.repeat(A, 2, 0).nse == jsparse.tile(A, (1, 2)).nse == 2 * A.nse
    assert jsparse.broadcast_to(A, (5, 6)) is jsparse.tile(A, 1) is jsparse.repeat(A, 1, 0) is A


def test_large_dimensions():
    size = 10**9
    A = jsparse.SparseTensor.from_coords([[3, size - 1], [5, 0]], np.ones(2, np.float32), (size, size))
    np.testing.assert_array_equal(jsparse.repeat(A, 2, 0).to_coords()[0][0], [6, 7, 2 * size - 2, 2 * size - 1])
    np.testing.assert_array_equal(jsparse.tile(A, (3, 1)).to_coords()[0][0, -2:], [2 * size + 3, 3 * size - 1])
    assert jsparse.broadcast_to(A, (2, size, size)).nse == 4
