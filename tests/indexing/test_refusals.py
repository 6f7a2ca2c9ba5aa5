"""Indices that tensors refuse; `refusals.txt` has the messages of the rows."""

import jax
import jax.numpy as jnp
import numpy as np
from refusals import test_refusals as test_refusals

import jsparse
from jsparse import DTypeError, LeafError, NotYetSupportedError, PatternError, ShapeError, SparseTensor


def both(dense):
    return [jsparse.asarray(dense), jsparse.asarray(dense, dynamic=True)]


def numbers_and_slices(dense):
    A = jsparse.asarray(dense)
    others = ["a", 1.5, slice("a", 2), np.ones(5), [1, [2]], [None], np.array(["a"])]
    yield NotYetSupportedError, lambda index: A[index], others
    yield ShapeError, lambda: A[5]
    yield ShapeError, lambda: A[1, 2, 3]
    yield ShapeError, lambda: A[..., ...]
    yield NotYetSupportedError, lambda: jax.jit(lambda n: A[:n].values)(1)
    yield NotYetSupportedError, lambda: jax.jit(lambda x: A[x].values)(1.5)
    yield LeafError, lambda: SparseTensor._wrap(None, A.pattern)[1:]


def arrays(dense):
    for A in both(dense):
        yield ShapeError, lambda A: A[np.ones(3, bool)], [A]
        yield ShapeError, lambda A: A[np.ones((5, 6), bool)], [A]
        yield ShapeError, lambda A: A[[0, 9]], [A]
        yield ShapeError, lambda A: A[:, [0, -8]], [A]
        yield ShapeError, lambda A: A[np.array([2**64 - 1], np.uint64)], [A]
        yield ShapeError, lambda A: A[[0, 1], [0, 1, 2]], [A]
        yield ShapeError, lambda A: A[[0], [0], [0]], [A]
    static, dynamic = both(dense)
    yield PatternError, lambda: dynamic[[0, 0]]
    yield ShapeError, lambda: static[False, [0, 1]]


def masks(dense):
    A = jsparse.asarray(dense)
    yield ShapeError, lambda: jax.jit(lambda A, here: A[here])(A, True)
    yield ShapeError, lambda: jax.jit(lambda mask: A[mask].values)(np.ones(5, bool))
    yield PatternError, lambda: jax.jit(lambda M: A[M])(A.astype(bool))
    yield DTypeError, lambda: A[A]
    yield ShapeError, lambda: A[jsparse.asarray(np.ones((2, 2), bool))]


def points(dense):
    coords = np.array([[0, 4, 5, -1, 2, 2, 0], [2, 0, 0, 0, 3, 3, -1]])
    for A in both(dense):
        yield PatternError, lambda A: A.at_coords([0, 1]), [A]
        yield PatternError, lambda A: A.at_coords([[0], [1], [2]]), [A]
        yield PatternError, lambda A: A.at_coords([[0.5], [1]]), [A]
        yield PatternError, lambda A: A.at_coords([[0], [1, 2]]), [A]
    yield LeafError, lambda: SparseTensor._wrap(None, A.pattern).at_coords(coords)
    yield LeafError, lambda: jax.tree.map(lambda leaf: leaf * 1.0, A).coords


def rows_that_are_taken(dense):
    A, D = both(dense)
    yield ShapeError, lambda: A.take([0])
    yield ShapeError, lambda: A.take([0], 5)
    yield DTypeError, lambda: A.take([0], 1.5)
    yield DTypeError, lambda indices: A.take(indices, 0), [[0.5], [True]]
    yield ShapeError, lambda: A.take([9], 0)
    yield ShapeError, lambda: A.take([0], 0, nse=-1)
    yield PatternError, lambda: jax.jit(lambda i: A.take(i, 0).values)(jnp.arange(3))
    yield PatternError, lambda: jax.jit(lambda i: A[i].values)(jnp.arange(3))
    yield PatternError, lambda: D.take([0, 2], 0, nse=2)
    yield PatternError, lambda: A.take([0, 2], 0, nse=2)
