import jax
import jax.numpy as jnp
import numpy as np
import pytest
from relocations import BLOCKS, CUBES, MATRICES, agree, as_dense, made

import jsparse


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 1)], ids=str)
def test_flip(dense, axis):
    agree(lambda A: jsparse.flip(A, axis), lambda x: np.flip(x, axis), dense, formats=MATRICES, jit=axis == 0)


ROLLS = [(2, 0), (-1, 1), (7, None), ((1, -2), (0, 1)), (3, (0, 1)), ((1, 2), 1), (12, 1), (0, None)]


@pytest.mark.parametrize("shift, axis", ROLLS, ids=str)
def test_roll(dense, shift, axis):
    def expected(x):
        return np.roll(x, shift, axis)

    agree(lambda A: jsparse.roll(A, shift, axis), expected, dense, formats=MATRICES, jit=shift in (2, 7))


def test_tensors_of_three_dimensions(cube):
    agree(lambda A: jsparse.roll(A, 1, 1), lambda x: np.roll(x, 1, 1), cube, formats=CUBES, jit=False)
    agree(lambda A: jsparse.flip(A, (0, 2)), lambda x: np.flip(x, (0, 2)), cube, formats=CUBES, jit=False)


@pytest.mark.parametrize("format", ["csr", "coo", BLOCKS])
@pytest.mark.parametrize("dynamic", [False, True])
def test_format_and_nse_stay(dense, format, dynamic):
    A = made(dense, format, dynamic)
    for found in (jsparse.flip(A), jsparse.roll(A, 1, 0), jsparse.roll(A, 1)):
        assert (found.format, found.nse, found.is_dynamic) == (A.format, A.nse, dynamic)


def test_runs_stay_runs_when_flipped(dense):
    A = jsparse.asarray(dense, "(i, j) -> (i : dense, j : range)")
    assert jsparse.flip(A).format == A.format
    assert jsparse.roll(A, 1, 1).format.name == "csr"


def test_large_dimensions():
    size = 10**9
    A = jsparse.SparseTensor.from_coords([[3, size - 1], [5, 0]], np.ones(2, np.float32), (size, size))
    np.testing.assert_array_equal(jsparse.flip(A).to_coords()[0], [[0, size - 4], [size - 1, size - 6]])
    np.testing.assert_array_equal(jsparse.roll(A, size - 1, 0).to_coords()[0], [[2, size - 2], [5, 0]])
    np.testing.assert_array_equal(jsparse.roll(A, -1).to_coords()[0], [[3, size - 2], [4, size - 1]])
    np.testing.assert_array_equal(jsparse.roll(A.dynamic(4), -5, 1).to_coords()[0], [[3, size - 1], [0, size - 5]])


def test_integers_and_bools(dense):
    for dtype in (np.int8, np.bool_, np.uint32, np.complex64, jnp.bfloat16):
        A = jsparse.asarray(dense.astype(dtype))
        for found in (jsparse.flip(A, 1), jax.jit(lambda A: jsparse.flip(A, 1))(A)):
            assert found.dtype == dtype
            np.testing.assert_array_equal(as_dense(found), np.flip(dense.astype(dtype), 1))
