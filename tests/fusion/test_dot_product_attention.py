"""`dot_product_attention` with sparse masks against that of jax.nn with dense ones."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse

T, S = 11, 9
RNG = np.random.default_rng(0)
MASK = (RNG.random((T, S)) < 0.4) | (np.arange(S) == np.arange(T)[:, None] % S) | (np.arange(S) == 0)
MASKS = MASK & ((RNG.random((4, T, S)) < 0.7) | (np.arange(S) == 0))
PATTERN = jsparse.pattern.from_mask(MASK)
PATTERNS = jsparse.asarray(MASKS).pattern


def normal(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def arrays(lead, heads=4, shared=4, width=5):
    return normal(*lead, T, heads, 5), normal(*lead, S, shared, 5), normal(*lead, S, shared, width)


def compared(options, mask, dense, given, bias=None):
    """Compare values, and gradients in queries, keys, values and the bias."""

    def sparse_one(q, k, v, bias):
        return jsparse.dot_product_attention(q, k, v, bias, mask, **options)

    def dense_one(q, k, v, bias):
        return jax.nn.dot_product_attention(q, k, v, bias, dense, **options)

    order = (0, 1, 2) if bias is None else (0, 1, 2, 3)
    weights = jnp.cos(jnp.arange(float(np.prod(given[0].shape)))).reshape(given[0].shape)
    found, pull = jax.vjp(jax.jit(sparse_one), *given, bias)
    wanted, pull_wanted = jax.vjp(jax.jit(dense_one), *given, bias)
    slopes, slopes_wanted = pull(weights), pull_wanted(weights)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    for n in order:
        np.testing.assert_allclose(slopes[n], slopes_wanted[n], rtol=1e-4, atol=1e-5)


OPTIONS = {
    "plain": ((2,), 4, {}, None),
    "one sequence": ((), 4, {}, None),
    "scale": ((2,), 4, {"scale": 0.3}, None),
    "grouped queries": ((2,), 2, {}, None),
    "causal": ((2,), 4, {"is_causal": True}, None),
    "bias": ((2,), 4, {}, (2, 4, T, S)),
    "bias of heads": ((2,), 2, {}, (1, 4, T, S)),
    "bias of keys": ((2,), 4, {}, (2, 1, 1, S)),
    "bias of queries": ((2,), 4, {"is_causal": True}, (1, 1, T, 1)),
    "bias of a batch": ((2,), 4, {}, (2, 1, 1, 1)),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", OPTIONS)
def test_agrees_with_jax(name):
    lead, shared, options, shape = OPTIONS[name]
    bias = None if shape is None else normal(*shape)
    dense = MASK[(None,) * (len(lead) + 1)]
    compared(options, PATTERN, dense, arrays(lead, shared=shared), bias)


def test_dynamic_masks():
    dynamic = jsparse.asarray(MASK.astype(np.float32)).dynamic(nse=MASK.sum() + 5)
    compared({"is_causal": True}, dynamic, MASK[None, None], arrays((2,)), normal(1, 4, T, S))


def test_a_pattern_for_each_head():
    compared({}, PATTERNS, MASKS[None], arrays((2,)), normal(1, 4, T, S))
    compared({"is_causal": True}, PATTERNS, MASKS[None], arrays((2,)), normal(2, 1, 1, S))


def test_a_bias_on_the_pattern():
    bias = normal(T, S)
    sparse = jsparse.asarray(np.where(MASK, bias, 0))
    q, k, v = arrays((2,))
    found = jsparse.dot_product_attention(q, k, v, sparse, sparse.pattern)
    np.testing.assert_allclose(
        found, jax.nn.dot_product_attention(q, k, v, bias[None, None], MASK[None, None]), rtol=1e-5, atol=1e-5
    )


def test_more_axes_in_front_and_wide_values():
    q, k, v = arrays((2, 3), shared=2, width=7)
    found = jsparse.dot_product_attention(q, k, v, normal(3, 1, 1, S) * 0, PATTERN)
    assert found.shape == (2, 3, T, 4, 7)
    for at in np.ndindex(2, 3):
        whole = jsparse.dot_product_attention(q[at], k[at], v[at], mask=PATTERN)
        np.testing.assert_allclose(found[at], whole, rtol=1e-5, atol=1e-6)
    by_heads = jsparse.sparse_attention(*(np.swapaxes(x, -2, -3) for x in (q, k, v)), PATTERN)
    np.testing.assert_allclose(found, np.swapaxes(by_heads, -2, -3), rtol=1e-5, atol=1e-6)


def test_without_a_sparse_mask_it_is_that_of_jax():
    q, k, v = arrays((2,))
    for mask in (None, MASK[None, None]):
        found = jsparse.dot_product_attention(q, k, v, mask=mask, scale=0.2)
        np.testing.assert_array_equal(found, jax.nn.dot_product_attention(q, k, v, mask=mask, scale=0.2))


def test_a_query_without_keys_gives_zero():
    q, k, v = arrays((2,))
    found = jsparse.dot_product_attention(q, k, v, mask=jsparse.pattern.from_mask(MASK & (np.arange(T) != 3)[:, None]))
    assert (np.asarray(found)[:, 3] == 0).all()
    assert (np.asarray(found)[:, 4] != 0).all()


def test_narrow_floats_and_dtypes():
    q, k, v = (jnp.asarray(x, jnp.bfloat16) for x in arrays((2,)))
    found = jsparse.dot_product_attention(q, k, v, normal(1, 4, T, S) * 0, PATTERN)
    assert found.dtype == jnp.bfloat16
    wide = jsparse.dot_product_attention(*(x.astype(jnp.float32) for x in (q, k, v)), mask=PATTERN)
    np.testing.assert_allclose(found.astype(jnp.float32), wide, rtol=2**-8, atol=1e-6)  # rounded once


def test_it_is_one_kernel_without_arrays_of_entries():
    pattern = jsparse.pattern.window(60, 7)
    q, k, v = normal(2, 60, 4, 8), normal(2, 60, 4, 8), normal(2, 60, 4, 8)
    bias = normal(2, 1, 1, 60)

    def attend(q, k, v, bias):
        return jsparse.dot_product_attention(q, k, v, bias, pattern, is_causal=True)

    forward = jax.jit(attend).lower(q, k, v, bias).compile().as_text()
    assert forward.count("custom-call(") == 1
    gradient = jax.jit(jax.grad(lambda *x: (attend(*x) ** 2).sum(), (0, 1, 2))).lower(q, k, v, bias)
    for text in (forward, gradient.compile().as_text()):
        sizes = {size for shape in re.findall(r"\w+\[([\d,]+)\]", text) for size in shape.split(",")}
        assert str(pattern.nse) not in sizes
