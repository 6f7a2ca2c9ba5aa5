"""Buffers of compiled derivatives: none has a sparse operand's dense shape, none has (entries, features).

Both would be far larger than any operand or result.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from einsum.hlo import compiled_text, largest_array
from programs.amount import sample

import jsparse
from jsparse import SparseTensor

N, ENTRIES, FEATURES = 3000, 24_000, 8
WIDE = N * FEATURES  # the size of a dense operand; (entries, features) is 8 times as large, a dense matrix 375 times


def matrix(format, dynamic, seed=0):
    """A matrix with random entries: static, dynamic, or dynamic with its transposed index."""
    rng = np.random.default_rng(seed)
    numbers = rng.choice(N * N, ENTRIES, replace=False)
    values = rng.integers(1, 4, ENTRIES).astype(np.float32)
    A = SparseTensor.from_coords(np.stack(divmod(numbers, N)), values, (N, N), format)
    if not dynamic:
        return A
    return A.dynamic().with_transpose() if dynamic == "with transpose" else A.dynamic()


def features(seed):
    return jnp.asarray(np.random.default_rng(seed).integers(-2, 3, (N, FEATURES)).astype(np.float32))


einsum = jsparse.einsum

# functions of (A, X, Y), whose results are dense arrays or the values of sparse ones
PROGRAMS = {
    "product": lambda A, X, Y: A @ X,
    "transposed product": lambda A, X, Y: A.T @ X,
    "sampled product": lambda A, X, Y: einsum("ik,jk->ij", X, Y, out_format=A).values,
    "scaled sampled product": lambda A, X, Y: einsum("ij,ik,jk->ij", A, X, Y).values,
    "bilinear form": lambda A, X, Y: einsum("ik,ij,jk->k", X, A, Y),
    "chain": lambda A, X, Y: einsum("ij,jk,kl->il", A, X, Y[:FEATURES]),
    "two hops": lambda A, X, Y: einsum("ij,jk,kf->if", A, A, X),
    "sum of products": lambda A, X, Y: jsparse.evaluate("Z[i,k] = 2*Y[i,k] - A[i,j]*X[j,k]", A=A, X=X, Y=Y),
    "sum of matrices": lambda A, X, Y: (A + A.T).values * 2,
    "rows scaled": lambda A, X, Y: (A * X[:, :1]).values,
    "attention": lambda A, X, Y: A.with_values(jnp.tanh(einsum("ik,jk->ij", X, Y, out_format=A).values)) @ Y,
    "indirect": lambda A, X, Y: jsparse.evaluate(
        "Z[r[p],k] += V[p] * X[c[p],k] * Y[r[p],k]", shape=(N, FEATURES), V=A.values, X=X, Y=Y, **tables(A)
    ),
}


def tables(A):
    rows, columns = np.random.default_rng(5).integers(0, N, (2, A.nse))
    return {"r": rows, "c": columns}


def value(f):
    return lambda v, A, X, Y: (f(A.with_values(v), X, Y) ** 2).sum()


def gradient(f):
    return jax.grad(value(f), (0, 2, 3))


def curvature(f):
    """A Hessian-vector product, forward over reverse."""
    derivative = gradient(f)

    def of(v, A, X, Y):
        inner = lambda v, X, Y: derivative(v, A, X, Y)  # noqa: E731
        return jax.jvp(inner, (v, X, Y), (jnp.ones_like(v), jnp.ones_like(X), jnp.ones_like(Y)))

    return of


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dynamic", [False, True, "with transpose"])
@pytest.mark.parametrize("name", sample(list(PROGRAMS), 0, 2))
def test_nothing_large_is_built(name, dynamic):
    A = matrix("csr", dynamic)
    f = PROGRAMS[name]
    room = max(WIDE, 2 * A.nse + 1)  # of A + A.T
    for derivative in (value, gradient, curvature):
        text = compiled_text(derivative(f), A.values, A, features(1), features(2))
        assert largest_array(text) <= room, derivative


@pytest.mark.parametrize("name", ["product", "scaled sampled product", "attention"])
def test_batches_of_gradients(name):
    """Three heads take three times as much memory: each array exists once."""
    A, f = matrix("csr", False), PROGRAMS[name]
    X, Y = (jnp.stack([features(n), features(n + 1), features(n + 2)], 1) for n in (1, 4))
    heads = jax.vmap(gradient(f), (None, None, 1, 1), (0, 1, 1))
    assert largest_array(compiled_text(heads, A.values, A, X, Y)) <= 3 * WIDE


@pytest.mark.parametrize("format", ["csc", "coo", "dcsr"])
def test_other_formats(format):
    A = matrix(format, False)
    for name in ("product", "sampled product", "bilinear form"):
        text = compiled_text(curvature(PROGRAMS[name]), A.values, A, features(1), features(2))
        assert largest_array(text) <= WIDE
