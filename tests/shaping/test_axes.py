import jax
import numpy as np
import pytest
from relocations import BLOCKS, MATRICES, agree, made

import jsparse


@pytest.mark.parametrize("axis", [0, -1, 1, (0, 2), (-1, 0)], ids=str)
def test_expand_dims(dense, axis):
    agree(lambda A: jsparse.expand_dims(A, axis), lambda x: np.expand_dims(x, axis), dense, formats=MATRICES, jit=False)


@pytest.mark.parametrize("dynamic", [False, True])
def test_index_arrays_are_shared(dense, dynamic):
    A = made(dense, "csr", dynamic)
    for found in (
        jsparse.expand_dims(A, 0),
        jsparse.expand_dims(A, (0, 2, 4)),
        jsparse.squeeze(jsparse.expand_dims(A, (0, 2))),
        jsparse.moveaxis(A, 0, -1),
        jsparse.swapaxes(A, 0, 1),
        A.reshape(5, 1, 6),
    ):
        assert found.values is A.values
        assert all(x is y for x, y in zip(found.pattern.arrays, A.pattern.arrays, strict=True))


UNIT_FORMATS = ["csr", "csc", "coo", "dcsr", BLOCKS, "dense", "(i, j) -> (j : dense, i : range)"]


@pytest.mark.parametrize("shape", [(1, 6), (6, 1)], ids=str)
def test_squeeze_of_levels_of_any_kind(dense, shape):
    x = dense.reshape(-1)[:6].reshape(shape)
    agree(jsparse.squeeze, np.squeeze, x, formats=UNIT_FORMATS, jit=False)


def test_squeeze_of_some_axes(cube):
    x = cube[:, :1, :1]
    agree(lambda A: A.squeeze(1), lambda x: x.squeeze(1), x, formats=["csf", "coo"])
    agree(lambda A: A.squeeze((1, -1)), lambda x: x.squeeze((1, 2)), x, formats=["csf", "coo"], jit=False)


@pytest.mark.parametrize("format", ["csr", "coo"])
@pytest.mark.parametrize("value", [3.0, 0.0])
def test_squeeze_of_all_axes_gives_an_array(format, value):
    x = np.full((1, 1), value, np.float32)
    for tensor in (jsparse.asarray(x, format), made(x, format, dynamic=True)):
        found = jsparse.squeeze(tensor)
        assert isinstance(found, jax.Array)
        np.testing.assert_array_equal(found, x.squeeze())


def test_permutations(cube):
    A = jsparse.asarray(cube)
    for source, destination in [(0, 2), (-1, 0), ((0, 1), (-1, 0)), ([2, 0], [0, 1])]:
        found = jsparse.moveaxis(A, source, destination).todense()
        np.testing.assert_array_equal(found, np.moveaxis(cube, source, destination))
    np.testing.assert_array_equal(A.swapaxes(0, -1).todense(), cube.swapaxes(0, -1))
