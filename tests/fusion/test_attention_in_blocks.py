"""Attention on masks in composed formats: by blocks where they fill the shape, else on the entries in csr."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse

RNG = np.random.default_rng(0)


def blocky(n, m, b, c):
    """Which elements are in one of some blocks of b x c, not all rows of blocks have one."""
    where = RNG.random((-(-n // b), -(-m // c))) < 0.4
    where[1] = False
    return np.kron(where, np.ones((b, c), bool))[:n, :m]


def reference(q, k, v, seen):
    scores = np.einsum("...id,...jd->...ij", q, k) * q.shape[-1] ** -0.5
    scores = np.where(seen, scores, -np.inf)
    most = np.where(seen.any(-1, keepdims=True), scores.max(-1, keepdims=True), 0)
    weights = np.exp(scores - most)
    return np.einsum("...ij,...jd->...id", weights / np.maximum(weights.sum(-1, keepdims=True), 1e-30), v)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("shape", [(12, 18), (13, 17)])  # blocks fill the first one only
@pytest.mark.parametrize("format", ["bsr(4, 6)", "dbsr(4, 6)", "bsr(2, 3)", "ell", "group_coo(4)", "hyb"])
@pytest.mark.parametrize("heads", [None, (3, 3), (4, 2)])
def test_values_and_gradients(format, shape, heads):
    n, m = shape
    seen = blocky(n, m, 4, 6)
    mask = jsparse.asarray(seen.astype(np.float32)).asformat(format)
    lead, shared = ((), ()) if heads is None else ((2, heads[0]), (2, heads[1]))
    q, k, v = (RNG.standard_normal((*a, s, d)) for a, s, d in ((lead, n, 5), (shared, m, 5), (shared, m, 4)))
    of_heads = (x if heads is None else np.repeat(x, heads[0] // heads[1], axis=1) for x in (k, v))
    expected = reference(q, *of_heads, seen)
    q, k, v = (x.astype(np.float32) for x in (q, k, v))
    for given in (mask, mask.pattern):
        found = jax.jit(jsparse.sparse_attention)(q, k, v, given)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    plain = mask.asformat("csr")

    def loss(mask, *qkv):
        return (jsparse.sparse_attention(*qkv, mask) ** 2).sum()

    ours = jax.grad(loss, (1, 2, 3))(mask, q, k, v)
    for own, other in zip(ours, jax.grad(loss, (1, 2, 3))(plain, q, k, v), strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-4, atol=1e-5)
    narrow = [jnp.asarray(x, jnp.bfloat16) for x in (q, k, v)]
    found = jsparse.sparse_attention(*narrow, mask)
    assert found.dtype == jnp.bfloat16
    on_csr = jsparse.sparse_attention(*narrow, plain)
    np.testing.assert_allclose(found.astype(np.float32), on_csr.astype(np.float32), rtol=2e-2, atol=2e-2)


def test_a_mask_of_blocks_is_one_kernel():
    pattern = jsparse.pattern.butterfly(64, 4)
    mask = jsparse.SparseTensor(jnp.ones(pattern.nse), pattern).asformat("bsr(4, 4)")
    q, k, v = RNG.standard_normal((3, 64, 8)).astype(np.float32)
    (kernel,) = jsparse.explain(jsparse.sparse_attention)(q, k, v, mask).kernels
    assert "nse=1,280" not in str(kernel)  # it walks the blocks,
    assert f"16×16, nse={pattern.nse // 16}" in str(kernel)


def test_a_mask_whose_leading_digits_are_inside_has_no_blocks():
    seen = np.arange(6)[:, None] % 2 == np.arange(6) % 2
    format = "(i, j) -> (i mod 2 : dense, j mod 2 : compressed, i floordiv 2 : dense, j floordiv 2 : dense)"
    mask = jsparse.pattern.from_mask(seen, format=format)
    q, k, v = RNG.standard_normal((3, 6, 4)).astype(np.float32)
    found = jsparse.sparse_attention(q, k, v, mask)
    np.testing.assert_allclose(found, reference(q, k, v, seen), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("format", ["bsr(4, 6)", "ell"])
def test_biases_and_dropout(format):
    seen = blocky(12, 18, 4, 6)
    mask = jsparse.asarray(seen.astype(np.float32)).asformat(format)
    q, k, v = (RNG.standard_normal((2, s, 4)).astype(np.float32) for s in (12, 18, 18))
    bias, plain = RNG.standard_normal((12, 18)).astype(np.float32), mask.asformat("csr")
    expected = jsparse.sparse_attention(q, k, v, plain, bias=bias)
    np.testing.assert_allclose(jsparse.sparse_attention(q, k, v, mask, bias=bias), expected, rtol=1e-5, atol=1e-6)
    on_mask = mask.with_values(RNG.standard_normal(mask.nse).astype(np.float32))
    expected = jsparse.sparse_attention(q, k, v, plain, bias=on_mask.asformat("csr"))
    np.testing.assert_allclose(jsparse.sparse_attention(q, k, v, mask, bias=on_mask), expected, rtol=1e-5, atol=1e-6)
    options = {"dropout_rate": 0.5, "dropout_key": jax.random.key(0)}
    expected = jsparse.sparse_attention(q, k, v, plain, **options)
    np.testing.assert_allclose(jsparse.sparse_attention(q, k, v, mask, **options), expected, rtol=1e-5, atol=1e-6)
