"""`SparseTensor.from_coords` with one number for all entries, and with dense blocks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jsparse.tensor.sparse_tensor import SparseTensor

COORDS = np.array([[0, 2, 2], [1, 0, 0]])
BLOCKS = np.arange(12, dtype=np.float32).reshape(3, 4)


def summed(coords, values, shape):
    dense = np.zeros(shape, np.asarray(values).dtype)
    np.add.at(dense, tuple(coords), values)
    return dense


@pytest.mark.parametrize("nse", [None, 5])
@pytest.mark.parametrize("value", [2, 2.5, True, np.float32(3), np.float64(3), 1j])
def test_one_number_for_all_entries(value, nse):
    A = SparseTensor.from_coords(COORDS, value, (3, 2), nse=nse)
    assert A.dtype == jnp.asarray(value).dtype
    np.testing.assert_array_equal(A.todense(), summed(COORDS, np.full(3, value), (3, 2)))


def test_the_default_is_one():
    A = SparseTensor.from_coords(COORDS, shape=(3, 2))
    assert A.dtype == jnp.int32
    np.testing.assert_array_equal(A.todense(), [[0, 1], [0, 0], [2, 0]])
    B = jax.jit(lambda c: SparseTensor.from_coords(c, shape=(3, 2)))(COORDS)
    np.testing.assert_array_equal(B.todense(), A.todense())
    assert jax.grad(lambda x: SparseTensor.from_coords(COORDS, x, (3, 2)).sum())(2.0) == 3


@pytest.mark.sampled(3)
@pytest.mark.parametrize("outer", [1, 2])
@pytest.mark.parametrize("traced", ["nothing", "values", "both"])
@pytest.mark.parametrize("nse", [None, 12])
def test_blocks(outer, traced, nse):
    coords, shape = COORDS[:outer], (*(3, 2)[:outer], 4)

    def made(coords, blocks):
        return SparseTensor.from_coords(coords, blocks, shape, nse=nse)

    if traced == "nothing":
        A = made(coords, BLOCKS)
    else:
        A = jax.jit(made)(coords, BLOCKS) if traced == "both" else jax.jit(lambda b: made(coords, b))(BLOCKS)
    assert A.is_dynamic == (nse is not None or traced == "both")
    assert A.format.trailing_dense == 1
    assert A.nse == (8 if not A.is_dynamic else 12)
    np.testing.assert_array_equal(A.todense(), summed(coords, BLOCKS, shape))
    gradient = jax.grad(lambda b: (made(coords, b).todense() ** 2).sum())(jnp.asarray(BLOCKS))
    np.testing.assert_array_equal(gradient, 2 * summed(coords, BLOCKS, shape)[tuple(coords)])


@pytest.mark.parametrize(
    "format",
    [
        "coo",
        None,
        "dense",
        "(i, j, k) -> (i : dense, j : compressed, k : dense)",
        "(i, j, k) -> (j : compressed, i : compressed, k : dense)",
    ],
)
def test_formats_of_blocks(format):
    for options in ({}, {"nse": 24}):
        A = SparseTensor.from_coords(COORDS, BLOCKS, (3, 2, 4), format, **options)
        np.testing.assert_array_equal(A.todense(), summed(COORDS, BLOCKS, (3, 2, 4)))


@pytest.mark.parametrize("nse", [None, 8])
def test_blocks_of_several_dimensions_and_of_none(nse):
    blocks = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    A = SparseTensor.from_coords([[4, 1]], blocks, (5, 3, 4), nse=None if nse is None else 3 * nse)
    np.testing.assert_array_equal(A.todense(), summed([[4, 1]], blocks, (5, 3, 4)))
    assert SparseTensor.from_coords([[4, 1]], blocks[..., :0], (5, 3, 0), nse=nse).nse == 0
    np.testing.assert_array_equal(
        SparseTensor.from_coords([[1]], 2, (3, 2), nse=nse).todense(), [[0, 0], [2, 2], [0, 0]]
    )
