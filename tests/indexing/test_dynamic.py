"""Indexing of dynamic patterns: static shapes, capacities, overflow, derivatives, batches."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from indexing.cases import as_dense

import jsparse
from jsparse.tensor.sparse_tensor import SparseTensor

INDICES = [2, (slice(None), 3), (slice(None, None, -2), slice(5, 1, -1)), (None, slice(1, 6), 1)]


DIFFERENT = [(slice(None), slice(None, None, -1)), slice(1, 4), 3, [4, 1], (1, 2), ([0, 2], 3)]
SOME = [(slice(4, 1, -1), slice(1, None)), (3, slice(None, None, 2)), (slice(None), [4, 1])]


@pytest.mark.parametrize("format", ["csr", "coo", "(i, j) -> (j : compressed, i : dense)"])
def test_one_program_serves_all_patterns(dense, format):
    other = np.roll(dense, 1, axis=0)
    for index in INDICES:
        indexed = jax.jit(lambda A, index=index: A[index])
        for x in (dense, other):
            A = jsparse.asarray(x, format, dynamic=True, nse=30)
            found = indexed(A)
            assert found.is_dynamic
            assert found.nse <= min(A.nse, max(found.size, 1))
            np.testing.assert_array_equal(as_dense(found), x[index])
        assert indexed._cache_size() == 1


def test_the_capacity_is_the_operands(dense):
    A = jsparse.asarray(dense, dynamic=True, nse=16)
    assert A[1:4].nse == 16
    assert A[[4, 0, 2]].nse == 16
    assert A[:2, :3].nse == 6
    assert A[2].nse == 7
    blocks = jsparse.asarray(dense, "(i, j) -> (i : compressed, j : dense)").dynamic(28)
    assert blocks[:, 1:3].nse == 8
    assert blocks[:, 1:3].format == blocks.format


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "index, dynamic", [*((index, False) for index in DIFFERENT), *((index, True) for index in SOME)]
)
def test_derivatives_and_batches(dense, index, dynamic):
    A = jsparse.asarray(dense, "csc", dynamic=dynamic)

    def indexed(values):
        found = A.with_values(values)[index]
        return found.todense() if isinstance(found, SparseTensor) else found

    wanted = np.zeros_like(dense)
    np.add.at(wanted, index, 3 * dense[index] ** 2)
    gradient = jax.jit(jax.grad(lambda values: (indexed(values) ** 3).sum()))(A.values)
    np.testing.assert_array_equal(A.with_values(gradient).todense(), wanted)
    tangent = jax.jvp(indexed, (A.values,), (2 * A.values,))[1]
    np.testing.assert_array_equal(tangent, 2 * dense[index])
    batch = jax.vmap(indexed)(jnp.stack([A.values, -A.values]))
    np.testing.assert_array_equal(batch, [dense[index], -dense[index]])


def test_batches_of_patterns(dense):
    pair = [jsparse.asarray(x, dynamic=True, nse=20) for x in (dense, dense[::-1])]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *pair)
    for index in (slice(1, 4), (slice(None), [6, 0])):
        found = jax.vmap(lambda A, index=index: A[index].todense())(stacked)
        np.testing.assert_array_equal(found, [dense[index], dense[::-1][index]])


@pytest.mark.parametrize("index", [slice(1, None), 1, (slice(None), [1, 0])], ids=str)
def test_overflow_is_kept(index):
    made = jax.jit(lambda c: SparseTensor.from_coords(c, jnp.ones(3), (4, 5), nse=2))(jnp.array([[0, 1, 2]] * 2))
    found = made[index]
    assert found.overflowed
    assert np.isnan(found.values).all()


@pytest.mark.parametrize("index", [slice(0, 0), slice(None), slice(None, None, -1)])
def test_empty_tensors(index):
    for shape in ((0, 3), (3, 4)):
        A = jsparse.asarray(np.zeros(shape, np.float32), dynamic=True)
        assert A[index].shape == np.zeros(shape)[index].shape
        assert int(A[index].nnz) == 0
