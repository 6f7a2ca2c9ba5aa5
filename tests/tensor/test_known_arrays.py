"""Preparation outside jit gives what it gives inside, in memory of its own, where the operands are."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse

import jsparse
from jsparse import SparseTensor
from jsparse.base.arrays import allocate_aligned, jax_array

SHAPE = (7, 9)
RNG = np.random.default_rng(0)
COORDS = np.array([RNG.integers(0, size, 40) for size in SHAPE])
VALUES = RNG.integers(-4, 5, 40).astype(np.float32)

OPERATIONS = {
    "from_coords": lambda v: SparseTensor.from_coords(COORDS, v, SHAPE, nse=60),
    "from_coords csr": lambda v: SparseTensor.from_coords(COORDS, v, SHAPE, "csr", nse=60),
    "blocks": lambda v: SparseTensor.from_coords(COORDS, v[:, None] * np.float32([1, 2]), (*SHAPE, 2), nse=120),
    "range": lambda v: SparseTensor.from_coords(COORDS, v, SHAPE, "(i, j) -> (i : dense, j : range)"),
    "static": lambda v: SparseTensor.from_coords(COORDS, v, SHAPE),
    "csc": lambda v: SparseTensor.from_coords(COORDS, v, SHAPE, "csr").asformat("csc"),
    "dynamic": lambda v: SparseTensor.from_coords(COORDS, v, SHAPE, "csr").dynamic(nse=63),
    "dynamic csc": lambda v: SparseTensor.from_coords(COORDS, v, SHAPE, "csr", nse=63).asformat("csc"),
    "another capacity": lambda v: SparseTensor.from_coords(COORDS, v, SHAPE, "csr", nse=50).dynamic(nse=63),
    "transposed": lambda v: SparseTensor.from_coords(COORDS, v, SHAPE, "csr", nse=50).with_transpose().T,
    "blocks in a diagonal": lambda v: jsparse.block_diag(2 * [SparseTensor.from_coords(COORDS, v, SHAPE, nse=60)]),
    "joined": lambda v: jsparse.concatenate(2 * [SparseTensor.from_coords(COORDS, v, SHAPE, "csr", nse=60)], axis=1),
    "edges": lambda v: jsparse.graph.from_edges(*COORDS, v, nodes=9, nse=60),
    "kept edges": lambda v: jsparse.graph.from_edges(*COORDS, v, nodes=9, nse=60, duplicates="keep").sum(2),
    "mapped": lambda v: SparseTensor.from_coords(COORDS, v, SHAPE).map(lambda x: x * x),
    "BCOO": lambda v: jsparse.asarray(SparseTensor.from_coords(COORDS, v, SHAPE, nse=60).to_bcoo()),
}


def dense(operation, values):
    return OPERATIONS[operation](values).todense()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_inside_and_outside_of_jit(operation):
    outside = dense(operation, jnp.asarray(VALUES))
    np.testing.assert_array_equal(outside, jax.jit(lambda v: dense(operation, v))(VALUES))
    assert np.any(np.asarray(outside))


@pytest.mark.parametrize("operation", OPERATIONS)
def test_committed_values_stay_where_they_are(operation):
    device = jax.devices("cpu")[0]
    assert OPERATIONS[operation](jax.device_put(VALUES, device)).values.committed
    assert not OPERATIONS[operation](jax.device_put(VALUES)).values.committed


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_sums_of_duplicates_are_rounded_once(dtype):
    values = jnp.asarray(np.random.default_rng(1).random(3000), dtype)
    coords = np.zeros((2, 3000), int)
    expected = np.asarray(values).astype(np.float64).sum().astype(values.dtype)
    for options in ({}, {"nse": 10}):
        A = SparseTensor.from_coords(coords, values, (2, 2), **options)
        assert A.dtype == values.dtype
        assert A.todense()[0, 0] == expected


def test_sums_of_bools_and_integers():
    coords = np.zeros((2, 3), int)
    A = SparseTensor.from_coords(coords, np.array([True, True, False]), (2, 2), nse=3)
    assert A.dtype == np.bool_
    assert bool(A.todense()[0, 0])
    B = SparseTensor.from_coords(coords, np.array([100, 100, 100], np.int8), (2, 2), nse=3)
    assert B.dtype == np.int8
    assert int(B.todense()[0, 0]) == 300 - 256


def test_transfer_guard():
    A = SparseTensor.from_coords(COORDS, jnp.asarray(VALUES), SHAPE, "csr")
    D = A.dynamic(nse=70)
    with jax.transfer_guard("disallow"):
        found = A.asformat("csc"), D.asformat("csc")
        coords = D.coords
    for B in found:
        np.testing.assert_array_equal(B.todense(), A.todense())
    assert coords.shape == (2, 63)


def test_known_while_tracing():
    A = SparseTensor.from_coords(COORDS, VALUES, SHAPE, "csr")

    @jax.jit
    def f(x):
        with jax.ensure_compile_time_eval():
            found = A.dynamic(nse=60).asformat("csc")
        assert not isinstance(found.values, jax.core.Tracer)
        return found @ x

    x = np.ones(SHAPE[1], np.float32)
    np.testing.assert_allclose(f(x), A.todense() @ x, rtol=1e-6)


def test_memory_of_the_caller_is_not_shared():
    given = scipy.sparse.csr_array(np.eye(50, dtype=np.float32))
    values, coords = np.ones(50, np.float32), np.stack([np.arange(50)] * 2).astype(np.int32)
    made = [
        jsparse.asarray(given),
        jsparse.asarray(given, dynamic=True),
        SparseTensor.from_coords(coords, values, (50, 50)),
        SparseTensor.from_coords(coords, values, (50, 50), nse=50),
        SparseTensor.from_coords(coords, values, (50, 50), "csr", nse=80),
        SparseTensor(values, jsparse.asarray(given).pattern),
    ]
    given.data[:], given.indices[:], values[:], coords[:] = 7, 0, 7, 0
    for A in made:
        np.testing.assert_array_equal(A.todense(), np.eye(50))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.bool_, jnp.bfloat16])
@pytest.mark.parametrize("shared", [True, False])
def test_operands_are_copied(shared, dtype):
    """An operation may read its operands after the call returns, so XLA must not see what the caller writes then. XLA
    would take over an array that is aligned as its own are."""
    given = allocate_aligned((4096,), np.dtype(dtype))
    given[:] = 1
    found = jax_array(given, "numbers", shared=shared)
    given[:] = 0
    np.testing.assert_array_equal(found, np.ones(4096, found.dtype))
    assert found.dtype == np.dtype(jax.dtypes.canonicalize_dtype(dtype))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("columns", [[1, 3, 0, 2], [1, 9, 0, 2], [1, 3, -1, 2], [3, 1, 0, 2]])
@pytest.mark.parametrize("nse", [4, 6])
def test_conversions_of_coordinates_that_nobody_checked(columns, nse):
    """Some are out of range, which are padding, or out of order."""
    pattern = SparseTensor.from_coords([[0, 0, 1, 2], [0, 1, 2, 3]], shape=(3, 4), format="csr", nse=nse).pattern
    pointers, coordinates = pattern.arrays
    pattern = dataclasses.replace(pattern, arrays=(pointers, coordinates.at[:4].set(jnp.array(columns))))
    A = SparseTensor(jnp.arange(1.0, nse + 1), pattern).with_values(jnp.arange(1.0, nse + 1))
    expected = np.zeros((3, 4))
    for row, column, value in zip([0, 0, 1, 2], columns, range(1, 5), strict=True):
        if 0 <= column < 4:
            expected[row, column] = value
    for convert in (lambda A: A.asformat("csc"), lambda A: A.asformat("coo"), lambda A: A.asformat("csr", nse=9)):
        for made in (convert(A), jax.jit(convert)(A)):
            np.testing.assert_array_equal(made.todense(), expected)
    for made in (A.with_transpose(), jax.jit(lambda A: A.with_transpose())(A)):
        np.testing.assert_array_equal(jsparse.einsum("ij,i->j", made, np.ones(3, np.float32)), expected.sum(0))


@pytest.mark.parametrize("nse", [40, 63])
def test_the_transposed_index_is_that_of_a_program(nse):
    A = SparseTensor.from_coords(COORDS, VALUES, SHAPE, "csr", nse=nse)
    outside, inside = A.with_transpose(), jax.jit(lambda A: A.with_transpose())(A)
    for found, expected in zip(jax.tree.leaves(outside), jax.tree.leaves(inside), strict=True):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


def test_overflow_outside_of_jit():
    A = jax.jit(lambda v: SparseTensor.from_coords(jnp.asarray(COORDS), v, SHAPE, "csr", nse=3))(VALUES)
    assert bool(A.overflowed)
    assert int(A.nnz) > 3
    for found in (A.with_values(A.values), jsparse.block_diag([A, A])):
        assert bool(found.overflowed)
        assert np.isnan(found.values).all()
