"""`fuse` of functions of dynamic tensors: their padding, overflow and batches."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fusion.operands import DENSE_VALUES, MASK, VALUES, M, N, P, close, masked_softmax, normal, squared

import jsparse
from jsparse import SparseTensor
from jsparse.ops.fuse import fuse


@pytest.mark.sampled(3)
@pytest.mark.semantics
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("format", ["csr", "csc", "coo", "dcsr"])
def test_tensors_as_arguments(format, dynamic):
    A = jsparse.asarray(np.asarray(DENSE_VALUES), format=format)
    A = A.dynamic(A.nse + 4) if dynamic else A
    x = normal(N, 3)

    def f(A, x):
        B = jsparse.softmax(A * 2, 1)
        return B, B @ x

    B, y = fuse(f)(A, x)
    wanted = masked_softmax(2 * DENSE_VALUES)
    close((B.todense(), y), (wanted, wanted @ x))
    np.testing.assert_array_equal(B.values[P.nse :], 0)
    found = jax.jit(jsparse.grad(lambda A, x: squared(lambda A: fuse(f)(A, x)[1])(A)))(A, x)
    gradient = jax.jit(jax.grad(lambda d: squared(lambda d: masked_softmax(2 * d) @ x)(d)))(DENSE_VALUES)
    close(found.todense(), jnp.where(MASK, gradient, 0), 1e-4)


def test_only_what_uses_an_overflowed_tensor_is_nan():
    def f(x, z, y):
        A = jsparse.asarray(x, nse=4, format="csr", dynamic=True)
        B = jsparse.asarray(z, nse=60, format="csr", dynamic=True)
        counts = A.map(lambda a: jnp.where(a > 0, 1.0, 0.0)).sum(1)
        return (A * 2) @ y, jsparse.sigmoid(B) @ y, counts, (B * 2).sum(1) + counts, B.map(jnp.sign).sum(1)

    operands = jnp.asarray(DENSE_VALUES), jnp.asarray(DENSE_VALUES), normal(N, 3)
    for a, b in zip(jax.jit(fuse(f))(*operands), jax.jit(f)(*operands), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)
        assert np.isnan(a).all() or not np.isnan(a).any()


def test_padding_is_what_operations_give():
    """A raw operation on values computes padding, too: results and sums of them are the same in a chain."""
    A = SparseTensor(VALUES, P).dynamic(P.nse + 5)
    x, target = normal(M), normal(A.nse)

    def f(values, x, target):
        B = jsparse.einsum("ij,i->ij", A.with_values(values), x)
        raw, heads = jnp.exp(B.values), jnp.stack([B.values, 2 * B.values])
        both = jax.vmap(lambda v, s: A.with_values(v).map(lambda a, s: jnp.cos(a * s), s).values, (0, 0))
        moved = both(heads, jnp.stack([B.sum(), B.sum() * 2]))
        total = ((B.values - target) ** 2).mean()
        return raw, raw.sum(), total, B.values * 2 + jnp.sin(B.values), A.with_values(raw).sum(1), moved

    operands = (A.values, x, target)
    close(fuse(f)(*operands), f(*operands))
    found = jax.jit(jax.grad(lambda *o: fuse(f)(*o)[2], (0, 1, 2)))(*operands)
    close(found, jax.jit(jax.grad(lambda *o: f(*o)[2], (0, 1, 2)))(*operands))


@pytest.mark.parametrize("nse", [None, 3])
def test_batches_of_dynamic_patterns(nse):
    """They run as without `fuse`."""
    masks = np.stack([MASK, ~MASK, MASK & (np.arange(N) % 2 == 0)])
    arrays, x = jnp.asarray(np.where(masks, np.asarray(normal(M, N)), 0)), normal(N, 2)

    def f(array, x):
        A = jsparse.asarray(array, nse=nse or 60, format="csr", dynamic=True)
        return jsparse.softmax(A * 2, 1) @ x

    wanted = jax.vmap(f, (0, None))(arrays, x)
    np.testing.assert_allclose(jax.vmap(fuse(f), (0, None))(arrays, x), wanted, rtol=2e-5, atol=1e-6)
    np.testing.assert_allclose(fuse(jax.vmap(f, (0, None)))(arrays, x), wanted, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("scale", [True, False])
def test_values_that_are_sorted_anew_are_read_at_their_own_entries(scale):
    """The permutation is a relation of entries, whose coordinates are no stored entries of the other pattern."""
    rng = np.random.default_rng(0)
    dense = np.where(rng.random((9, 7)) < 0.4, rng.integers(1, 9, (9, 7)), 0).astype(np.float32)
    A, c = jsparse.asarray(dense, "csc").dynamic(40), jnp.arange(1, 10, dtype=np.float32)

    def sorted_anew(A, c):
        B = jsparse.einsum("ij,i->ij", A, c) if scale else A * 2
        return B.asformat("csr").values, jsparse.einsum("ij->", B.asformat("csr"))

    wanted = dense * (np.arange(1, 10, dtype=np.float32)[:, None] if scale else 2)
    values, total = jax.jit(jsparse.fuse(sorted_anew))(A, c)
    np.testing.assert_array_equal(values[: np.count_nonzero(dense)], wanted[dense != 0])
    assert total == wanted.sum()
