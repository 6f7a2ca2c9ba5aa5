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


@pytest.mark.sampled(2)
@pytest.mark.parametrize("first, second", PAIRS)
def test_dynamic_patterns(first, second):
    A, D, X = operands(first, second)
    want = gradients_of_dense(D, X)
    got = jsparse.grad(lambda A, X: magnitude(jsparse.einsum("ij,jk->ik", A, X)), (0, 1))(A.dynamic(), X)
    near(got[0].static(), want[0], A, coarsest(first, second))
    near(got[1], want[1], None, coarsest(first, second))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("first, second", PAIRS)
def test_two_sparse_operands(first, second):
    A, D, X = operands(first, second)
    B = jsparse.asarray(X, format="csr")
    loss = lambda A, B: magnitude(jsparse.einsum("ij,jk->ik", A, B))  # noqa: E731
    dA, dB = jax.grad(loss, (0, 1))(A, B)
    want = gradients_of_dense(D, X)
    near(dA, want[0], A, coarsest(first, second))
    near(dB, want[1], B, coarsest(first, second))


@pytest.mark.parametrize("dtype", FLOATS)
def test_sums_of_products(dtype):
    _, D, X = operands(dtype, dtype)
    square = jnp.zeros((7, 7), dtype).at[:5].set(D)
    A = jsparse.asarray(square, format="csr")
    text = "C[i,k] = 2 * A[i,j] * X[j,k] - X[i,k]"
    dA, dX = jax.grad(lambda A, X: magnitude(jsparse.evaluate(text, A=A, X=X)), (0, 1))(A, X)
    want = jax.jit(jax.grad(lambda D, X: magnitude(2 * product(D, X) - X), (0, 1)))(square, X)
    near(dA, want[0], A, dtype)
    near(dX, want[1], None, dtype)


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


@pytest.mark.sampled(2)
@pytest.mark.parametrize("first, second", PAIRS)
def test_jvp_and_vjp(first, second):
    A, D, X = operands(first, second)
    tangents = random_array((A.nse,), first, 3), random_array((7, 4), second, 4)
    dense = jnp.zeros((5, 7), first).at[tuple(A.pattern.to_coords())].set(tangents[0])
    f, g = (lambda A, X: jsparse.einsum("ij,jk->ik", A, X)), product
    exactness = coarsest(first, second)
    for got, want in zip(jax.jvp(f, (A, X), (A.with_values(tangents[0]), tangents[1])),
                         jax.jvp(g, (D, X), (dense, tangents[1])), strict=True):  # fmt: skip
        near(got, want, None, exactness)
    out, pull = jax.vjp(f, A, X)
    cotangent = random_array(out.shape, "complex64" if out.dtype.kind == "c" else "float32", 5).astype(out.dtype)
    (dA, dX), (wA, wX) = pull(cotangent), jax.vjp(g, D, X)[1](cotangent)
    near(dA, wA, A, exactness)
    near(dX, wX, None, exactness)


@pytest.mark.parametrize("dtype", ["bfloat16", "complex64", "float16"])
def test_batches(dtype):
    A, D, X = operands(dtype, dtype)
    values, batch = jnp.stack([A.values, 2 * A.values]), jnp.stack([X, X + 1])
    f = lambda v, X: jsparse.einsum("ij,jk->ik", A.with_values(v), X)  # noqa: E731
    near(jax.vmap(f)(values, batch), jnp.stack([D @ X, (2 * D) @ (X + 1)]), None, dtype)
    got = jax.vmap(jax.grad(lambda v, X: magnitude(f(v, X))))(values, batch)
    want = [jax.grad(lambda v, X: magnitude(f(v, X)))(v, x) for v, x in zip(values, batch, strict=True)]
    near(got, jnp.stack(want), None, dtype)


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


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", FLOATS)
def test_other_operations_are_differentiable(dtype):
    """They are conversions, assembly with duplicates, and dense and sparse sums."""
    A, D, _ = operands(dtype, dtype)
    coords, weight = np.array([[0, 1, 1, 3], [2, 0, 0, 1]]), random_array((5, 7), dtype, 6)

    def loss(v, w):
        S = SparseTensor.from_coords(coords, w, (5, 7), "csr")
        T = A.with_values(v).asformat("csc")
        return magnitude((T + S).asformat("coo").todense() * weight)

    def dense(v, w):
        T = jnp.zeros((5, 7), dtype).at[tuple(A.pattern.to_coords())].set(v)
        return magnitude(T.at[tuple(coords)].add(w) * weight)

    w = random_array((4,), dtype, 7)
    for got, want in zip(jax.grad(loss, (0, 1))(A.values, w), jax.grad(dense, (0, 1))(A.values, w), strict=True):
        near(got, want)
    second = jax.grad(lambda v: magnitude(jax.grad(loss)(v, w)))(A.values)
    near(second, jax.grad(lambda v: magnitude(jax.grad(dense)(v, w)))(A.values), None, dtype)
    assert D.dtype == dtype
