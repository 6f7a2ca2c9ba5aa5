import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
from relocations import BLOCKS, MATRICES, agree, as_dense, integers, made

import jsparse


def test_block_diag(dense):
    other = integers(2, 3, seed=2)
    agree(
        lambda A, B: jsparse.block_diag([A, B, A]),
        lambda x, y: scipy.linalg.block_diag(x, y, x),
        dense,
        other,
        formats=MATRICES,
    )


def test_block_diag_of_vectors_and_of_other_libraries(dense):
    given = [
        scipy.sparse.coo_array(dense),
        jsparse.asarray(dense[0]),
        jsparse.zeros((0, 3)),
        jsparse.asarray(np.float32(2)),
    ]
    expected = scipy.linalg.block_diag(dense, dense[:1], np.zeros((0, 3)), [[2]])
    for found in (jsparse.block_diag(given), jsparse.block_diag(given, format="csc")):
        np.testing.assert_array_equal(as_dense(found), expected)
    A = made(dense, "coo", dynamic=True)
    assert jsparse.block_diag([A, A]).nse == 2 * A.nse
    assert jsparse.block_diag([A, A]).format.name == "coo"
    assert jsparse.block_diag([made(dense, BLOCKS)] * 2).format.name == "csr"


@pytest.mark.parametrize("format", ["csr", "csc", "coo", BLOCKS])
def test_kron(format):
    x, y = integers(3, 4), integers(2, 3, seed=1)
    expected = np.kron(x, y)
    agree(lambda A, B: jsparse.kron(A, B), np.kron, x, y, formats=[format], jit=format == "csr")
    found = jsparse.kron(scipy.sparse.csr_array(x), jsparse.asarray(y, format), format="coo")
    assert found.format.name == "coo"
    np.testing.assert_array_equal(as_dense(found), expected)
    assert made(x, format).format == jsparse.kron(made(x, format), made(y, format)).format
    A, B = made(x, format, dynamic=True), made(y, format)
    assert jsparse.kron(A, B).nse == A.nse * B.nse


def test_kron_of_other_operands():
    x, y = integers(3, 4), integers(2, 3, seed=1)
    expected = np.kron(x, y)
    for a, b in [(jsparse.asarray(x), y), (x, jsparse.asarray(y)), (x, jnp.asarray(y))]:
        np.testing.assert_array_equal(as_dense(jsparse.kron(a, b)), expected)
    z = integers(2, 2, 3, seed=3)
    for a, b in [(z, y), (y[0], z), (z[0, 0], z[0, 1])]:
        np.testing.assert_array_equal(as_dense(jsparse.kron(jsparse.asarray(a), jsparse.asarray(b))), np.kron(a, b))


def test_outer(dense):
    v, w = dense[0], dense[1]
    agree(jsparse.outer, np.outer, v, w, formats=["coo"])
    found = jsparse.outer(jsparse.asarray(dense[:2]), jsparse.asarray(v))
    np.testing.assert_array_equal(as_dense(found), np.outer(dense[:2], v))
    for a, b in [(jsparse.asarray(v), w), (v, jsparse.asarray(w)), (v, w)]:
        np.testing.assert_array_equal(as_dense(jsparse.outer(a, b)), np.outer(v, w))
    assert jsparse.outer(jsparse.asarray(v), jsparse.asarray(w), format="csc").format.name == "csc"


def test_large_dimensions():
    size = 10**9
    A = jsparse.SparseTensor.from_coords([[3, size - 1], [5, 0]], np.ones(2, np.float32), (size, size))
    B = jsparse.kron(A, A)
    assert B.shape == (size**2, size**2)
    assert B.format.name == "coo"
    assert B.to_coords()[0][0].tolist() == [3 * size + 3, 4 * size - 1, (size - 1) * size + 3, size**2 - 1]
    assert jsparse.block_diag([A, A, A]).to_coords()[0].max() == 3 * size - 1
    assert jsparse.outer(A[:2], A[:, :3]).shape == (2 * size, 3 * size)


VECTORS = ["coo", "dense", "(i) -> (i : range)"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "formats", [("csr", "csr"), ("csc", "coo"), (BLOCKS, BLOCKS), ("dense", "csr"), ("coo", "dcsr")]
)
@pytest.mark.parametrize("dtypes", [(np.float32, np.float32), (np.int8, np.float16), (bool, bool)])
def test_kron_of_known_tensors_is_that_of_traced_ones(formats, dtypes):
    x, y = (
        integers(*shape, seed=n).astype(dtype)
        for n, (shape, dtype) in enumerate(zip([(3, 4), (2, 3)], dtypes, strict=True))
    )
    A, B = (jsparse.asarray(z, format) for z, format in zip((x, y), formats, strict=True))
    known, traced = jsparse.kron(A, B), jax.jit(jsparse.kron)(A, B)
    assert known.pattern is traced.pattern
    assert known.dtype == traced.dtype
    np.testing.assert_array_equal(known.values, traced.values)
    np.testing.assert_array_equal(as_dense(known), np.kron(x, y))


@pytest.mark.parametrize("first", VECTORS)
@pytest.mark.parametrize("second", VECTORS)
def test_outer_of_known_tensors_is_that_of_traced_ones(first, second):
    x, y = integers(300) * (np.arange(300) == 7), integers(5, seed=1)
    A, B = jsparse.asarray(x, first), jsparse.asarray(y, second)
    known, traced = jsparse.outer(A, B), jax.jit(jsparse.outer)(A, B)
    assert known.pattern is traced.pattern
    np.testing.assert_array_equal(known.values, traced.values)
    np.testing.assert_array_equal(as_dense(known), np.outer(x, y))


def test_an_infinite_entry_stays_where_it_is():
    x = np.array([[0, np.inf], [1, 0]], np.float32)
    A = jsparse.asarray(x, BLOCKS)
    column = jsparse.asarray(np.array([[1], [0]], np.float32))
    np.testing.assert_array_equal(as_dense(jsparse.kron(A, column)), [[0, np.inf], [0, 0], [1, 0], [0, 0]])
