"""`A.coords` and `A.at_coords`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from indexing.cases import FORMATS, random_dense

import jsparse
from jsparse.tensor.sparse_tensor import SparseTensor

COORDS = np.array([[0, 4, 5, -1, 2, 2, 0], [2, 0, 0, 0, 3, 3, -1]])


def at(dense, coords):
    """The elements, 0 where a coordinate is out of range."""
    inside = ((coords >= 0) & (coords < np.array(dense.shape)[:, None])).all(axis=0)
    return np.where(inside, dense[tuple(np.where(inside, coords, 0))], 0)


@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_all_formats(ndim):
    rng = np.random.default_rng(ndim)
    for format in FORMATS[ndim]:
        dense = random_dense(rng, (4, 6, 5)[:ndim])
        coords = rng.integers(-2, 8, (ndim, 40))
        np.testing.assert_array_equal(jsparse.asarray(dense, format).at_coords(coords), at(dense, coords))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("format", ["csr", "csc", "coo", "(i, j) -> (j : dense, i : range)"])
def test_traced_coordinates(dense, format, dynamic):
    A = jsparse.asarray(dense, format, dynamic=dynamic)
    found = jax.jit(lambda A, coords: A.at_coords(coords))
    for coords in (COORDS, COORDS[:, ::-1]):
        np.testing.assert_array_equal(found(A, coords), at(dense, coords))
        np.testing.assert_array_equal(A.at_coords(coords), at(dense, coords))
    assert found._cache_size() == 1
    np.testing.assert_array_equal(jax.jit(lambda r, c: A.at_coords([r, c]))(*COORDS), at(dense, COORDS))
    assert jax.jit(lambda i, j: A[i, j])(2, 3) == dense[2, 3]
    np.testing.assert_array_equal(jax.jit(lambda i, j: A[i[:, None], j])(np.arange(5), np.arange(3)), dense[:, :3])


@pytest.mark.parametrize("dynamic", [False, True])
def test_derivatives_and_batches(dense, dynamic):
    A = jsparse.asarray(dense, dynamic=dynamic)
    wanted = np.zeros_like(dense)
    inside = COORDS[:, [0, 1, 4, 5]]
    np.add.at(wanted, tuple(inside), 2 * dense[tuple(inside)])
    for coords in (COORDS, jnp.asarray(COORDS)):
        gradient = jax.grad(lambda v, c: (A.with_values(v).at_coords(c) ** 2).sum())(A.values, coords)
        np.testing.assert_array_equal(A.with_values(gradient).todense(), np.where(dense, wanted, 0))
    traced = jax.jit(jax.grad(lambda v, c: (A.with_values(v).at_coords(c) ** 2).sum()))(A.values, COORDS)
    np.testing.assert_array_equal(traced, gradient)
    batch = jax.vmap(A.at_coords)(np.stack([COORDS, COORDS[:, ::-1]]))
    np.testing.assert_array_equal(batch, [at(dense, COORDS), at(dense, COORDS)[::-1]])
    batch = jax.vmap(lambda v: A.with_values(v).at_coords(COORDS))(jnp.stack([A.values, -A.values]))
    np.testing.assert_array_equal(batch, [at(dense, COORDS), -at(dense, COORDS)])


@pytest.mark.parametrize("dtype", ["bool", "int8", "bfloat16", "complex64", "uint16"])
def test_values_of_any_dtype(dense, dtype):
    A = jsparse.asarray(dense)
    A = A.with_values(A.values.astype(dtype))
    wanted = dense.astype(A.dtype)
    for found in (A.at_coords(COORDS[:, :2]), jax.jit(lambda A: A.at_coords(COORDS[:, :2]))(A)):
        assert found.dtype == A.dtype
        np.testing.assert_array_equal(found, wanted[tuple(COORDS[:, :2])])
    np.testing.assert_array_equal(jax.jit(lambda A: A[::-1].values)(A), A[::-1].values)


def test_weak_types_stay_weak(dense):
    A = jsparse.asarray(dense)
    weak = A.with_values(jnp.broadcast_to(jnp.asarray(2.0), A.values.shape))
    assert weak.values.weak_type
    assert weak[1:].values.weak_type
    assert weak[[3, 0]].values.weak_type


def test_tensors_without_dimensions_and_points():
    zero = jsparse.asarray(np.float32(3))
    np.testing.assert_array_equal(zero.at_coords(np.zeros((0, 2), int)), [3, 3])
    assert zero.coords.shape == (0, 1)
    for A in (jsparse.asarray(np.zeros((3, 0), np.float32)), jsparse.asarray(np.eye(2, dtype=np.float32))):
        for B in (A, A.dynamic()):
            assert B.at_coords([[], []]).shape == (0,)
            np.testing.assert_array_equal(B.at_coords([[0], [1]]), [0])


def test_coordinates_of_slots(dense):
    A = jsparse.asarray(dense, "csc")
    assert isinstance(A.coords, np.ndarray)
    np.testing.assert_array_equal(A.coords, A.to_coords()[0])
    assert A.coords.shape == (2, A.nse)
    B = A.dynamic(A.nse + 2)
    for found in (B.coords, jax.jit(lambda B: B.coords)(B)):
        np.testing.assert_array_equal(found[:, :-2], A.coords)
        np.testing.assert_array_equal(found[:, -2:], [[5, 5], [7, 7]])
    stacked = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), B)
    assert jax.vmap(lambda B: B.coords)(stacked).shape == (2, 2, B.nse)
    again = SparseTensor.from_coords(B.coords, B.values, B.shape, "csc", nse=B.nse)
    np.testing.assert_array_equal(again.todense(), dense)
