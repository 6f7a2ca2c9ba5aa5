"""Derivatives of minima and maxima: equal shares go to all products that attain them, as for jnp.max."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads
from semirings.cases import matrix, whole

import jsparse

COMBINE = {"min_plus": (jnp.min, jnp.add), "max_plus": (jnp.max, jnp.add), "max_times": (jnp.max, jnp.multiply)}
NAMES = list(COMBINE)
FORMATS = ["csr", "csc", "coo", "dcsr", "(i, j) -> (i : compressed, j : dense)"]


def drawn(format="csr", seed=0, ties=False):
    """A tensor and a dense operand. Their numbers are distinct, or few different ones if there shall be ties."""
    rng = np.random.default_rng(seed)
    A = matrix(format, seed=seed)
    if not ties:
        A = A.with_values(jax.device_put(rng.permutation(A.nse).astype(np.float32) + rng.random(A.nse, np.float32)))
    X = rng.integers(-2, 3, (9, 20)).astype(np.float32)
    return A, X if ties else X + rng.random((9, 20), np.float32)


def dense(name, A):
    """`f(values, X)` on dense arrays. Elements that are not stored are never the extremum."""
    add, multiply = COMBINE[name]
    fill = np.inf if name == "min_plus" else -np.inf
    mask = np.zeros(A.shape, bool)
    mask[tuple(np.asarray(A.to_coords()[0]))] = True

    def f(values, X):
        products = multiply(whole(A, 0.0)(values)[:, :, None], X[None])
        return add(jnp.where(mask[:, :, None], products, fill), 1)

    return f


@jax.jit
def weighted(y):
    y = jnp.where(jnp.isfinite(y), y, 0)
    return y * jnp.arange(1, 1 + y.size, dtype=y.dtype).reshape(y.shape) / y.size


def finite(f):
    """`f`, with infinite and NaN results replaced by 0 and the others weighted, so that results can be summed."""
    return lambda *operands: weighted(f(*operands))


def close(got, want):
    np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=2e-5, atol=2e-5)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("format, ties", [("csr", False), *((format, True) for format in FORMATS)])
@pytest.mark.parametrize("name", NAMES)
def test_gradients(name, format, ties):
    A, X = drawn(format, ties=ties)
    f = finite(lambda v, X: jsparse.einsum("ij,jk->ik", A.with_values(v), X, semiring=name))
    g = finite(dense(name, A))
    got = jax.jit(jax.grad(lambda *x: f(*x).sum(), (0, 1)))(A.values, X)
    want = jax.jit(jax.grad(lambda *x: g(*x).sum(), (0, 1)))(A.values, X)
    for one, other in zip(got, want, strict=True):
        close(one, other)


@pytest.mark.semantics
@pytest.mark.parametrize("name", NAMES)
def test_tangents(name):
    A, X = drawn(ties=True)
    rng = np.random.default_rng(5)
    changes = jax.device_put((rng.random(A.nse, np.float32), rng.random(X.shape, np.float32)))
    f = lambda v, X: jsparse.einsum("ij,jk->ik", A.with_values(v), X, semiring=name)  # noqa: E731
    got = jax.jit(lambda *x: jax.jvp(f, (A.values, X), x))(*changes)[1]
    want = jax.jit(lambda *x: jax.jvp(dense(name, A), (A.values, X), x))(*changes)[1]
    close(got[2], np.zeros(20))  # of an empty row
    filled = np.arange(7) != 2
    close(got[filled], want[filled])


@pytest.mark.semantics
@pytest.mark.parametrize("name", NAMES)
def test_second_derivatives(name):
    A, X = drawn()
    f = finite(lambda v, X: jsparse.einsum("ij,jk->ik", A.with_values(v), X, semiring=name))
    g = finite(dense(name, A))
    for n in (0, 1):
        hessian = lambda h: jax.hessian(lambda *x: (h(*x) ** 2).sum(), n)  # noqa: B023, E731
        close(hessian(f)(A.values, X[:, :2]), jax.jit(hessian(g))(A.values, X[:, :2]))
    cross = lambda h: jax.jacrev(jax.grad(lambda *x: h(*x).sum(), 0), 1)  # noqa: E731
    close(cross(f)(A.values, X[:, :2]), jax.jit(cross(g))(A.values, X[:, :2]))


def test_derivatives_by_differences():
    A, X = drawn()
    for name in NAMES:
        f = finite(lambda v, X, name=name: jsparse.einsum("ij,jk->ik", A.with_values(v), X, semiring=name))
        check_grads(f, (A.values, jnp.asarray(X[:, :3])), order=1, modes=("fwd", "rev"), rtol=0.05, atol=0.05, eps=1e-3)


@pytest.mark.parametrize("name", NAMES)
def test_batches_of_gradients(name):
    A, X = drawn(ties=True)
    f = finite(lambda v, X: jsparse.einsum("ij,jk->ik", A.with_values(v), X, semiring=name))
    gradient = jax.grad(lambda *x: f(*x).sum(), (0, 1))
    values = jax.device_put(np.multiply.outer(np.float32([1, -1, 2]), A.values))
    got = jax.jit(jax.vmap(gradient, (0, None)))(values, X)
    for n, v in enumerate(values):
        for one, other in zip(got, gradient(v, X), strict=True):
            close(one[n], other)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("is_dynamic", [False, True])
def test_sparse_results(name, is_dynamic):
    """Results are on patterns of their own."""
    A, B = matrix(), matrix("csc", seed=1)
    add, multiply = COMBINE[name]
    fill = np.inf if name == "min_plus" else -np.inf
    masks = [np.isfinite(np.asarray(whole(T, np.inf)(T.values))) for T in (A, B)]

    def product(v, w):
        both = multiply(whole(A, 0.0)(v)[:, None, :], whole(B, 0.0)(w)[None])
        return add(jnp.where(masks[0][:, None] & masks[1][None], both, fill), 2)

    def given(T, v):
        return T.dynamic().with_values(v) if is_dynamic else T.with_values(v)

    def assembled(v, w):
        C = jsparse.einsum("ij,kj->ik", given(A, v), given(B, w), semiring=name, nse=49)
        return (C.values**2).sum() if is_dynamic else (C.values * jnp.cos(jnp.arange(C.nse))).sum()

    full = jsparse.einsum("ij,kj->ik", A, B, semiring=name)

    def reference(v, w):
        values = product(v, w)[tuple(np.asarray(full.to_coords()[0]))]
        return (values**2).sum() if is_dynamic else (values * jnp.cos(jnp.arange(full.nse))).sum()

    for one, other in zip(
        jax.jit(jax.grad(assembled, (0, 1)))(A.values, B.values),
        jax.jit(jax.grad(reference, (0, 1)))(A.values, B.values),
        strict=True,
    ):
        close(one, other)


@pytest.mark.parametrize("name", NAMES)
def test_samples(name):
    rng = np.random.default_rng(0)
    M = matrix("csr")
    add, multiply = COMBINE[name]
    X, Y = (rng.integers(-2, 3, shape).astype(np.float32) for shape in ((7, 6), (9, 6)))
    at = tuple(np.asarray(M.to_coords()[0]))
    weights = jnp.sin(jnp.arange(M.nse))
    f = lambda X, Y: (jsparse.einsum("ik,jk->ij", X, Y, out_format=M, semiring=name).values * weights).sum()  # noqa: E731
    g = lambda X, Y: (add(multiply(X[:, None], Y[None]), 2)[at] * weights).sum()  # noqa: E731
    for one, other in zip(jax.grad(f, (0, 1))(X, Y), jax.jit(jax.grad(g, (0, 1)))(X, Y), strict=True):
        close(one, other)


def test_nan_and_infinite_entries():
    A, X = drawn()
    f = lambda v: jsparse.einsum("ij,jk->ik", A.with_values(v), X, semiring="min_plus")  # noqa: E731
    rows = np.asarray(A.to_coords()[0])[0]
    broken = A.values.at[0].set(np.nan)
    assert np.isnan(np.asarray(f(broken)[rows[0]])).all()
    gradient = jax.grad(lambda v: jnp.nansum(f(v)[jnp.unique(rows)]))(broken)
    close(gradient[rows == rows[0]], np.zeros((rows == rows[0]).sum()))  # nothing equals NaN
    infinite = jnp.where(rows == rows[0], jnp.inf, A.values)
    shared = jax.grad(lambda v: f(v)[rows[0]].sum())(infinite)[rows == rows[0]]
    close(shared, np.full(len(shared), X.shape[1] / len(shared)))


def test_integers_have_no_derivative():
    A = matrix(dtype="int32")
    x = np.arange(9, dtype=np.int32)
    for name in (*NAMES, "or_and"):
        f = partial(jsparse.einsum, "ij,j->i", A, semiring=name)
        assert jax.jvp(f, (x,), (np.zeros(9, jax.dtypes.float0),))[1].dtype == jax.dtypes.float0


def test_dense_operands():
    X = jnp.asarray(np.random.default_rng(0).integers(-2, 3, (4, 5)).astype(np.float32))
    got = jax.grad(lambda X: jsparse.einsum("ij,kj->ik", X, X, semiring="max_plus").sum())(X)
    close(got, jax.grad(lambda X: (X[:, None] + X[None]).max(2).sum())(X))


def test_steps():
    """If all entries are different, steps do not change the derivative."""
    rng = np.random.default_rng(0)
    A, B, C = (matrix(shape=(12, 12), seed=seed) for seed in range(3))
    A, B, C = (T.with_values(jax.device_put(rng.random(T.nse, np.float32))) for T in (A, B, C))

    def f(*values):
        tensors = [T.with_values(v) for T, v in zip((A, B, C), values, strict=True)]
        return jsparse.einsum("ij,jk,kl->il", *tensors, semiring="max_plus").values.sum()

    def g(*values):
        a, b, c = (whole(T, -jnp.inf)(v) for T, v in zip((A, B, C), values, strict=True))
        y = (a[:, :, None, None] + b[None, :, :, None] + c[None, None]).max((1, 2))
        return jnp.where(jnp.isfinite(y), y, 0).sum()

    values = [T.values for T in (A, B, C)]
    for one, other in zip(jax.grad(f, (0, 1, 2))(*values), jax.jit(jax.grad(g, (0, 1, 2)))(*values), strict=True):
        close(one, other)
