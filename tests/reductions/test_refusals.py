"""Reductions that are refused; `refusals.txt` has the messages of the rows."""

import jax
import numpy as np
from refusals import test_refusals as test_refusals

import jsparse
from jsparse import DTypeError, LeafError, ShapeError

A = jsparse.asarray(np.tri(6, 7, dtype=np.float32))


def softmax():
    blocks = A.asformat("bsr(2, 3)").dynamic(60)
    damaged = jax.tree.map(lambda leaf: leaf[:-1], blocks)
    for f in (jsparse.softmax, jsparse.log_softmax, jsparse.logsumexp):
        yield LeafError, lambda f: f(damaged), [f]
        yield ShapeError, lambda f, A: f(A, 2), [(f, A), (f, blocks)]
        yield DTypeError, lambda f, A: f(A.astype(np.complex64)), [(f, A), (f, blocks)]


def extremes():
    empty = jsparse.asarray(np.zeros((3, 0), np.float32))
    large = jsparse.SparseTensor.from_coords([[3], [0]], [1.0], (10**6, 10**6))
    for name in ("max", "min"):
        yield ShapeError, lambda name: getattr(A, name)(2), [name]
        yield DTypeError, lambda name: getattr(A.astype(np.complex64), name)(), [name]
        yield ShapeError, lambda name: getattr(empty, name)(1), [name]
    yield DTypeError, lambda: A.sum(dtype=str)
    yield DTypeError, lambda: large.argmax()
