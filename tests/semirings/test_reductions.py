"""min, max, mean and prod of stored entries."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from semirings.cases import FORMATS, matrix, whole

import jsparse

REDUCTIONS = ("min", "max", "prod", "mean")
AXES = [None, 0, 1, -1, (0, 1), (-2, -1)]
FILL = {"min": np.inf, "max": -np.inf, "prod": 1.0}


def expected(name, A, axis):
    """numpy's reduction over stored entries only."""
    mask = np.zeros(A.shape, bool)
    mask[tuple(np.asarray(A.static().to_coords()[0]))] = True
    x = np.asarray(A.todense())
    if name == "mean":
        return np.where(mask, x, 0).sum(axis) / np.maximum(mask.sum(axis), 1)
    return getattr(np, name)(np.where(mask, x, FILL[name]), axis)


def close(got, want):
    np.testing.assert_allclose(np.asarray(got), want, rtol=1e-5, atol=1e-6)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("axis", AXES, ids=str)
@pytest.mark.parametrize("format", FORMATS)
def test_matrices(format, axis):
    A = matrix(format)
    dynamic = jax.jit(lambda A: [getattr(A, name)(axis, stored=True) for name in REDUCTIONS])
    found = dynamic(A.dynamic(A.nse + 9)) if format != FORMATS[-1] else REDUCTIONS
    for name, got_of_dynamic in zip(REDUCTIONS, found, strict=True):
        got = getattr(A, name)(axis, stored=True)
        assert isinstance(got, jax.Array)
        close(got, expected(name, A, axis))
        if format != FORMATS[-1]:
            close(got_of_dynamic, expected(name, A, axis))


@pytest.mark.parametrize("axis", [0, 1, -1, (0, 2), None], ids=str)
def test_third_order(axis):
    rng = np.random.default_rng(0)
    x = rng.integers(-3, 4, (4, 5, 6)).astype(np.float32) * (rng.random((4, 5, 6)) < 0.3)
    A = jsparse.asarray(x, format="csf")
    for name in ("min", "max", "prod", "mean"):
        close(getattr(A, name)(axis, stored=True), expected(name, A, axis))


def test_integers():
    A = matrix(dtype="int32")
    assert A.min(1, stored=True)[2] == np.iinfo(np.int32).max
    assert A.max(1, stored=True)[2] == np.iinfo(np.int32).min
    assert A.prod(1, stored=True)[2] == 1
    assert A.mean(1, stored=True)[2] == 0
    assert A.mean(stored=True).dtype == jnp.float32
    assert A.min(stored=True).dtype == A.prod(stored=True).dtype == jnp.int32
    close(A.mean(stored=True), np.asarray(A.values).mean())


def test_one_dimension_and_none():
    v = jsparse.asarray(np.array([0, 3, -2, 0], np.float32))
    close(
        [getattr(v, name)(axis, stored=True) for name, axis in zip(REDUCTIONS, (None, 0, -1, 0), strict=True)],
        [-2, 3, -6, 0.5],
    )
    scalar = jsparse.asarray(np.float32(4))
    close(
        [
            scalar.min(stored=True),
            scalar.max(stored=True),
            scalar.prod(stored=True),
            scalar.mean(stored=True),
            scalar.sum(),
        ],
        [4] * 5,
    )


def test_nothing_stored():
    A = jsparse.asarray(np.zeros((3, 4), np.float32), format="csr")
    close(A.min(0, stored=True), np.full(4, np.inf))
    close(A.max(stored=True), -np.inf)
    close([A.prod(stored=True), A.mean(stored=True), A.sum()], [1, 0, 0])


def test_nan():
    A = matrix()
    B = A.with_values(A.values.at[0].set(np.nan))
    assert (
        np.isnan(B.min(stored=True))
        & np.isnan(B.max(stored=True))
        & np.isnan(B.prod(stored=True))
        & np.isnan(B.mean(stored=True))
    )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_more_entries_than_a_narrow_float_counts(dtype):
    count = 70_001  # float16 ends at 65,504; bfloat16 counts to 256
    A = jsparse.SparseTensor.from_coords(np.arange(count)[None], np.full(count, 3, dtype), (count,))
    for tensor in (A, A.dynamic(count + 7)):
        assert tensor.mean(stored=True) == 3
        assert tensor.mean(stored=True).dtype == dtype
        gradient = jax.grad(lambda v, t=tensor: t.with_values(v).max(stored=True))(tensor.values)[:count]
        np.testing.assert_array_equal(gradient, np.full(count, 1 / count, dtype))
    close(A.with_values(A.values.at[0].set(np.nan)).mean(), np.nan)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("zeros", [0, 1, 2, 3])
@pytest.mark.parametrize("axis", [None, 1], ids=str)
def test_gradients_of_products(axis, zeros):
    A = matrix(shape=(5, 6), seed=3)
    values = np.random.default_rng(0).random(A.nse, np.float32) + np.float32(0.5)
    values[:zeros] = 0
    A = A.with_values(jax.device_put(values))
    sparse, dense = (lambda v: A.with_values(v).prod(axis, stored=True)), (lambda v: whole(A, 1.0)(v).prod(axis))
    close(jax.jacrev(sparse)(A.values), jax.jit(jax.jacrev(dense))(A.values))
    close(jax.jacfwd(sparse)(A.values), jax.jit(jax.jacfwd(dense))(A.values))
    if zeros <= 1:
        hessian = lambda f: jax.hessian(lambda v: f(v).sum())  # noqa: E731
        close(hessian(sparse)(A.values), jax.jit(hessian(dense))(A.values))
