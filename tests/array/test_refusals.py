"""Functions of the array API whose result would be dense, or that have no meaning; `refusals.txt` has the messages."""

import jax
import numpy as np
from refusals import test_refusals as test_refusals

import jsparse
from jsparse import DTypeError, PatternError, ShapeError, SparseTensor

RNG = np.random.default_rng(3)
X, T = (np.where(RNG.random(shape) < 0.4, 1, 0).astype(np.float32) for shape in [(6, 5), (3, 4, 5)])


def makers(x):
    """The tensor in the formats that the tests of the array API use."""
    A = jsparse.asarray(x)
    return [A, A.asformat("coo"), A.dynamic(x.size), A.asformat(jsparse.Format.dense(x.ndim))]


def shapes():
    yield ShapeError, lambda a: jsparse.matrix_transpose(a), makers(T[0, 0])
    yield ShapeError, lambda A: jsparse.vecdot(A, np.arange(4.0)), makers(X)
    for A in (jsparse.asarray(X), jsparse.asarray(X).dynamic(30)):
        yield ShapeError, lambda A: jsparse.take_along_axis(A, np.full((6, 1), 5), axis=1), [A]
        yield ShapeError, lambda A: jsparse.take_along_axis(A, np.zeros((2, 1), int), axis=1), [A]
        yield DTypeError, lambda A: jsparse.take_along_axis(A, np.zeros((6, 1)), axis=1), [A]
    yield ShapeError, lambda A: jsparse.allclose(A, A.T), [jsparse.asarray(X)]
    yield ShapeError, lambda: SparseTensor.from_coords(np.zeros((0, 1), int), np.ones(0), ())


def results_that_would_be_dense():
    A, wide = jsparse.asarray(X), SparseTensor.from_coords([[5], [7]], [2.0], (100_000, 100_000))
    yield PatternError, lambda f: jax.jit(f)(A), [jsparse.unique_values, jsparse.unique_counts]
    yield DTypeError, lambda: jsparse.unique_counts(wide)
    yield PatternError, lambda: jsparse.ones((2, 3))
    yield PatternError, lambda: jsparse.full((2, 3), 2.0)
    yield PatternError, lambda: jsparse.ones_like(A)
    yield PatternError, lambda: jsparse.cumulative_sum(A, axis=1)
    blocks = jsparse.asarray(T, jsparse.Format.of("csr", 2).with_dense(1))
    yield PatternError, lambda: jsparse.cumulative_sum(blocks, axis=1)
    yield PatternError, lambda: jsparse.argsort(A)
    yield PatternError, lambda: jsparse.pow(2.0, A)
    yield DTypeError, lambda f: f(A > 0), [jsparse.logical_not, jsparse.bitwise_invert]
    for A in (jsparse.asarray(X), jsparse.asarray(X.astype(np.int32))):
        yield PatternError, lambda f, A: f(A, A), [(jsparse.floor_divide, A), (jsparse.remainder, A)]


def arrays_of_other_libraries():
    A = jsparse.asarray(X)
    pydata = type("COO", (), {"__module__": "sparse.numba_backend", "fill_value": 0})()
    yield DTypeError, lambda: jsparse.asarray([A, A])
    yield DTypeError, lambda: jsparse.asarray(pydata)
    names = ["data", "indices", "indptr", "at", "tocsr", "tobsr", "tocoo", "toscipy", "coalesce", "item", "shapes"]
    yield AttributeError, lambda name: getattr(A, name), names
    yield AttributeError, lambda name: getattr(jsparse, name), ["array", "csr_array", "coo_matrix", "nothing"]
    yield DTypeError, lambda: jsparse.prune(X)
    yield DTypeError, lambda: jsparse.drop_zeros(X)
    yield DTypeError, lambda: jsparse.regrow(X, X, 1)
    yield DTypeError, lambda: jsparse.restrict(X, X)
    yield DTypeError, lambda: jsparse.top_k(X, 2)
