"""Tensors of the tests of pattern surgery, and what they are compared with: dense arrays of values and of bits."""

from __future__ import annotations

import jax
import numpy as np

import jsparse

__all__ = ["FORMATS", "check", "dense", "made", "stored"]

FORMATS = {
    "csr": (6, 8),
    "csc": (6, 8),
    "coo": (6, 8),
    "dcsr": (6, 8),
    "(i, j) -> (i : dense, j : range)": (6, 8),
    "(i, j) -> (i : compressed, j : dense)": (6, 8),
    "(i, j, a, b) -> (i : dense, j : compressed, a : dense, b : dense)": (3, 4, 2, 2),
    "csf": (3, 4, 5),
    "(i) -> (i : compressed)": (30,),
}


def made(format, kind="static", seed=0, spare=5, dtype=np.float32):
    """A tensor of distinct integers other than 0, about half of them stored, with `spare` slots of padding."""
    shape = FORMATS[format]
    rng = np.random.default_rng(seed)
    x = rng.permutation(np.arange(1, np.prod(shape) + 1)) * rng.choice([-1, 1], np.prod(shape))
    x = np.where(rng.random(shape) < 0.5, x.reshape(shape), 0).astype(dtype)
    A = jsparse.asarray(x, format)
    if kind == "static":
        return A
    A = A.dynamic(A.nse + spare * int(np.prod(shape) // np.prod(shape[:2]) if "dense)" in format else 1))
    return A.with_transpose() if kind == "transposed" else A


def stores_more(format):
    """Whether a format stores whole blocks or runs."""
    return format.trailing_dense > 0 or any(level.kind.name == "range" for level in format.levels)


def stored(A):
    """A mask of the stored entries."""
    mask = np.zeros(A.shape, bool)
    mask[tuple(np.asarray(A.to_coords()[0]))] = True
    return mask


def dense(A):
    """The dense array, by numpy: a program would be compiled for each pattern."""
    coords, values = A.to_coords()
    x = np.zeros(A.shape, A.dtype)
    x[tuple(np.asarray(coords))] = values
    return x


def check(A, values, entries, exact=True):
    """Compare a tensor with its dense values, and its pattern with a mask of entries that it has to store.

    Other entries may only be stored if the format stores whole blocks or runs.
    """
    A.validate()
    np.testing.assert_array_equal(dense(A), values)
    found = stored(A)
    if exact and not stores_more(A.format):
        np.testing.assert_array_equal(found, entries)
    assert not (entries & ~found).any()
    if A.is_dynamic:
        assert not np.asarray(A.values)[int(A.nnz) :].any()
    for leaf in jax.tree.leaves(A):
        assert isinstance(leaf, jax.Array)
