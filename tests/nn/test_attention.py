"""Multi-head attention on sparse masks against its formula on dense arrays."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse
from jsparse import SparseTensor
from jsparse.nn import Projection, multi_head_attention, relative_bias

N, M, IN, HEADS, DIM, OUT, FAR = 9, 11, 6, 4, 3, 5, 2
rng = np.random.default_rng(0)
MASK = rng.random((N, M)) < 0.4
MASK[3] = False
PATTERN = jsparse.pattern.from_mask(MASK)
X, CONTEXT = (jnp.asarray(rng.standard_normal((2, n, IN)), jnp.float32) for n in (N, M))


def normal(*shape: int) -> jax.Array:
    return jnp.asarray(rng.standard_normal(shape), jnp.float32) / 2


def params(kv_heads: int) -> dict[str, Projection]:
    return {
        "query": Projection(normal(IN, HEADS, DIM), normal(HEADS, DIM)),
        "key": Projection(normal(IN, kv_heads, DIM), normal(kv_heads, DIM)),
        "value": Projection(normal(IN, kv_heads, DIM)),
        "out": Projection(normal(HEADS, DIM, OUT), normal(OUT)),
    }


def dense_attention(x, context, table, query, key, value, out):
    def heads(x, p):
        found = jnp.einsum("bnf,fhd->bhnd", x, p.kernel)
        return found if p.bias is None else found + p.bias[:, None]

    q, k, v = heads(x, query), heads(context, key), heads(context, value)
    k, v = (jnp.repeat(a, HEADS // a.shape[1], axis=1) for a in (k, v))
    distance = jnp.clip(jnp.arange(M)[None] - jnp.arange(N)[:, None], -FAR, FAR) + FAR
    scores = jnp.einsum("bhnd,bhmd->bhnm", q, k) / np.sqrt(DIM) + table[:, distance]
    powers = jnp.where(MASK, jnp.exp(scores), 0)
    total = powers.sum(-1, keepdims=True)
    weights = powers / jnp.where(total == 0, 1, total)
    return jnp.einsum("bhnm,bhmd,hdo->bno", weights, v, out.kernel) + out.bias


@pytest.mark.sampled(2)
@pytest.mark.semantics
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("kv_heads", [4, 2])
def test_results_and_gradients(kv_heads: int, dynamic: bool) -> None:
    ones = SparseTensor(jnp.ones(PATTERN.nse), PATTERN)
    mask = ones.dynamic(PATTERN.nse + 4) if dynamic else PATTERN
    given, table = params(kv_heads), normal(HEADS, 2 * FAR + 1)

    def sparse(x, context, table, given):
        return multi_head_attention(x, context, mask, bias=relative_bias(table, mask), **given)

    def dense(x, context, table, given):
        return dense_attention(x, context, table, **given)

    np.testing.assert_allclose(
        jax.jit(sparse)(X, CONTEXT, table, given), jax.jit(dense)(X, CONTEXT, table, given), rtol=1e-4, atol=1e-5
    )
    slopes = [
        jax.grad(lambda *a, f=f: (f(*a) ** 2).sum(), (0, 1, 2, 3))(X, CONTEXT, table, given)
        for f in (sparse, jax.jit(dense))
    ]
    for found, wanted in zip(*map(jax.tree.leaves, slopes), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)
