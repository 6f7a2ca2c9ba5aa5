import jax
import numpy as np
import pytest
from relocations import BLOCKS, CUBES, MATRICES, agree, as_dense, integers, made

import jsparse

SHAPES = [(6, 5), (30,), (3, -1), (2, 3, 5), (5, 1, 6), (1, 5, 6, 1), (5, 3, 2)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_matrices(dense, shape):
    agree(lambda A: jsparse.reshape(A, shape), lambda x: x.reshape(shape), dense, formats=MATRICES, jit=shape == (6, 5))


@pytest.mark.parametrize("shape", [(12, 5), (4, 15), (-1,), (3, 4, 5, 1), (6, 2, 5)], ids=str)
def test_tensors_of_three_dimensions(cube, shape):
    agree(lambda A: A.reshape(shape), lambda x: x.reshape(shape), cube, formats=CUBES, jit=False)


def test_method_takes_sizes_or_a_shape(dense):
    A = jsparse.asarray(dense)
    for found in (A.reshape(3, 10), A.reshape((3, 10)), A.reshape(3, -1), A.reshape([3, -1])):
        np.testing.assert_array_equal(found.todense(), dense.reshape(3, 10))
    np.testing.assert_array_equal(A.ravel().todense(), dense.ravel())
    np.testing.assert_array_equal(A.flatten().todense(), dense.ravel())
    np.testing.assert_array_equal(A[2:3, 1:2].reshape(()), dense[2, 1])
    assert A.reshape(5, 6) is A


@pytest.mark.parametrize("dynamic", [False, True])
def test_formats_of_results(dense, dynamic):
    def kept(format, shape):
        return jsparse.reshape(made(dense, format, dynamic), shape).format.name

    assert [kept(name, (6, 5)) for name in ("csr", "csc", "coo", "dcsr")] == ["csr", "csc", "coo", "dcsr"]
    assert [kept(name, (5, 2, 3)) for name in ("csr", "coo")] == ["csf", "coo"]
    assert kept(BLOCKS, (5, 2, 3)) == "(i, j, k) -> (i : compressed, j : dense, k : dense)"
    assert kept(BLOCKS, (10, 3)) == "csr"


def test_blocks_keep_their_index_arrays():
    A = made(integers(21, 72), BLOCKS)  # patterns are interned: an equal one that lives would bring its own arrays
    B = A.reshape(21, 8, 9)
    assert B.pattern.arrays[0] is A.pattern.arrays[0]
    assert B.values is A.values
    C = A.reshape(3, 7, 72)
    assert C.nse == A.nse
    assert C.format.trailing_dense == 1


@pytest.mark.parametrize("dynamic", [False, True])
def test_capacity_stays(dense, dynamic):
    A = made(dense, "csr", dynamic)
    assert A.reshape(3, 10).nse == A.nse == A.ravel().nse
    assert A.reshape(3, 10).is_dynamic == dynamic


def test_large_dimensions():
    size = 10**9
    A = jsparse.SparseTensor.from_coords([[3, size - 1], [5, size - 2]], np.ones(2, np.float32), (size, size))
    coords, _ = A.reshape(10**6, -1).to_coords()
    positions = [3 * size + 5, (size - 1) * size + size - 2]
    np.testing.assert_array_equal(coords, [[p // 10**12 for p in positions], [p % 10**12 for p in positions]])
    assert A.reshape(-1).shape == (10**18,)
    assert A.asformat("dcsr").reshape(10**8, 10**10).format.name == "dcsr"
    B = jsparse.zeros((size, size, size)).reshape(10**18, size)  # in groups of dimensions, so 10²⁷ does not occur
    assert B.reshape(size, size, size).shape == (size,) * 3


def test_wide_positions_of_dynamic_tensors():
    size = 10**5
    A = jsparse.SparseTensor.from_coords([[3, size - 1], [5, size - 2]], np.ones(2, np.float32), (size, size), nse=3)
    with jax.enable_x64(True):
        coords, _ = A.reshape(size // 2, 2 * size).to_coords()
    np.testing.assert_array_equal(coords, [[1, size // 2 - 1], [size + 5, 2 * size - 2]])


@pytest.mark.parametrize("old, new", [((0, 4), (2, 0)), ((3, 0, 2), (0,)), ((0,), (5, 0, 1))])
@pytest.mark.parametrize("dynamic", [False, True])
def test_empty_shapes(old, new, dynamic):
    found = jsparse.reshape(made(np.zeros(old, np.float32), None, dynamic), new)
    assert as_dense(found).shape == new
    assert found.is_dynamic == dynamic


def test_index_arrays_are_no_part_of_programs(dense):
    big = np.tile(dense, (20, 20))
    text = jax.jit(lambda A: A.reshape(50, -1).values + jsparse.flip(A).values).lower(jsparse.asarray(big)).as_text()
    assert len(text) < 5000
