"""`A.restrict(B)`: the values of A on the pattern of B, in any two formats, static and dynamic."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from surgery.tensors import FORMATS, dense, made, stored

import jsparse

MATRICES = [format for format, shape in FORMATS.items() if shape == (6, 8)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("n", range(len(MATRICES)))
def test_matrices(n):
    """Each format meets itself and its successor, each time as another pair of static and dynamic patterns."""
    pairs = itertools.cycle(itertools.product(("static", "dynamic"), repeat=2))
    for m, kinds in zip((n, n + 1, n, n + 1), itertools.islice(pairs, n, n + 4), strict=True):
        A, B = made(MATRICES[n], kinds[0]), made(MATRICES[m % len(MATRICES)], kinds[1], seed=1)
        found = A.restrict(B)
        assert found.format == B.format
        assert found.is_dynamic == B.is_dynamic
        assert found.nse == B.nse
        np.testing.assert_array_equal(dense(found), np.where(stored(B), dense(A), 0))
        np.testing.assert_array_equal(A.restrict(B.pattern).values, found.values)
        assert all(x is y for x, y in zip(found.pattern.arrays, B.pattern.arrays, strict=True))


@pytest.mark.parametrize("format", [format for format in FORMATS if format not in MATRICES])
def test_other_ranks(format):
    A, B = made(format), made(format, "dynamic", seed=1)
    np.testing.assert_array_equal(dense(A.restrict(B)), np.where(stored(B), dense(A), 0))


def test_scalars_and_empty_tensors():
    scalar = jsparse.asarray(np.float32(3))
    assert scalar.restrict(scalar).todense() == 3
    A = made("csr")
    nothing = jsparse.asarray(np.zeros((6, 8), np.float32))
    assert A.restrict(nothing).nse == 0
    np.testing.assert_array_equal(nothing.restrict(A).values, np.zeros(A.nse))


def test_other_dtypes():
    A, B = made("csr"), made("csc", seed=1)
    for dtype in (np.int8, np.bool_, jnp.bfloat16, np.complex64):
        found = A.astype(dtype).restrict(B)
        assert found.dtype == dtype
        np.testing.assert_array_equal(dense(found), np.where(stored(B), dense(A.astype(dtype)), 0))


def test_huge_dimensions():
    coords = np.array([[5, 10**9 - 1], [0, 10**9 - 2]])
    A = jsparse.SparseTensor.from_coords(coords, np.array([1.0, 2.0], np.float32), (10**9, 10**9), "dcsr")
    B = jsparse.SparseTensor.from_coords(coords[:, 1:], np.array([7.0], np.float32), (10**9, 10**9), nse=4)
    assert A.restrict(B).values.tolist() == [2, 0, 0, 0]


def test_dynamic_patterns_inside_jit_share_a_program():
    traces = []

    @jax.jit
    def moved(A, B):
        traces.append(None)
        return A.restrict(B), A.restrict(B.pattern)

    for seed in range(3):
        A, B = (made("csr", seed=s).dynamic(48) for s in (seed, seed + 1))
        for found in moved(A, B):
            np.testing.assert_array_equal(dense(found), np.where(stored(B), dense(A), 0))
    assert len(traces) == 1


def test_a_transposed_index_stays():
    A, B = made("csr", "transposed"), made("csc", "transposed", seed=1)
    assert jax.tree.structure(A.restrict(B)) == jax.tree.structure(B)
