"""Patterns of attention as operands, as masks of products, and as `out_format`, beside dense JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from patterns.masks import mask_of

import jsparse
from jsparse import pattern
from jsparse.pattern import RUNS

KEY = jax.random.key(0)
N, HEADS, WIDTH = 24, 2, 5
BIG_BIRD = pattern.window(N, 2) | pattern.global_(N, 2) | pattern.random_blocks(KEY, N, 4, 2)
PATTERNS = {
    "causal": pattern.causal(N),
    "causal window": pattern.causal(N, before=5),
    "window as runs": pattern.window(N, 3, 1, format=RUNS),
    "strided": pattern.strided(N, 6, local=2),
    "butterfly": pattern.butterfly(N, 3),
    "documents": pattern.block_diagonal([5, 12, 7], format=RUNS) & pattern.causal(N),
    "big bird": BIG_BIRD,
    "causal big bird": BIG_BIRD & pattern.causal(N),
    "dilated": pattern.window(N, 2, dilation=4, format="csc"),
    "all": pattern.full((N, N), format="dense"),
}
RNG = np.random.default_rng(0)
Q, K, V = (RNG.integers(-2, 3, (N, HEADS, WIDTH)).astype(np.float32) for _ in range(3))
X = RNG.integers(-3, 4, (N, WIDTH)).astype(np.float32)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", PATTERNS)
def test_products(name):
    P = PATTERNS[name]
    mask = mask_of(P).astype(np.float32)
    np.testing.assert_array_equal(jsparse.einsum("ij,jk->ik", P, X), mask @ X)
    np.testing.assert_array_equal(jsparse.einsum("ji,jk->ik", P, X), mask.T @ X)
    np.testing.assert_array_equal(jsparse.einsum("ij->i", P), mask.sum(1))
    scores = jsparse.einsum("ihd,jhd->ijh", Q, K, out_format=P)
    assert scores.nse == P.nse * HEADS
    np.testing.assert_array_equal(scores.todense(), np.einsum("ihd,jhd->ijh", Q, K) * mask[:, :, None])
    masked = jsparse.einsum("ij,ik,jk->ij", P, X, X)
    np.testing.assert_array_equal(masked.todense(), mask * (X @ X.T))
    weights = jsparse.asarray(np.where(RNG.random((N, N)) < 0.2, 2.0, 0).astype(np.float32))
    np.testing.assert_array_equal(jsparse.einsum("ij,ij->ij", P, weights).todense(), mask * weights.todense())


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", PATTERNS)
def test_attention_and_its_gradients(name):
    P = PATTERNS[name]
    mask = mask_of(P)[:, :, None]

    def attention(Q, K, V):
        scores = jsparse.einsum("ihd,jhd->ijh", Q, K, out_format=P)
        return jsparse.einsum("ijh,jhd->ihd", jsparse.softmax(scores, 1), V)

    def dense(Q, K, V):
        scores = jnp.where(mask, jnp.einsum("ihd,jhd->ijh", Q, K), -jnp.inf)
        return jnp.einsum("ijh,jhd->ihd", jax.nn.softmax(scores, 1), V)

    np.testing.assert_allclose(jax.jit(attention)(Q, K, V), dense(Q, K, V), rtol=2e-5, atol=2e-5)
    found, expected = (
        jax.grad(lambda *inputs, f=f: (f(*inputs) ** 2).sum(), (0, 1, 2))(Q, K, V) for f in (attention, dense)
    )
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-3)


def test_cached_keys():
    """Attention of the last queries is that of all queries, in the last rows."""
    whole, last = pattern.causal(N), pattern.causal(3, N)
    np.testing.assert_array_equal(mask_of(last), mask_of(whole)[-3:])


def test_blocks_share_the_pattern_of_blocks():
    blocks = pattern.butterfly(8).extended((3, 3))
    x = RNG.integers(-3, 4, (8, 3, 2)).astype(np.float32)
    dense = np.kron(mask_of(pattern.butterfly(8)), np.ones((3, 3)))
    np.testing.assert_array_equal(mask_of(pattern.butterfly(24, 3)), dense)
    found = jsparse.einsum("IJij,Jjk->Iik", blocks, x)
    np.testing.assert_array_equal(found.reshape(24, 2), dense @ x.reshape(24, 2))
