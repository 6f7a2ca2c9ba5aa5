"""Chains compute as each of their operations does: special values, dtypes, and patterns with few entries."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from backends import has_kernels
from fusion.measure import is_one_chain
from fusion.operands import (
    COORDS,
    VALUES,
    N,
    P,
    close,
    close_with_nan,
    derivatives,
    masked_softmax,
    normal,
    squared,
    to_dense,
)

import jsparse
from jsparse import Pattern, SparseTensor
from jsparse.ops.fuse import fuse


@pytest.mark.sampled(2)
@pytest.mark.semantics
@pytest.mark.parametrize("scale", [1e4, -1e4, np.inf, -np.inf])
def test_extreme_logits(scale):
    values = np.where(np.random.default_rng(0).random(P.nse) < 0.3, scale, VALUES).astype(np.float32)
    values[COORDS[0] == 0] = scale
    x = normal(N, 2)

    def f(v, x):
        A = SparseTensor(v, P)
        return jsparse.softmax(A, 1) @ x, jsparse.logsumexp(A, 1)

    with np.errstate(invalid="ignore"):
        close_with_nan(fuse(f)(values, x), f(values, x))
    if np.isfinite(scale):
        found = jax.jit(jax.grad(lambda v: squared(lambda v: fuse(f)(v, x)[0])(v)))(values)
        wanted = jax.jit(jax.grad(lambda v: squared(lambda v: masked_softmax(to_dense(v)) @ x)(v)))(jnp.asarray(values))
        close(found, wanted)
    elif scale < 0:
        found = jax.jit(jax.grad(lambda v: squared(lambda v: fuse(f)(v, x)[0])(v)))(values)
        close_with_nan(found, jax.jit(jax.grad(lambda v: squared(lambda v: f(v, x)[0])(v)))(values))
        assert np.isfinite(found).all()


@pytest.mark.semantics
@pytest.mark.parametrize("dtype", ["int32", "int8", "uint8", "bool"])
def test_integers_and_bools(dtype):
    values = np.random.default_rng(1).integers(0, 2 if dtype == "bool" else 3, P.nse).astype(dtype)
    x = np.random.default_rng(2).integers(0, 3, (N, 2)).astype("int32")

    def f(v, x):
        A = SparseTensor(v, P)
        doubled = A + A
        return doubled @ x, doubled.sum(1), A.max(0, stored=True), A.map(lambda a: jnp.where(a > 1, a, 0)).sum(0)

    for a, b in zip(fuse(f)(values, x), f(values, x), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


@pytest.mark.sampled(2)
@pytest.mark.semantics
@pytest.mark.parametrize(
    "shape, count", [((4, 3), 0), ((4, 3), 1), ((0, 3), 0), ((4, 0), 0), ((1, 1), 1), ((1, 3), 2), ((4, 1), 3)]
)
@pytest.mark.parametrize("dynamic", [False, True])
def test_few_entries(shape, count, dynamic):
    flat = np.sort(np.random.default_rng(0).choice(max(shape[0] * shape[1], 1), count, replace=False))
    coords = np.stack(np.unravel_index(flat, shape)).astype(np.int32) if count else np.zeros((2, 0), np.int32)
    mask = np.zeros(shape, bool)
    mask[tuple(coords)] = True
    A = SparseTensor(jnp.ones(count, jnp.float32), Pattern.from_coordinates(coords, shape, "csr")[0])
    A = A.dynamic(count) if dynamic else A
    q, k, v = normal(shape[0], 2), normal(shape[1], 2), normal(shape[1], 3)

    def f(A, q, k, v):
        scores = A * jsparse.einsum("id,jd->ij", q, k, out_format=A.pattern)
        return jsparse.softmax(scores * 0.5, 1) @ v

    def dense(q, k, v):
        return masked_softmax((q @ k.T) * 0.5, mask) @ v if mask.size else jnp.zeros((shape[0], 3))

    wanted, slopes, _ = derivatives(dense, (0, 1, 2))((q, k, v), (q, k, v))
    close(fuse(f)(A, q, k, v), wanted)
    close(jax.jit(jax.grad(lambda *x: squared(lambda *x: fuse(f)(A, *x))(*x), (0, 1, 2)))(q, k, v), slopes)


@pytest.mark.semantics
def test_arithmetic_is_that_of_each_operation():
    """Integers wrap and compare exactly, bits are bits, and what is computed in float64 is not computed in float32."""
    small = np.random.default_rng(0).integers(-128, 128, P.nse).astype(np.int8)
    large = np.random.default_rng(0).integers(2**30, 2**31 - 1, P.nse).astype(np.int32)
    pairs = large + np.arange(P.nse, dtype=np.int32) % 2

    def narrow(v):
        A = SparseTensor(v, P)
        return (A + A).map(lambda a: jnp.maximum(a, 0)), (A * A).max(1, stored=True), A.map(lambda a: a // 3).sum(1)

    def bits(v):
        return SparseTensor(v, P).map(lambda a: (a & 6) | (a >> 3)).sum(1), SparseTensor(v, P).map(lambda a: ~a).sum(0)

    def equal(v, w, x):
        A = SparseTensor(v, P).map(lambda a, b, c: jnp.where(a == b, c, -c), SparseTensor(w, P), SparseTensor(x, P))
        B = SparseTensor(jnp.where(v == w, x, -x), P)
        return A.sum(1), B.sum(1)

    def wide(v, w, x):
        with jax.enable_x64(True):
            A = (SparseTensor(x, P) * 2).map(lambda a: ((a.astype(float) + 1e9) - 1e9).astype(np.float32))
            B = SparseTensor((((x * 2).astype(float) + 1e9) - 1e9).astype(np.float32), P)
            return A.sum(1), B.sum(1), A.astype(float).map(lambda a: a + 1e-12).astype(np.float32).sum(0)

    values = np.asarray(VALUES)
    for f, operands in (
        (narrow, (small,)),
        (bits, (large,)),
        (equal, (large, pairs, values)),
        (wide, (large, pairs, values)),
    ):
        for a, b in zip(jax.tree.leaves(fuse(f)(*operands)), jax.tree.leaves(f(*operands)), strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a, b, rtol=1e-6)


FUNCTIONS = (
    "exp exp2 log log1p expm1 tanh sqrt abs sign floor ceil square reciprocal relu relu6 leaky_relu elu selu gelu silu "
    "sigmoid log_sigmoid softplus rsqrt cbrt log10 log2 soft_sign negative round trunc"
)


@pytest.mark.sampled(2)
@pytest.mark.semantics
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
def test_functions_of_special_values(dtype):
    """One program computes every function at infinities, NaN, zeros, and large and small numbers."""
    special = np.array(
        [np.inf, -np.inf, np.nan, 0.0, -0.0, 1e4, -1e4, 1e-7, -1e-7, 0.5, -0.5, 2.5, 88.8, -104.0, 1.0, 3.0]
    )
    with jax.enable_x64(True), np.errstate(all="ignore"):
        square = Pattern.from_coordinates(np.indices((4, 4)).reshape(2, -1), (4, 4), "csr")[0]
        A = SparseTensor(jnp.asarray(special, dtype), square)
        ones = jnp.ones(4, dtype)

        def f(name, A):
            B = getattr(jsparse, name)(jsparse.einsum("ij,i->ij", A, ones))
            return jsparse.einsum("ij,i->ij", B, ones).values

        names = [*FUNCTIONS.split(), *(["sin", "cos", "tan"] if dtype != "float64" else [])]
        every = lambda A: [f(name, A) for name in names]  # noqa: E731
        assert is_one_chain(every, A)
        together = fuse(every)(A)
        # XLA rounds between the operations of a function: exp2 has a product, whose error grows with the argument.
        exact = A if dtype == "bfloat16" and not has_kernels() else A.astype(float)
        for name, found in zip(names, together, strict=True):
            wanted = f(name, exact).astype(found.dtype)
            tolerance = {"bfloat16": 2e-2, "float16": 3e-3, "float32": 1e-6, "float64": 1e-14}[dtype]
            least = 2e-7 if dtype == "float16" else 1e-12  # each operation rounds: to subnormal numbers in float16
            np.testing.assert_allclose(
                np.asarray(found, float), np.asarray(wanted, float), rtol=tolerance, atol=least, err_msg=name
            )


def test_trigonometric_functions_beside_float64():
    """They are computed in float32 whatever their neighbours are computed in, and in float64 by XLA."""
    with jax.enable_x64(True):
        x = np.linspace(-1e3, 1e3, P.nse).astype(np.float32)
        wide = jnp.asarray(np.random.default_rng(0).random(P.nse))

        def mixed(x, wide):
            A = jsparse.einsum("ij,i->ij", SparseTensor(x, P), jnp.ones(P.shape[0], np.float32)).map(jnp.sin)
            B = A.map(lambda a, w: a.astype(w.dtype) * w + jnp.cos(a), SparseTensor(wide, P))
            return B.sum(1), A.sum(1)

        for found, wanted in zip(fuse(mixed)(x, wide), mixed(x, wide), strict=True):
            assert found.dtype == wanted.dtype
            np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)

        def in_float64(wide):
            return jsparse.einsum("ij,i->ij", SparseTensor(wide, P), jnp.ones(P.shape[0])).map(jnp.tan).sum(1)

        np.testing.assert_allclose(fuse(in_float64)(wide), in_float64(wide), rtol=1e-13)
        assert not is_one_chain(in_float64, wide)


def test_derivatives_of_trigonometric_functions():
    x = jnp.linspace(-3, 3, P.nse)

    def f(x):
        A = jsparse.einsum("ij,i->ij", SparseTensor(x, P), jnp.ones(P.shape[0]))
        return (jsparse.sin(A) * jsparse.tan(A)).map(jnp.cos).sum(1)

    assert is_one_chain(f, x)
    close(jax.jit(jax.grad(squared(fuse(f))))(x), jax.jit(jax.grad(squared(f)))(x), 1e-4)
    close(jax.jvp(fuse(f), (x,), (x,)), jax.jvp(f, (x,), (x,)), 1e-4)


def test_what_is_computed_in_float64_is_not_computed_where_float32_is_stored():
    """The squares underflow in float32. One statement from the sums to the result would have no array of float64."""
    small, x = np.abs(VALUES) * np.float32(1e-30), np.ones((N, 2), np.float32)

    def scaled(v, x):
        wide = (SparseTensor(v, P) @ x).astype(np.float64)
        return (wide * wide * 1e40).astype(np.float32)

    with jax.enable_x64(True):
        assert is_one_chain(scaled, small, x)
        found = jax.jit(fuse(scaled))(small, x)
    exact = np.asarray(to_dense(small), np.float64) @ x
    np.testing.assert_allclose(found, exact * exact * 1e40, rtol=2e-5)
