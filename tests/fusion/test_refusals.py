"""Attention whose operands do not fit; `refusals.txt` has the messages of the rows."""

import jax.numpy as jnp
import numpy as np
import pytest
from refusals import test_refusals as test_refusals

import jsparse
from jsparse import PatternError, ShapeError, dot_product_attention, sparse_attention


def attention():
    pattern = jsparse.pattern.window(6, 1)
    q, k, v = np.ones((4, 6, 3)), np.ones((4, 6, 3)), np.ones((4, 6, 3))
    yield ShapeError, lambda: sparse_attention(q[0, 0], k, v, pattern)
    yield ShapeError, lambda: sparse_attention(q, k[:, :-1], v, pattern)
    yield ShapeError, lambda: sparse_attention(q, k, v, np.ones((6, 6)))
    yield ShapeError, lambda: sparse_attention(q, k[:, :5], v[:, :5], pattern)
    yield ShapeError, lambda: sparse_attention(q[:3], k[:2], v[:2], pattern)
    yield ShapeError, lambda: sparse_attention(q, k, v, pattern, dropout_rate=0.5)
    static = jsparse.SparseTensor(jnp.zeros(pattern.nse), pattern)
    dynamic = static.dynamic()
    for mask, other in ((static, dynamic), (dynamic, static)):
        shapes = ((), (1,), (pattern.nse - 1,), (2, pattern.nse), (1, 4, pattern.nse))
        yield (
            ShapeError,
            lambda mask, bias: sparse_attention(q, q, q, mask, bias=bias),
            [(mask, jnp.ones(s)) for s in shapes],
        )
        yield PatternError, lambda mask, bias: sparse_attention(q, q, q, mask, bias=bias), [(mask, mask.T)]
        yield (
            PatternError,
            lambda mask, bias: sparse_attention(q, q, q, mask, bias=bias),
            [(mask, mask.asformat("coo"))],
        )
        yield PatternError, lambda mask, bias: sparse_attention(q, q, q, mask, bias=bias), [(mask, other)]


def attention_by_the_names_of_jax():
    mask = jsparse.pattern.causal(11)[:, :9]
    q, k, v = np.ones((2, 11, 4, 5), np.float32), np.ones((2, 9, 4, 5), np.float32), np.ones((2, 9, 4, 5), np.float32)
    yield ShapeError, lambda: dot_product_attention(q[0, :, 0], k[0, :, 0], v[0, :, 0], mask=mask)
    yield ShapeError, lambda: dot_product_attention(q[:1], k, v, mask=mask)
    yield ShapeError, lambda: dot_product_attention(q, k[..., :2], v, mask=mask)
    yield ShapeError, lambda: dot_product_attention(q, k, v[:, 1:], mask=mask)
    yield ShapeError, lambda: dot_product_attention(q[:, :, :3], k[:, :, :2], v[:, :, :2], mask=mask)
    yield ShapeError, lambda: dot_product_attention(q[:, 1:], k, v, mask=mask)
    biases = [np.zeros((11, 7), np.float32), np.zeros((3, 1, 1, 1, 1), np.float32)]
    yield ShapeError, lambda bias: dot_product_attention(q, k, v, bias, mask), biases
    bias = jsparse.SparseTensor(np.ones(mask.nse, np.float32), mask)
    yield ShapeError, lambda: dot_product_attention(q, k, v, bias, jsparse.pattern.full((11, 9)))
    yield ShapeError, lambda: dot_product_attention(q, k, v, bias)
    masks = jsparse.asarray(np.ones((4, 11, 9))).pattern
    yield ShapeError, lambda: dot_product_attention(q, k[:, :, :2], v[:, :, :2], mask=masks)


def attention_of_flax():
    nnx = pytest.importorskip("flax.nnx")
    mask, x = jsparse.pattern.window(12, 2), np.ones((2, 12, 16), np.float32)

    def layer(attention_fn):
        return nnx.MultiHeadAttention(4, 16, decode=False, attention_fn=attention_fn, rngs=nnx.Rngs(0))

    own = layer(jsparse.attention_fn(mask))
    yield ShapeError, lambda: layer(jsparse.attention_fn())(x)
    yield ShapeError, lambda: own(x, mask=mask)
    yield ShapeError, lambda: jsparse.attention_fn(np.ones((12, 12), bool))
    yield ShapeError, lambda: own(x[:, 1:])
    yield ShapeError, lambda: own(x, mask=np.ones((2, 1, 12, 11), bool))
    yield ShapeError, lambda: jsparse.attention_fn(mask)(*(jnp.ones((12, 2, 3)),) * 3, dropout_rate=0.1)
