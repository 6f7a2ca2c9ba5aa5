import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from jax.experimental.sparse import BCOO
from relocations import BLOCKS, CUBES, MATRICES, agree, as_dense, integers, made

import jsparse


@pytest.mark.parametrize("axis", [0, 1, -2, None])
def test_concatenate(dense, axis):
    other = integers(5, 6, seed=2)
    agree(
        lambda A, B: jsparse.concatenate([A, B, A], axis),
        lambda x, y: np.concatenate([x, y, x], axis),
        dense,
        other,
        formats=MATRICES,
        jit=axis == 1,
    )


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_stack(dense, axis):
    other = integers(5, 6, seed=2)
    agree(
        lambda A, B: jsparse.stack([A, B], axis),
        lambda x, y: np.stack([x, y], axis),
        dense,
        other,
        formats=MATRICES,
        jit=axis == 0,
    )


@pytest.mark.parametrize("widths", [2, (1, 0), ((0, 3), (2, 1)), [(1, 1)]])
def test_pad(dense, widths):
    agree(lambda A: jsparse.pad(A, widths), lambda x: np.pad(x, widths), dense, formats=MATRICES, jit=widths == (1, 0))


def test_pad_of_other_ranks(cube):
    widths = ((1, 0), (0, 2), (2, 3))
    agree(lambda A: jsparse.pad(A, widths), lambda x: np.pad(x, widths), cube, formats=CUBES, jit=False)
    for x in (np.zeros((0, 3), np.float32), np.zeros((2, 3), np.float32), np.eye(1, 4, 2, dtype=np.float32)):
        agree(lambda A: jsparse.pad(A, 1), lambda x: np.pad(x, 1), x, formats=["csr", "coo"], jit=False)
    wide = jsparse.SparseTensor.from_coords([[5], [7]], [2.0], (10**8, 10**8))
    assert jsparse.pad(wide, ((0, 1), (3, 0))).to_coords()[0].tolist() == [[5], [10]]


def test_other_ranks(cube):
    agree(lambda A: jsparse.concatenate([A, A], 1), lambda x: np.concatenate([x, x], 1), cube, formats=CUBES, jit=False)
    agree(lambda A: jsparse.stack([A, A], 2), lambda x: np.stack([x, x], 2), cube, formats=CUBES, jit=False)
    vector = cube[0, 0]
    agree(lambda A: jsparse.stack([A, A], 1), lambda x: np.stack([x, x], 1), vector, formats=["coo", "dense"])
    agree(lambda A: jsparse.vstack([A, A]), lambda x: np.vstack([x, x]), vector, formats=["coo", "dense"])
    agree(lambda A: jsparse.hstack([A, A]), lambda x: np.hstack([x, x]), vector, formats=["coo", "dense"])
    points = [jsparse.reshape(jsparse.asarray(vector)[:1], (1, 1))[0] for _ in range(2)]
    np.testing.assert_array_equal(as_dense(jsparse.stack(points)), np.stack([vector[:1]] * 2))


def test_several_sizes_and_vectors(dense):
    x, v = dense[:2], dense[3]
    A, v_ = jsparse.asarray(dense), jsparse.asarray(v)
    np.testing.assert_array_equal(as_dense(jsparse.vstack([A, jsparse.asarray(x), v_])), np.vstack([dense, x, v]))
    found = jsparse.hstack([A, A[:, 2:4], A[:, :0]])
    np.testing.assert_array_equal(as_dense(found), np.hstack([dense, dense[:, 2:4]]))
    assert found.format.name == "csr"


@pytest.mark.parametrize("dynamic", [False, True])
def test_formats_of_results(dense, dynamic):
    A, B, C = (made(dense, format, dynamic) for format in ("csr", "csc", "coo"))
    assert jsparse.concatenate([B, B], 1).format.name == "csc"
    assert jsparse.concatenate([B, C], 1).format.name == "csr"
    assert jsparse.concatenate([B, C], 1, format="dcsr").format.name == "dcsr"
    assert jsparse.concatenate([A], format="coo").format.name == "coo"
    assert jsparse.concatenate([A]) is A
    assert jsparse.stack([C, C]).format.name == "coo"
    assert jsparse.stack([A, A], 1).format.notation == "(i, j, k) -> (j : dense, i : dense, k : compressed)"
    assert jsparse.stack([A, B], format="coo").format.name == "coo"


@pytest.mark.parametrize("format", ["csr", "coo", BLOCKS])
def test_capacities_add_up(dense, format):
    A, B = made(dense, format, dynamic=True), made(dense, format)
    for found in (jsparse.concatenate([A, B]), jsparse.stack([A, B]), jsparse.vstack([A, B])):
        assert found.is_dynamic
        assert found.nse == A.nse + B.nse
    assert not jsparse.concatenate([B, B]).is_dynamic


def test_libraries_and_dtypes(dense):
    A = jsparse.asarray(dense.astype(np.int8))
    given = [A, scipy.sparse.csc_array(dense.astype(np.int16)), BCOO.fromdense(jnp.asarray(dense))]
    found = jsparse.vstack(given)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(as_dense(found), np.vstack([dense] * 3))
    for dtypes in [(np.int8, np.uint8), (np.bool_, np.int8), (np.int32, jnp.bfloat16), (np.float16, np.complex64)]:
        x, y = (dense.astype(dtype) for dtype in dtypes)
        expected = jnp.concatenate([x, y])
        for call in (jsparse.concatenate, jax.jit(jsparse.concatenate)):
            found = call([jsparse.asarray(x), jsparse.asarray(y)])
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(as_dense(found), expected)


def test_patterns_inside_programs(dense):
    @jax.jit
    def program(x, A):
        return jsparse.concatenate([jsparse.asarray(x, dynamic=True, nse=20), A], 1)

    found = program(dense, jsparse.asarray(dense))
    np.testing.assert_array_equal(as_dense(found), np.concatenate([dense, dense], 1))
    short = program(np.ones((5, 6), np.float32), jsparse.asarray(dense))
    assert short.overflowed
    assert np.isnan(short.values).all()


def test_large_dimensions():
    size = 10**9
    A = jsparse.SparseTensor.from_coords([[3, size - 1], [5, 0]], np.ones(2, np.float32), (size, size))
    coords, _ = jsparse.concatenate([A, A, A]).to_coords()
    assert coords.dtype == np.int64
    np.testing.assert_array_equal(coords[0], [3, size - 1, size + 3, 2 * size - 1, 2 * size + 3, 3 * size - 1])
    assert jsparse.stack([A.dynamic(), A], 1).shape == (size, 2, size)
