"""Random indices of random tensors in all formats, compared with numpy."""

import jax
import numpy as np
import pytest
from indexing.cases import FORMATS, as_dense, random_dense, random_index

import jsparse
from jsparse.errors import PatternError
from jsparse.tensor.sparse_tensor import SparseTensor


def draw(rng):
    """A tensor, its dense array, an index, and numpy's result."""
    while True:
        shape = tuple(int(size) for size in rng.integers(int(rng.random() < 0.8), 7, int(rng.integers(1, 4))))
        dense, index = random_dense(rng, shape), random_index(rng, shape)
        try:
            return jsparse.asarray(dense, str(rng.choice(FORMATS[len(shape)]))), dense, index, dense[index]
        except IndexError:  # its arrays do not broadcast
            continue


def check(found, wanted, dtype):
    assert found.shape == wanted.shape
    assert found.dtype == dtype
    np.testing.assert_array_equal(as_dense(found), wanted)


@pytest.mark.parametrize("seed", range(6))
def test_static(seed):
    rng = np.random.default_rng(seed)
    for _ in range(60):
        A, dense, index, wanted = draw(rng)
        found = A[index]
        check(found, wanted, dense.dtype)
        if isinstance(found, SparseTensor) and not {"dense", "range"} & {str(level.kind) for level in A.format.levels}:
            assert found.nse == np.count_nonzero(wanted)


@pytest.mark.parametrize("seed", range(4))
def test_dynamic(seed):
    rng = np.random.default_rng(seed)
    for _ in range(6):
        A, dense, index, wanted = draw(rng)
        if A.format.is_dense:
            continue
        A = A.dynamic(A.nse + 3)
        try:
            found = A[index]
        except PatternError:  # its arrays repeat coordinates
            continue
        check(found, wanted, dense.dtype)
        if isinstance(found, SparseTensor):
            assert found.is_dynamic
            assert found.nse <= max(A.nse, wanted.size)


def test_traced_values():
    rng = np.random.default_rng(7)
    for _ in range(8):
        A, dense, index, wanted = draw(rng)
        check(jax.jit(lambda A, index=index: A[index])(A), wanted, dense.dtype)
