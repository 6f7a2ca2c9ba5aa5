"""What dynamic patterns refuse; `refusals.txt` has the messages of the rows."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import sparse
from refusals import test_refusals as test_refusals

import jsparse
from jsparse import DTypeError, FormatError, LeafError, NotYetSupportedError, PatternError, ShapeError, SparseTensor
from jsparse.convert.creation import asarray

COORDS = np.array([[2, 0, 2, 1], [1, 3, 1, 0]])
VALUES = np.array([1, 2, 4, 8], np.float32)
FORMATS = ["csr", "csc", "coo", "dcsr", "dcsc", "(i, j) -> (i : compressed, j : dense)"]


def intake(dense):
    A, options = asarray(dense), [{}, {"dynamic": True}, {"nse": 5}]
    yield PatternError, lambda options: jax.jit(lambda x: asarray(x, **options).values)(dense), options
    yield PatternError, lambda: asarray(dense, nse=3)
    yield PatternError, lambda: asarray(A, nse=3)
    yield PatternError, lambda: A.asformat("csc", nse=3)
    yield NotYetSupportedError, lambda: asarray(dense, "dense").dynamic()
    x, cube = sparse.BCOO.fromdense(dense), np.ones((4, 5, 3), np.float32)
    yield PatternError, lambda: asarray(x, nse=3)
    yield PatternError, lambda: asarray(sparse.BCOO.fromdense(cube, n_batch=1), nse=3)
    yield FormatError, lambda: asarray(x, "(i) -> (i : compressed)")
    yield NotYetSupportedError, lambda: asarray(sparse.COO.fromdense(dense))
    wide = SparseTensor.from_coords([[2**40], [0]], [1.0], (2**41, 3))
    yield DTypeError, lambda: wide.to_bcoo()
    yield DTypeError, lambda: wide.to_bcsr()
    yield ShapeError, lambda: asarray(np.ones(3)).to_bcsr()


def coordinates():
    make = SparseTensor.from_coords
    wrong = [
        (PatternError, np.zeros((3, 4), int), VALUES, (3, 4)),
        (PatternError, np.zeros(4, int), VALUES, (3, 4)),
        (PatternError, np.zeros((2, 4)), VALUES, (3, 4)),
        (ShapeError, COORDS, VALUES[:3], (3, 4)),
        (ShapeError, COORDS, np.ones((4, 2), np.float32), (3, 4)),
        (PatternError, COORDS, VALUES, (3, -4)),
        (DTypeError, COORDS, VALUES, (2**31, 4)),
    ]
    for error, *arguments in wrong:
        yield error, lambda coords, values, shape: make(coords, values, shape, nse=9), [arguments]
        yield error, lambda c, v, shape: jax.jit(lambda c, v: make(c, v, shape).values)(c, v), [arguments]
    yield ShapeError, lambda: make(COORDS, VALUES, (3, 4), nse=-1)
    yield DTypeError, lambda: make(np.zeros((2, 1), int), [1.0], (2**31, 2)).dynamic()


def capacities(dense):
    A, D, x = asarray(dense), asarray(dense, dynamic=True), np.nonzero(dense)
    yield PatternError, lambda: asarray(dense, dynamic=True, nse=3)
    yield PatternError, lambda: D.dynamic(3)
    yield PatternError, lambda: A.dynamic(3)
    yield PatternError, lambda: D.asformat("coo", nse=3)
    yield PatternError, lambda: SparseTensor.from_coords(x, dense[x], dense.shape, nse=3)
    C = jax.jit(lambda x: asarray(x, dynamic=True, nse=7))(dense)
    for f in (lambda C: 2 * C, lambda C: C.T, lambda C: C.astype(jnp.int32)):
        yield PatternError, lambda f: f(C).validate(), [f]
        yield PatternError, lambda f: f(C).static(), [f]
    for format in FORMATS:
        yield PatternError, lambda format: C.asformat(format, nse=35).validate(), [format]
        yield PatternError, lambda format: C.asformat(format, nse=35).static(), [format]
        yield PatternError, lambda format: jax.jit(lambda C: C.asformat(format))(C).validate(), [format]
        yield PatternError, lambda format: jax.jit(lambda C: C.asformat(format))(C).static(), [format]


def capacities_of_results():
    square = np.kron(np.eye(3), [[1, 2], [0, 3]]).astype(np.float32)
    A, B = asarray(square), asarray(square.T)
    C, D, v = A.dynamic(20), B.dynamic(20), asarray(np.arange(6.0)).dynamic(6)
    yield PatternError, lambda: C @ D
    yield PatternError, lambda: jax.jit(lambda C: C @ D)(C)
    yield PatternError, lambda: jsparse.einsum("i,j->ij", v, v)
    yield PatternError, lambda: jsparse.einsum("ij,jk->ik", C, B, out_format="csc")
    yield PatternError, lambda: jsparse.evaluate("E[i,j] = C[i,k] * D[k,j] + C[i,j]", C=C, D=D)
    yield ShapeError, lambda nse: jsparse.einsum("ij,jk->ik", C, D, nse=nse), [-1, 2.5, "3", True]
    yield PatternError, lambda: jsparse.einsum("ij,jk->ik", C, D, nse=8)
    yield PatternError, lambda: jsparse.einsum("ij,jk->ik", C.astype(np.int32), D.astype(np.int32), nse=5)
    product, sum_ = "C[i,j] = A[i,k] * B[k,j]", "C[i,j] = A[i,j] + B[i,j]"
    yield PatternError, lambda: jax.jit(lambda A, B: jsparse.evaluate(product, A=A, B=B, nse=11))(A, B)
    yield PatternError, lambda: jax.jit(lambda A, B: jsparse.evaluate(sum_, A=A, B=B, nse=11))(A, B)


def derivatives(dense):
    D, X = asarray(dense, dynamic=True), jnp.arange(1.0, 8)
    yield ShapeError, lambda: jsparse.grad(lambda A: A.sum(), argnums=1)(asarray(dense))
    yield ShapeError, lambda A: A.map(jnp.sum), [D, asarray(dense)]
    gradient = lambda s: jsparse.grad(lambda D: ((s * D @ X) ** 2).sum())(D)  # noqa: E731
    yield LeafError, lambda: jax.jacfwd(gradient)(2.0)
    yield LeafError, lambda: jax.jit(jax.jacfwd(gradient))(2.0)
    for format in ["csr", "csc", "coo", "dcsr", "dcsc", "(i, j) -> (j : dense, i : compressed(nonunique))"]:
        A = asarray(dense, format, dynamic=True)
        yield LeafError, lambda A: jax.jacfwd(lambda x: A * x)(X) @ X, [A]
    f, jvp = lambda s: s * s * D, lambda f, s: jax.jvp(f, (s,), (1.0,))[1]
    batch = jax.vmap(lambda t: jax.jvp(f, (3.0,), (t,))[1])(jnp.array([0.0, 1.0]))
    tangents = [jvp(f, 3.0), jax.linearize(f, 3.0)[1](1.0), jax.jit(lambda s: jvp(f, s))(3.0)]
    tangents += [jax.tree.map(lambda leaf: leaf[1], batch)]
    yield LeafError, lambda tangent: tangent.todense(), tangents
    yield LeafError, lambda tangent: jax.jit(lambda dD: dD @ X)(tangent), tangents


def corrupted(A, array, change):
    arrays = [np.array(array) for array in A.pattern.arrays]
    arrays[array] = change(arrays[array])
    return SparseTensor(A.values, replace(A.pattern, arrays=tuple(map(jnp.asarray, arrays))))


def put(at, value):
    def change(array):
        array[at] = value
        return array

    return change


def index_arrays(dense):
    A = asarray(dense, dynamic=True, nse=20)
    first, transposed = slice(0, 2), A.with_transpose()
    for valid in (A, transposed, asarray(dense), corrupted(A, 1, put(-1, -77))):  # padding may be anything
        valid.validate()
    for change in (put(0, 7), put(1, -1), put(first, 3), put(first, [3, 2])):
        yield PatternError, lambda change: corrupted(A, 1, change).validate(), [change]
    for change in (put(1, 99), put(0, 1), put(-1, 99)):
        yield PatternError, lambda change: corrupted(A, 0, change).validate(), [change]
    yield PatternError, lambda: corrupted(A.asformat("coo"), 1, put(first, [4, 0])).validate()
    yield PatternError, lambda: corrupted(A.asformat("dcsr"), 0, put(1, 6)).validate()
    yield LeafError, lambda: corrupted(A, 1, lambda a: a[:-1])
    yield LeafError, lambda: corrupted(A, 0, lambda a: a.astype(np.int16))
    yield LeafError, lambda: SparseTensor._wrap(jnp.ones(3), asarray(dense).pattern).validate()
    (derived,) = transposed.pattern.derived
    wrong = replace(derived, arrays=(derived.arrays[0], derived.arrays[1].at[0].set(99)))
    pattern = replace(transposed.pattern, derived=(wrong,))
    yield PatternError, lambda: SparseTensor(A.values, pattern).validate()
    stacked = jax.tree.map(lambda *x: jnp.stack(x), A, corrupted(A, 1, put(0, 7)))
    yield PatternError, lambda: stacked.validate()
    yield PatternError, lambda: jax.jit(lambda A: A.validate())(A)
    yield PatternError, lambda: jax.jit(lambda A: A.static().values)(A)
