"""Shapes and axes that do not exist; `refusals.txt` has the messages of the rows."""

import jax
import numpy as np
from refusals import test_refusals as test_refusals
from relocations import integers

import jsparse
from jsparse import DTypeError, FormatError, LeafError, NotYetSupportedError, PatternError, ShapeError, SparseTensor


def axes(dense):
    A = jsparse.asarray(dense)
    yield ShapeError, lambda axis: jsparse.expand_dims(A, axis), [3, (0, 0)]
    yield FormatError, lambda: jsparse.expand_dims(A, tuple(range(63)))
    yield ShapeError, lambda axis: jsparse.squeeze(A, axis), [0, 0.5]
    yield ShapeError, lambda: jsparse.moveaxis(A, (0, 1), 0)
    yield ShapeError, lambda: jsparse.swapaxes(A, 0, 2)
    yield ShapeError, lambda: jsparse.flip(A, 2)
    yield ShapeError, lambda: jsparse.roll(A, (1, 2, 3), (0, 1))
    yield ShapeError, lambda: jax.jit(lambda n: jsparse.roll(A, n, 0))(1)
    wrong = [3, ([0, 1], [0]), ([0], [0], [1]), ([2], [0]), 1]
    yield ShapeError, lambda axes: jsparse.tensordot(A, A, axes), wrong
    yield NotYetSupportedError, lambda ord: jsparse.norm(A, ord), [2, "nuc"]
    yield NotYetSupportedError, lambda: jsparse.norm(A, -2, axis=0)
    yield ShapeError, lambda: jsparse.norm(jsparse.asarray(integers(2, 3, 4)), 1)


def joining(dense):
    A = jsparse.asarray(dense)
    yield ShapeError, lambda widths: jsparse.pad(A, widths), [-1, (1, 2, 3), ((1, -2), (0, 0)), 0.5, None]
    yield PatternError, lambda: jsparse.pad(A, 1, mode="edge")
    yield PatternError, lambda x: jsparse.pad(A, 1, constant_values=x), [1, ((0, 1), (0, 0))]
    yield ShapeError, lambda: jsparse.concatenate([])
    yield ShapeError, lambda: jsparse.concatenate([A, A.T])
    yield ShapeError, lambda: jsparse.concatenate([A, A[0]])
    yield ShapeError, lambda: jsparse.stack([A, A.T])
    yield ShapeError, lambda: jsparse.stack([A, A], 3)
    yield DTypeError, lambda: jsparse.concatenate([A, dense])
    yield DTypeError, lambda: jsparse.stack(A)
    yield FormatError, lambda: jsparse.stack([A, A], format="csr")
    size = 10**9
    B = SparseTensor.from_coords([[3, size - 1], [5, 0]], np.ones(2, np.float32), (size, size))
    yield DTypeError, lambda: jsparse.concatenate([B.dynamic(), B, B])


def ordering(dense):
    A = jsparse.asarray(dense)
    yield PatternError, lambda: jax.jit(lambda A: A.nonzero()[0])(A)
    yield ShapeError, lambda: jsparse.top_k(A, -1)
    yield ShapeError, lambda: jsparse.sort(A, 2)
    yield DTypeError, lambda: jsparse.sort(A.astype("complex64"))
    yield DTypeError, lambda: jsparse.top_k(A.astype("complex64"), 1)


def repeating(dense):
    A, counts = jsparse.asarray(dense), np.array([2, 0, 1, 3, 1])
    yield PatternError, lambda repeats: jsparse.repeat(A, repeats, 0, nse=7), [counts, 2]
    wrong = [-1, 1.5, "2", np.float32(2), [1, 2, 3, 4], [[1, 2, 3, 4, 5]], [1.0, 2, 3, 4, 5], [], [1, -2, 3, 4, 5]]
    yield ShapeError, lambda repeats: jsparse.repeat(A, repeats, 0), wrong
    yield ShapeError, lambda: jax.jit(lambda n: jsparse.repeat(A, n, 0))(np.ones(5, int))
    yield ShapeError, lambda: jsparse.tile(A, (1, -2))
    yield ShapeError, lambda shape: jsparse.broadcast_to(A, shape), [(5, 7), (6,), (2, 5, 7), -1]


def reshaping(dense):
    A, cut, size = jsparse.asarray(dense), jax.tree.map(lambda x: x[:2], jsparse.asarray(dense)), 10**9
    yield ShapeError, lambda shape: A.reshape(shape), [(4, 7), (-1, -1), (-1, 4), (-2, 15), 31, (2.5, 12)]
    yield NotYetSupportedError, lambda: A.reshape(6, 5, order="A")
    yield DTypeError, lambda: jsparse.reshape(dense, (6, 5))
    yield LeafError, lambda: cut.reshape(6, 5)
    B = jsparse.zeros((size, size, size)).reshape(10**18, size)
    yield ShapeError, lambda: B.reshape(10**12, 10**15)
    size = 10**5
    C = SparseTensor.from_coords([[3, size - 1], [5, size - 2]], np.ones(2, np.float32), (size, size), nse=3)
    yield DTypeError, lambda: C.reshape(-1)
    yield DTypeError, lambda: C.reshape(size // 2, 2 * size)
