"""Checks that functions of tensors agree with those of numpy, however the tensors are stored and transformed."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import jsparse
from jsparse import SparseTensor

__all__ = ["BLOCKS", "CUBES", "MATRICES", "agree", "as_dense", "integers", "made"]

BLOCKS = "(i, j) -> (i : compressed, j : dense)"
MATRICES = ["csr", "csc", "coo", "dcsr", "dense", BLOCKS, "(i, j) -> (i : dense, j : range)"]
CUBES = ["csf", "coo", "(i, j, k) -> (i : compressed(nonunique), j : singleton, k : dense)"]


def integers(*shape, seed=0):
    """An array of small integers, less than half of them nonzero, some negative."""
    rng = np.random.default_rng(seed)
    return (rng.integers(-8, 9, shape) * (rng.random(shape) < 0.4)).astype(np.float32)


def made(x, format, dynamic=False):
    """A tensor with the nonzeros of `x`, and some spare capacity if it is dynamic."""
    tensor = jsparse.asarray(x, format)
    return tensor.dynamic(tensor.nse + 7) if dynamic else tensor


def as_dense(x):
    """The dense array of a result, whose index arrays are checked. Numpy makes it, so nothing is compiled."""
    if not isinstance(x, SparseTensor):
        return np.asarray(x)
    x.validate()
    assert not np.any(x.overflowed)
    if x.is_dynamic:
        assert not np.asarray(x.values)[int(x.nnz) :].any()  # padding
    coords, values = x.to_coords()
    dense = np.zeros(x.shape, x.dtype)
    dense[tuple(coords)] = values
    return dense


def agree(function, expected, *arrays, formats, jit=True, dynamic=True):
    """Compare `function` of tensors with `expected` of arrays, in all formats.

    Tensors are dynamic, too, in the first format and in those with blocks. `jit` tests the first format only.
    """
    want = expected(*arrays)
    for format in formats:
        both = dynamic and format in (formats[0], BLOCKS, CUBES[-1])
        for is_dynamic in (False, True) if both else (False,):
            tensors = [made(x, format, is_dynamic) for x in arrays]
            for call in (function, jax.jit(function)) if jit and format == formats[0] else (function,):
                found = as_dense(call(*tensors))
                assert found.shape == want.shape
                np.testing.assert_array_equal(found, want, err_msg=f"{format} dynamic={is_dynamic}")


@pytest.fixture
def dense():
    """A matrix (5, 6) of small integers."""
    return integers(5, 6)


@pytest.fixture
def cube():
    """A tensor (3, 4, 5) of small integers."""
    return integers(3, 4, 5, seed=1)
