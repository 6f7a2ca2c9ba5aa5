"""Patterns and arrays of the tests, and what they compare by."""

import jax
import jax.numpy as jnp
import numpy as np

from jsparse import Pattern, SparseTensor

M, N, D, H = 9, 7, 4, 3
MASK = np.random.default_rng(5).random((M, N)) < 0.4
MASK[2], MASK[:, 3] = False, False  # a row and a column without entries
COORDS = np.stack(np.nonzero(MASK)).astype(np.int32)


def pattern(format="csr", mask=MASK):
    return Pattern.from_coordinates(np.stack(np.nonzero(mask)).astype(np.int32), mask.shape, format)[0]


def normal(*shape, seed=0):
    return jnp.asarray(np.random.default_rng((seed, *shape)).standard_normal(shape), jnp.float32)


def to_dense(v):
    return jnp.zeros((M, N), v.dtype).at[tuple(COORDS)].set(v)


def masked_softmax(scores, mask=MASK, axis=-1):
    """The softmax over what the mask selects; 0 elsewhere, and in rows without anything."""
    mask = jnp.broadcast_to(mask, scores.shape)
    shifted = scores - jnp.max(jnp.where(mask, scores, -jnp.inf), axis, keepdims=True, initial=-1e30)
    powers = jnp.where(mask, jnp.exp(jnp.where(mask, shifted, 0)), 0)
    sums = powers.sum(axis, keepdims=True)
    return powers / jnp.where(sums == 0, 1, sums)


def squared(f):
    return lambda *x: (f(*x) ** 2).sum()


def derivatives(f, argnums):
    """The reference as one program: results, gradients of the sum of their squares, and results with tangents."""

    @jax.jit
    def computed(operands, directions):
        total = lambda *x: sum((y**2).sum() for y in jax.tree.leaves(f(*x)))  # noqa: E731
        return f(*operands), jax.grad(total, argnums)(*operands), jax.jvp(f, operands, directions)

    return computed


def close(found, wanted, rtol=2e-5):
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * max(1.0, float(jnp.abs(b).max(initial=0))))


def close_with_nan(found, wanted):
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)


P = pattern()
SQUARE_MASK = np.random.default_rng(8).random((M, M)) < 0.4
SQUARE = pattern(mask=SQUARE_MASK)
SQUARE_TENSOR = SparseTensor(normal(SQUARE.nse), SQUARE)
VALUES = normal(P.nse, seed=3)
DENSE_VALUES = jnp.zeros((M, N)).at[tuple(COORDS)].set(VALUES)
