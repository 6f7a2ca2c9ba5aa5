"""Arrays and functions of other libraries that are refused; `refusals.txt` has the messages of the rows."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import sparse
from jax.experimental.sparse import BCSR
from refusals import test_refusals as test_refusals

import jsparse
from jsparse import DTypeError, FormatError, NotYetSupportedError, PatternError, SparseTensor, asarray

DENSE = np.array([[0, 1, 2], [3, 0, 0]], np.float32)


def damaged(pointers):
    M = BCSR((jnp.ones(3), jnp.arange(3), jnp.zeros(4, jnp.int32)), shape=(3, 3))
    M.indptr = jnp.array(pointers)
    return M


def sparse_arrays_of_jax():
    pointers = [[0, 2, 1, 3], [0, 9, 9, 9], [0, -1, 2, 3], [1, 1, 2, 3], [0, 1, 3]]
    yield PatternError, lambda pointers: asarray(damaged(pointers)), pointers
    batch, x = sparse.BCOO.fromdense(np.stack([DENSE, DENSE]), n_batch=1), jnp.ones(3)
    yield NotYetSupportedError, lambda: jsparse.einsum("bij,j->bi", batch, x)
    yield NotYetSupportedError, lambda: jsparse.evaluate("y[b,i] = A[b,i,j] * x[j]", A=batch, x=x)
    yield NotYetSupportedError, lambda: asarray(DENSE.T) @ batch
    yield NotYetSupportedError, lambda: jsparse.einsum("ij,j->i", sparse.CSR.fromdense(DENSE), x)


def shapes():
    coords, one = np.zeros((2, 1), int), np.ones(1)
    yield FormatError, lambda: SparseTensor.from_coords(np.zeros((70, 1), int), one, (2,) * 70)
    yield PatternError, lambda shape: SparseTensor.from_coords(coords, one, shape), [(2.5, 3), (-1, 3), (10**30, 3)]


def functions_of_numpy_and_jax():
    A = asarray(DENSE)
    yield DTypeError, lambda f: f(A), [np.cumsum, np.linalg.inv, np.fft.fft, np.median, np.histogram]
    yield DTypeError, lambda f: f(A), [jnp.exp, jnp.sum, jnp.cumsum, jnp.linalg.norm, jax.nn.relu, jnp.fft.fft]
    yield DTypeError, lambda: jnp.add(A, 1)
