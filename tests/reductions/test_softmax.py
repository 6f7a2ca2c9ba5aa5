"""softmax, log_softmax and logsumexp over stored entries."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse

CASES = [
    ("csr", False),
    ("dense", False),
    ("coo", False),
    ("(i, j) -> (i : compressed, j : dense)", False),
    ("csr", True),
    ("csc", True),
]
AXES = [0, 1, None]
INF, NAN = np.inf, np.nan


def example(format, dynamic, dtype=np.float32):
    rng = np.random.default_rng(1)
    x = (rng.integers(-3, 4, (6, 7)) * (rng.random((6, 7)) < 0.5)).astype(dtype)
    x[2] = 0
    A = jsparse.asarray(x, format=format)
    return A.dynamic(A.nse + 5) if dynamic else A


def reference(values, coords, shape, axis):
    """softmax, its logarithm and logsumexp of the dense array that is -inf where nothing is stored."""
    mask = jnp.zeros(shape, bool).at[tuple(coords)].set(True)
    x = jnp.zeros(shape).at[tuple(coords)].set(values)
    powers = jnp.where(mask, jnp.exp(x), 0)
    sums = powers.sum(axis, keepdims=True)
    safe = jnp.where(sums == 0, 1, sums)
    at = tuple(coords)
    return (powers / safe)[at], (x - jnp.log(safe))[at], jnp.where(sums == 0, -jnp.inf, jnp.log(safe)).squeeze(axis)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize(("format", "dynamic"), CASES)
def test_values_and_gradients(format, dynamic, axis):
    A = example(format, dynamic)
    coords = np.asarray(A.static().to_coords()[0])
    count = coords.shape[1]
    weights = np.random.default_rng(0).random(A.nse).astype(np.float32)

    def of_tensor(values):
        B = A.with_values(values)
        return jsparse.softmax(B, axis).values, jsparse.log_softmax(B, axis).values, jsparse.logsumexp(B, axis)

    def all_of(function, weights):
        def loss(values):
            soft, logs, sums = function(values)
            return ((soft + logs**2) * weights).sum() + (jnp.where(jnp.isfinite(sums), sums, 0) ** 2).sum()

        return lambda values: (*function(values), jax.grad(loss)(values))

    assert jsparse.softmax(A, 0).pattern is jsparse.log_softmax(A, 0).pattern is A.pattern
    ours = jsparse.fuse(all_of(of_tensor, weights)) if format == "coo" else all_of(of_tensor, weights)
    exact = all_of(lambda values: reference(values, coords, A.shape, axis), weights[:count])
    for got, want in zip(jax.jit(ours)(A.values), jax.jit(exact)(A.values[:count]), strict=True):
        if got.shape == A.values.shape:
            np.testing.assert_array_equal(got[count:], 0)
            got = got[:count]
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_large_and_infinite_logits():
    x = np.array([[1e4, -1e4, 0, 1e4], [-np.inf, -np.inf, 0, 0], [5, -np.inf, 0, 0]], np.float32)
    A = jsparse.SparseTensor.from_coords(np.array(np.nonzero(x)), x[np.nonzero(x)], x.shape, "csr")
    np.testing.assert_array_equal(jsparse.softmax(A, 1).todense(), [[0.5, 0, 0, 0.5], [0, 0, 0, 0], [1, 0, 0, 0]])
    np.testing.assert_allclose(jsparse.logsumexp(A, 1), [1e4 + np.log(2), -np.inf, 5], rtol=1e-6)


SPECIAL = np.array(
    [
        [INF, 1, 0, 0, -INF],
        [INF, INF, 2, 0, 0],
        [0, 1, NAN, 3, 0],
        [INF, 0, NAN, -INF, 0],
        [-INF, 0, -INF, 0, -INF],
        [1, -INF, 2, 0, 3],
        [0, 0, 0, 0, 0],
    ],
    np.float32,
)


def special(axis):
    """jax.nn's softmax and logsumexp of the entries in `SPECIAL`, times a matrix; with gradients by the entries."""
    mask, X = SPECIAL != 0, np.arange(1, 16.0).reshape(5, 3) if axis else np.arange(1, 22.0).reshape(7, 3)
    parts = np.where(mask, SPECIAL, -INF).max(axis, keepdims=True) != -INF  # the others have no entries above -inf

    def dense(v):
        x = jnp.full(SPECIAL.shape, -INF).at[np.nonzero(mask)].set(v)
        weights = jnp.where(mask & parts, jax.nn.softmax(jnp.where(parts, x, 0), axis), 0)
        logs = jax.nn.logsumexp(jnp.where(parts, x, 0), axis, keepdims=True)
        return weights[np.nonzero(mask)], jnp.where(parts, logs, -INF), (weights if axis else weights.T) @ X

    def sparse(A):
        weights = jsparse.softmax(A, axis)
        return weights.values, jsparse.logsumexp(A, axis, keepdims=True), (weights if axis else weights.T) @ X

    return dense, sparse


def gradients(function, v):
    """Results of a function, and gradients by each of them; the cotangents are 1, 2, 3, …"""
    found, pull = jax.vjp(function, v)
    weights = [jnp.arange(1, x.size + 1, dtype=x.dtype).reshape(x.shape) for x in found]
    return *found, *(pull(tuple(w if n == m else 0 * w for m, w in enumerate(weights)))[0] for n in range(3))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("mode", ["static", "dynamic", "fused", "fused, dynamic"])
def test_infinite_and_undefined_entries(mode, axis):
    dense, sparse = special(axis)
    A = jsparse.SparseTensor.from_coords(np.array(np.nonzero(SPECIAL)), SPECIAL[SPECIAL != 0], SPECIAL.shape)
    count, A = A.nse, A.dynamic(A.nse + 3) if "dynamic" in mode else A
    function = jsparse.fuse(sparse) if "fused" in mode else sparse
    found = jax.jit(lambda v: gradients(lambda v: function(A.with_values(v)), v))(A.values)
    exact = jax.jit(lambda v: gradients(dense, v))(SPECIAL[SPECIAL != 0])
    pairs = [*zip(found, exact, strict=True), *(zip(sparse(A), exact, strict=False) if mode == "static" else ())]
    for got, want in pairs:
        if got.shape == A.values.shape:
            np.testing.assert_array_equal(got[count:], 0)
            got = got[:count]
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "int32"])
def test_dtypes(dtype):
    A = example("csr", False).astype(dtype)
    found = jsparse.softmax(A)
    assert found.dtype == (np.float32 if dtype == "int32" else dtype)
    exact = jsparse.softmax(A.astype(np.float32))
    np.testing.assert_allclose(found.values.astype(np.float32), exact.values, rtol=1e-2)


def test_inner_dense_levels():
    rng = np.random.default_rng(3)
    x = rng.random((5, 4, 3)).astype(np.float32) * (rng.random((5, 4, 1)) < 0.5)
    A = jsparse.asarray(x, format="(i, j, h) -> (i : dense, j : compressed, h : dense)")
    coords = A.to_coords()[0]
    for axis in (0, 1, 2, (1, 2)):
        np.testing.assert_allclose(
            jsparse.softmax(A, axis).values, reference(A.values, coords, A.shape, axis)[0], rtol=1e-5
        )


@pytest.mark.parametrize("dynamic", [False, True])
def test_long_dimensions(dynamic):
    coords = [[5, 5, 10**9 - 1], [7, 10**8, 3]]
    A = jsparse.SparseTensor.from_coords(coords, np.array([1, 1, 3], np.float32), (10**9, 10**9), "dcsr")
    A = A.dynamic(5) if dynamic else A
    np.testing.assert_allclose(jsparse.softmax(A, 1).values[:3], [0.5, 0.5, 1])
    gradient = jax.grad(lambda v: (jsparse.softmax(A.with_values(v), 1).values ** 2).sum())(A.values)
    np.testing.assert_allclose(gradient, np.zeros(A.nse), atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_logarithms_keep_the_digits_of_large_entries(dtype):
    """In float64 they are exact; x - logsumexp(x) is off by 0.4 near -1e7 in float32."""
    high = 6e4 if dtype == "float16" else 1e7
    x = np.array([[-high, -high, 0, -high], [high, 0, -high, high], [1, 2, 3, 0], [0, 0, 0, -high]]).astype(dtype)
    A = jsparse.asarray(x)
    coords = np.nonzero(x)
    exact = np.where(x != 0, x.astype(np.float64), -np.inf)
    exact = exact - exact.max(1, keepdims=True)
    exact = (exact - np.log(np.exp(exact).sum(1, keepdims=True)))[coords]
    gradient = np.exp(exact)
    for f in (jsparse.log_softmax, jax.jit(jsparse.log_softmax)):
        found = f(A)
        assert found.dtype == np.dtype(dtype)
        with np.errstate(over="ignore"):  # -120000 in float16
            rounded = exact.astype(dtype).astype(np.float32)
        np.testing.assert_allclose(found.values.astype(np.float32), rounded, rtol=3e-7)
    slopes = jax.grad(lambda v: jsparse.log_softmax(A.with_values(v)).values[0].astype(jnp.float32))(A.values)
    row = (coords[0] == 0) * gradient
    np.testing.assert_allclose(slopes.astype(np.float32), (np.arange(A.nse) == 0) - row, atol=2e-3)


def test_logarithms_of_rows_that_are_infinite_or_undefined():
    mask = SPECIAL != 0
    A = jsparse.SparseTensor.from_coords(np.array(np.nonzero(mask)), SPECIAL[mask], SPECIAL.shape)
    whole = np.where(mask, SPECIAL, -INF)
    want = np.where(whole.max(1, keepdims=True) == -INF, -INF, jax.nn.log_softmax(whole, 1))[mask]
    for B in (A, A.dynamic(A.nse + 3)):
        for f in (jsparse.log_softmax, jax.jit(jsparse.log_softmax)):
            np.testing.assert_allclose(f(B).values[: A.nse], want, rtol=1e-6)
    slopes = jax.grad(lambda v: jsparse.log_softmax(A.with_values(v)).values[-1])(A.values)
    row = np.nonzero(mask)[0] == np.nonzero(mask)[0][-1]
    np.testing.assert_allclose(
        slopes[row], [*(-jax.nn.softmax(jnp.array([1, -INF, 2, 3]))[:3]), 1 - 0.6652409], rtol=1e-5
    )


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_logarithms_along_long_dimensions(dynamic, dtype):
    coords = [[5, 5, 10**9 - 1], [7, 10**8, 3]]
    A = jsparse.SparseTensor.from_coords(coords, np.array([1, 2, 3]).astype(dtype), (10**9, 10**9), "dcsr")
    A = A.dynamic(5) if dynamic else A
    weights = jax.nn.softmax(jnp.array([1.0, 2.0]))
    np.testing.assert_allclose(jsparse.log_softmax(A, 1).values[:3], [*jnp.log(weights), 0], rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(jsparse.softmax(A, 1).values[:3], [*weights, 1], rtol=1e-3)
    gradient = jax.grad(lambda v: jsparse.log_softmax(A.with_values(v), 1).values[0])(A.values)
    np.testing.assert_allclose(gradient[:3], [1 - weights[0], -weights[1], 0], rtol=1e-3)


def test_operations_of_their_own():
    A = example("csr", False)
    text = str(jax.make_jaxpr(lambda v: jsparse.softmax(A.with_values(v)).map(jnp.sin).values)(A.values))
    assert "jsparse_softmax" in text
    assert "jsparse_map" in text


def test_arrays():
    x = jnp.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(jsparse.softmax(x), jax.nn.softmax(x))
    np.testing.assert_array_equal(jsparse.log_softmax(x), jax.nn.log_softmax(x))
    np.testing.assert_array_equal(jsparse.logsumexp(x, 1), jax.nn.logsumexp(x, 1))
