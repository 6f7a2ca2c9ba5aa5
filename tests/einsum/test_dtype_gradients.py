"""Gradients of narrow floats and of complex numbers, against those of jnp.einsum on dense arrays."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse
from jsparse import SparseTensor

NARROW = ("float16", "bfloat16")
FLOATS = (*NARROW, "float32", "complex64")
PAIRS = [(d, d) for d in FLOATS] + [("bfloat16", "float32"), ("float32", "float16"), ("float32", "complex64"),
                                    ("complex64", "float32"), ("complex64", "bfloat16")]  # fmt: skip
TOLERANCE = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 1e-5, "complex64": 1e-5}


def random_array(shape, dtype, seed):
    rng = np.random.default_rng(seed)
    x = rng.uniform(0.5, 1.5, shape)
    return jax.device_put((x + 1j * rng.uniform(0.5, 1.5, shape) if dtype == "complex64" else x).astype(dtype))


def operands(first, second):
    D = random_array((5, 7), first, 0) * (np.random.default_rng(9).random((5, 7)) < 0.6).astype(first)
    return jsparse.asarray(D, format="csr"), D, random_array((7, 4), second, 1)


def near(got, want, on=None, exactness=None):
    if on is not None:
        assert isinstance(got, SparseTensor)
        want, got = want[tuple(on.pattern.to_coords())], got.values
    assert got.dtype == want.dtype
    wide = np.complex128 if want.dtype.kind == "c" else np.float64
    tolerance = TOLERANCE[exactness or want.dtype.name]
    np.testing.assert_allclose(np.asarray(got).astype(wide), np.asarray(want).astype(wide), tolerance, tolerance)


@jax.jit
def magnitude(out):
    out = out.values if isinstance(out, SparseTensor) else out
    wide = out.astype(jnp.promote_types(out.dtype, jnp.float32))
    return (jnp.abs(wide) ** 2 + wide.real + 2 * wide.imag).sum() / 50


def product(D, X):
    """The reference. Both factors get one dtype first, because JAX 0.8 warns if a product of a real and a complex array
    is differentiated."""
    dtype = jnp.promote_types(D.dtype, X.dtype)
    return jnp.einsum("ij,jk->ik", D.astype(dtype), X.astype(dtype))


gradients_of_dense = jax.jit(jax.grad(lambda D, X: magnitude(product(D, X)), (0, 1)))


def coarsest(*dtypes):
    return max(dtypes, key=lambda d: TOLERANCE[d])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("first, second", PAIRS)
@pytest.mark.parametrize("format", ["csr", "csc", "coo"])
def test_gradients_of_a_real_loss(first, second, format):
    A, D, X = operands(first, second)
    A = A.asformat(format)
    loss = lambda A, X: magnitude(jsparse.einsum("ij,jk->ik", A, X))  # noqa: E731
    dense = gradients_of_dense(D, X)
    compiled = lambda f, n: jax.jit(jax.grad(f, n))  # noqa: E731
    for gradient in (jax.grad, compiled) if format == "csr" else (compiled,):
        dA, dX = gradient(loss, (0, 1))(A, X)
        near(dA, dense[0], A, coarsest(first, second))
        near(dX, dense[1], None, coarsest(first, second))


def test_holomorphic_gradients():
    A, D, X = operands("complex64", "complex64")
    holomorphic = lambda out: (out * out).sum()  # noqa: E731
    loss = lambda A, X: holomorphic(jsparse.einsum("ij,jk->ik", A, X))  # noqa: E731
    dense = lambda D, X: holomorphic(product(D, X))  # noqa: E731
    dA, dX = jax.grad(loss, (0, 1), holomorphic=True)(A, X)
    want = jax.jit(jax.grad(dense, (0, 1), holomorphic=True))(D, X)
    near(dA, want[0], A)
    near(dX, want[1])
    near(jsparse.grad(loss, 0, holomorphic=True)(A.dynamic(), X).static(), want[0], A)
    J = jax.jacfwd(lambda X: jsparse.einsum("ij,jk->ik", A, X), holomorphic=True)(X)
    near(J, jax.jacfwd(lambda X: product(D, X), holomorphic=True)(X))


@pytest.mark.parametrize("dtype, preferred", [("bfloat16", "float32"), ("float16", "float32"), ("int8", "float32")])
def test_cotangents_of_a_preferred_dtype(dtype, preferred):
    A, D, X = operands(dtype, dtype)
    f = lambda einsum: lambda A, X: (einsum("ij,jk->ik", A, X, preferred_element_type=preferred) ** 2).sum() / 50  # noqa: E731
    numbers = (0, 1) if dtype != "int8" else ()
    got, want = f(jsparse.einsum)(A, X), f(jnp.einsum)(D, X)
    near(got, want)
    if numbers:
        dA, dX = jax.grad(f(jsparse.einsum), numbers)(A, X)
        wA, wX = jax.grad(f(jnp.einsum), numbers)(D, X)
        near(dA, wA, A)
        near(dX, wX)


def test_a_factor_of_integers_has_no_gradient():
    A, D, X = operands("float32", "int8")
    dA = jax.grad(lambda A: (jsparse.einsum("ij,jk->ik", A, X) ** 2).sum())(A)
    near(dA, jax.grad(lambda D: (jnp.einsum("ij,jk->ik", D, X) ** 2).sum())(D), A)
    B = jsparse.asarray(X, format="csr")
    dY = jax.grad(lambda Y: (jsparse.einsum("jk,kl->jl", B, Y) ** 2).sum())(jnp.ones((4, 3)))
    near(dY, jax.grad(lambda Y: ((X @ Y) ** 2).sum())(jnp.ones((4, 3))))
