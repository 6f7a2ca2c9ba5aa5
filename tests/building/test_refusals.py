"""Tensors that cannot be built; `refusals.txt` has the messages of the rows."""

import jax
import jax.numpy as jnp
import numpy as np
from refusals import test_refusals as test_refusals

import jsparse
from jsparse import DTypeError, FormatError, PatternError, ShapeError, SparseTensor


def diagonals(dense, cube):
    A = jsparse.asarray(dense)
    yield ShapeError, lambda: jsparse.tril(A[0])
    yield ShapeError, lambda: jsparse.diag(jsparse.asarray(cube))
    yield ShapeError, lambda: jsparse.diag(dense)
    yield ShapeError, lambda: jsparse.diagonal(A, 0, 1, 1)
    yield ShapeError, lambda: jsparse.trace(A[0])
    yield DTypeError, lambda: jsparse.triu(dense)
    yield DTypeError, lambda: jsparse.diag("abc")


def zeros_and_ones():
    yield PatternError, lambda n, m: jsparse.eye(n, m), [(-1, 3), (2.5, 3)]
    yield PatternError, lambda shape: jsparse.zeros(shape), [(-1, 3), (2.5, 3)]
    yield FormatError, lambda: jsparse.eye(3, format="csf3")
    yield DTypeError, lambda: jsparse.zeros(3, dtype="datetime64[s]")
    yield ShapeError, lambda: jsparse.eye(2**50)
    yield ShapeError, lambda: jsparse.eye(3, k=0.5)


def products(dense, cube):
    A, size = jsparse.asarray(dense), 10**9
    B = SparseTensor.from_coords([[3, size - 1], [5, 0]], np.ones(2, np.float32), (size, size))
    yield DTypeError, lambda: jsparse.kron(B.dynamic(), B)
    yield ShapeError, lambda: jsparse.block_diag([A, jsparse.asarray(cube)])
    yield DTypeError, lambda: jsparse.block_diag(A)
    yield DTypeError, lambda: jsparse.block_diag([A, dense])
    yield DTypeError, lambda: jsparse.kron(A, "x")
    yield FormatError, lambda: jsparse.kron(A, A, format="bad")


def random_tensors():
    key = jax.random.key(0)
    yield ShapeError, lambda: jsparse.random(key, (5, 5))
    yield ShapeError, lambda: jsparse.random(key, (5, 5), nse=3, density=0.1)
    yield ShapeError, lambda density: jsparse.random(key, (5, 5), density=density), [1.5, -0.1, "x"]
    yield ShapeError, lambda nse: jsparse.random(key, (5, 5), nse=nse), [26, -1]
    yield ShapeError, lambda: jax.jit(lambda n: jsparse.random(key, (5, 5), nse=n).values)(3)
    yield ShapeError, lambda: jsparse.random(key, (5, 5), nse=5, sampler=lambda key, shape, dtype: jnp.ones(3))
    yield DTypeError, lambda: jsparse.random(key, (10**10, 5), nse=5)
