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
    """softmax and logsumexp of the dense array that is -inf where nothing is stored."""
    mask = jnp.zeros(shape, bool).at[tuple(coords)].set(True)
    x = jnp.zeros(shape).at[tuple(coords)].set(values)
    powers = jnp.where(mask, jnp.exp(x), 0)
    sums = powers.sum(axis, keepdims=True)
    safe = jnp.where(sums == 0, 1, sums)
    return (powers / safe)[tuple(coords)], jnp.where(sums == 0, -jnp.inf, jnp.log(safe)).squeeze(axis)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("format", "dynamic"), CASES)
def test_values_and_gradients(format, dynamic):
    A = example(format, dynamic)
    coords = np.asarray(A.static().to_coords()[0])
    count = coords.shape[1]
    weights = np.random.default_rng(0).random(A.nse).astype(np.float32)

    def sparse(values, axis):
        B = A.with_values(values)
        logs = jsparse.logsumexp(B, axis)
        return (jsparse.softmax(B, axis).values * weights).sum() + (jnp.where(jnp.isfinite(logs), logs, 0) ** 2).sum()

    def dense(values, axis):
        weighted, logs = reference(values, coords, A.shape, axis)
        finite = jnp.where(jnp.isfinite(logs), logs, 0)
        return (weighted * weights[:count]).sum() + (finite**2).sum()

    def all_of(values):
        B = A.with_values(values)
        results = ((jsparse.softmax(B, axis).values, jsparse.logsumexp(B, axis)) for axis in AXES)
        return [(*both, jax.grad(sparse)(values, axis)) for both, axis in zip(results, AXES, strict=True)]

    exact = jax.jit(lambda v: [(*reference(v, coords, A.shape, axis), jax.grad(dense)(v, axis)) for axis in AXES])
    assert jsparse.softmax(A, 0).pattern is A.pattern
    for found, want in zip(jax.jit(all_of)(A.values), exact(A.values[:count]), strict=True):
        (y, logs, gradient), (exact_y, exact_logs, exact_gradient) = found, want
        np.testing.assert_allclose(y[:count], exact_y, rtol=1e-5)
        np.testing.assert_allclose(logs, exact_logs, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(gradient[:count], exact_gradient, rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(y[count:], 0)
        np.testing.assert_array_equal(gradient[count:], 0)


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


def log_reference(values, coords, shape, axis):
    """jax.nn.log_softmax of the dense array that is -inf where nothing is stored, at the entries."""
    x = jnp.full(shape, -jnp.inf).at[tuple(coords)].set(values)
    return jax.nn.log_softmax(jnp.where(x.max(axis, keepdims=True) == -jnp.inf, 0, x), axis)[tuple(coords)]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("format", "dynamic"), CASES)
def test_logarithms_of_softmaxes_and_their_gradients(format, dynamic):
    A = example(format, dynamic)
    coords = np.asarray(A.static().to_coords()[0])
    count = coords.shape[1]
    weights = np.random.default_rng(0).random(A.nse).astype(np.float32)
    assert jsparse.log_softmax(A, 0).pattern is A.pattern
    for axis in AXES:
        sparse = lambda v, axis=axis: jsparse.log_softmax(A.with_values(v), axis).values  # noqa: E731
        dense = lambda v, axis=axis: log_reference(v, coords, A.shape, axis)  # noqa: E731
        exact = dense(A.values[:count])
        want = jax.grad(lambda v, f=dense: (f(v) * weights[:count]).sum())(A.values[:count])
        for f in (sparse, jax.jit(sparse), jax.jit(jsparse.fuse(sparse))):
            np.testing.assert_allclose(f(A.values)[:count], exact, rtol=1e-5, atol=1e-6)
            found = jax.jit(jax.grad(lambda v, f=f: (f(v) * weights).sum()))(A.values)
            np.testing.assert_allclose(found[:count], want, rtol=1e-4, atol=1e-5)
            np.testing.assert_array_equal(found[count:], 0)
        several = jnp.stack([A.values, -A.values])
        want = jnp.stack([sparse(v) for v in several])
        np.testing.assert_allclose(jax.jit(jax.vmap(sparse))(several), want, rtol=1e-5, atol=1e-6)


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
