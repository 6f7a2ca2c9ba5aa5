"""Indexing of dynamic patterns: static shapes, capacities, and one program for all patterns."""

import jax
import numpy as np
import pytest
from indexing.cases import as_dense

import jsparse

INDICES = [2, (slice(None), 3), (slice(None, None, -2), slice(5, 1, -1)), (None, slice(1, 6), 1)]


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


@pytest.mark.parametrize("index", [slice(0, 0), slice(None), slice(None, None, -1)])
def test_empty_tensors(index):
    for shape in ((0, 3), (3, 4)):
        A = jsparse.asarray(np.zeros(shape, np.float32), dynamic=True)
        assert A[index].shape == np.zeros(shape)[index].shape
        assert int(A[index].nnz) == 0
