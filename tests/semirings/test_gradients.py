"""Derivatives of minima and maxima: equal shares go to all products that attain them, as for jnp.max."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
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
