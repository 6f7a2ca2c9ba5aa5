"""Calls that prune, grow and restrict tensors and are refused; `refusals.txt` has the messages of the rows."""

import jax
import numpy as np
from refusals import test_refusals as test_refusals
from surgery.tensors import dense, made

import jsparse
from jsparse import DTypeError, LeafError, PatternError, ShapeError

RUNS = "(i, j) -> (i : dense, j : range)"


def cut(A):
    """A tensor whose leaves are too short."""
    return jax.tree.map(lambda v: v[:2], A)


def pruning():
    A, D = made("csr"), made("csr", "dynamic")
    yield PatternError, lambda A: A.prune(keep=5, nse=3), [A, D]
    yield PatternError, lambda: A.prune()
    yield PatternError, lambda: A.prune(keep=3, threshold=2)
    yield ShapeError, lambda keep: A.prune(keep=keep), [-1, 0.5, True, "3"]
    yield ShapeError, lambda: jax.jit(lambda A, keep: A.prune(keep=keep))(A, 0.5)
    yield ShapeError, lambda: A.prune(mask=dense(A) > 0)
    yield DTypeError, lambda: A.prune(mask=np.ones(A.nse, np.int32))
    yield DTypeError, lambda: A.prune(mask=A)
    yield ShapeError, lambda: A.prune(mask=A.T.astype(bool))
    yield ShapeError, lambda threshold: A.prune(threshold=threshold), [np.ones(3), 1j]
    yield LeafError, lambda: cut(A).prune(keep=2)
    yield ShapeError, lambda: A.drop_zeros(nse=-1)


def growing():
    A, scores = made("csr"), np.random.default_rng(5).permutation(48).reshape(6, 8).astype(np.float32)
    yield PatternError, lambda A: A.regrow(scores, 2, nse=A.nse), [A, A.dynamic()]
    for format in ["csr", "coo", RUNS, "(i, j, a, b) -> (i : dense, j : compressed, a : dense, b : dense)", "csf"]:
        D = made(format, "dynamic")
        ones = np.ones(D.shape, np.float32)
        yield ShapeError, lambda D, x: jax.jit(lambda D, k: D.regrow(x, k))(D, 3), [(D, ones)]
        yield ShapeError, lambda D, x: jax.jit(lambda D, k: D.regrow(x, k, nse=x.size))(D, 3.5), [(D, ones)]
    yield ShapeError, lambda: A.regrow(np.ones(24), 2)
    yield DTypeError, lambda: A.regrow(np.ones((6, 8), np.complex64), 2)
    yield ShapeError, lambda k: A.regrow(dense(A), k), [-1, 2.0, None, True]
    yield DTypeError, lambda: A.regrow("scores", 2)
    yield PatternError, lambda: made(RUNS, "dynamic").regrow(scores, 2)
    yield LeafError, lambda: cut(A).regrow(dense(A), 2)
    yield LeafError, lambda: A.regrow(cut(A), 2)


def restriction():
    A = made("csr")
    yield ShapeError, lambda: A.restrict(A.T)
    yield PatternError, lambda: A.restrict(np.ones((6, 8)))
    yield LeafError, lambda: cut(A).restrict(A)
    yield LeafError, lambda: A.restrict(cut(made("csr", "dynamic")))
    yield DTypeError, lambda: jsparse.prune(dense(A))
