"""Small arrays of integers, of which kernels and numpy compute equal results, and tensors of them."""

import jax
import numpy as np
import pytest

import jsparse
from jsparse import SparseTensor

RNG = np.random.default_rng(0)


def draw(*shape, density=0.4, dtype=np.float32, least=-3):
    stored = RNG.random(shape) < density
    return np.where(stored, RNG.integers(least, 4, shape), 0).astype(dtype)


def whole(*shape, dtype=np.float32, least=-3):
    return RNG.integers(least, 4, shape).astype(dtype)


def dynamic(dense, format="csr", spare=3):
    tensor = jsparse.asarray(dense, format)
    return tensor.dynamic(tensor.nse + spare)


def both(dense, format="csr"):
    """A static tensor, and a dynamic one with unused slots."""
    return [jsparse.asarray(dense, format), dynamic(dense, format)]


def of(subscripts, *operands, **options):
    """The einsum, compiled with all operands as arguments. Of a sparse result, its dense array."""

    def run(*operands):
        found = jsparse.einsum(subscripts, *operands, **options)
        return found.todense() if isinstance(found, SparseTensor) else found

    return np.asarray(jax.jit(run)(*operands))


def same(found, expected):
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


@pytest.fixture
def dense():
    """A matrix (5, 7) of small integers, about a third of them nonzero."""
    rng = np.random.default_rng(0)
    return (rng.integers(1, 9, (5, 7)) * (rng.random((5, 7)) < 0.35)).astype(np.float32)
