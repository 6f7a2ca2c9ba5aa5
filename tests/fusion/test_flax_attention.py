"""`attention_fn` in Flax's attention layers, against the same layers with dense masks."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse
from jsparse import NotYetSupportedError

nnx = pytest.importorskip("flax.nnx")
linen = pytest.importorskip("flax.linen")

LENGTH, HEADS, FEATURES = 12, 4, 16
RNG = np.random.default_rng(0)
X = RNG.normal(size=(2, LENGTH, FEATURES)).astype(np.float32)
PATTERN = jsparse.pattern.window(LENGTH, 2) | jsparse.pattern.global_(LENGTH, 1)
DENSE = np.zeros((1, 1, LENGTH, LENGTH), bool)
DENSE[0, 0][tuple(PATTERN.to_coords())] = True
PADDING = np.arange(LENGTH) < np.array([[9], [12]])
KEYS = (np.ones((2, 1, LENGTH, 1)) * PADDING[:, None, None]).astype(bool)


def layers(**options):
    """The same layer with a sparse and with a dense mask."""
    made = [
        nnx.MultiHeadAttention(HEADS, FEATURES, decode=False, rngs=nnx.Rngs(0), **extra, **options)
        for extra in ({"attention_fn": jsparse.attention_fn(PATTERN)}, {})
    ]
    return made[0], made[1]


def supports(name):
    return name in inspect.signature(nnx.MultiHeadAttention.__init__).parameters


@pytest.mark.parametrize("options", [{}, {"num_kv_heads": 2}, {"normalize_qk": True}], ids=str)
def test_nnx(options):
    if not all(map(supports, options)):
        pytest.skip("this Flax has no such option")
    sparse, dense = layers(**options)
    np.testing.assert_allclose(nnx.jit(sparse)(X), dense(X, mask=DENSE), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(sparse(X, mask=KEYS), dense(X, mask=DENSE & KEYS), rtol=1e-5, atol=1e-5)


def test_gradients_of_nnx():
    sparse, dense = layers()
    weights = jnp.cos(jnp.arange(float(X.size))).reshape(X.shape)
    found = nnx.jit(nnx.grad(lambda layer: (layer(X, mask=KEYS) * weights).sum()))(sparse)
    wanted = nnx.grad(lambda layer: (layer(X, mask=DENSE & KEYS) * weights).sum())(dense)
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True)
    for got, want in pairs:
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_linen():
    sparse = linen.MultiHeadDotProductAttention(num_heads=HEADS, attention_fn=jsparse.attention_fn(PATTERN))
    dense = linen.MultiHeadDotProductAttention(num_heads=HEADS)
    variables = sparse.init(jax.random.key(0), X)
    found = jax.jit(lambda x: sparse.apply(variables, x, mask=KEYS))(X)
    np.testing.assert_allclose(found, dense.apply(variables, X, mask=DENSE & KEYS), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("broadcast", [True, False])
def test_dropout(broadcast):
    options = {"dropout_rate": 0.5, "broadcast_dropout": broadcast}
    layer = linen.MultiHeadDotProductAttention(num_heads=HEADS, attention_fn=jsparse.attention_fn(PATTERN), **options)
    variables = layer.init(jax.random.key(0), X, deterministic=True)
    apply = jax.jit(lambda key: layer.apply(variables, X, deterministic=False, rngs={"dropout": key}))
    still = layer.apply(variables, X, deterministic=True)
    runs = jnp.stack([apply(key) for key in jax.random.split(jax.random.key(1), 400)])
    np.testing.assert_array_equal(runs[0], apply(jax.random.split(jax.random.key(1), 400)[0]))
    assert float(runs.std(0).min()) > 0
    np.testing.assert_allclose(runs.mean(0), still, atol=6 * float(runs.std(0).max()) / 20)
    # The same weights are dropped for all heads and batches, or not.
    one = jnp.broadcast_to(X[:1, :, None, :4], (2, LENGTH, HEADS, 4))
    call = jsparse.attention_fn(PATTERN)
    out = call(one, one, one, dropout_rng=jax.random.key(2), dropout_rate=0.5, broadcast_dropout=broadcast)
    alike = np.isclose(out[0, :, 0], out[1, :, 1]).all()
    assert alike == broadcast


def test_a_mask_for_each_call():
    attend = jsparse.attention_fn(scale=0.5)
    layer = nnx.MultiHeadAttention(HEADS, FEATURES, decode=False, attention_fn=attend, rngs=nnx.Rngs(0))
    other = nnx.MultiHeadAttention(
        HEADS, FEATURES, decode=False, attention_fn=jsparse.attention_fn(PATTERN, scale=0.5), rngs=nnx.Rngs(0)
    )
    dynamic = jsparse.SparseTensor(np.ones(PATTERN.nse, np.float32), PATTERN).dynamic(nse=PATTERN.nse + 3)
    found = nnx.jit(lambda layer, x, mask: layer(x, mask=mask))(layer, X, dynamic)
    np.testing.assert_allclose(found, other(X), rtol=1e-5, atol=1e-6)


def test_functions_of_one_pattern_are_equal():
    again = jsparse.pattern.window(LENGTH, 2) | jsparse.pattern.global_(LENGTH, 1)
    assert jsparse.attention_fn(PATTERN) == jsparse.attention_fn(jsparse.SparseTensor(np.ones(again.nse), again))
    assert hash(jsparse.attention_fn(PATTERN)) == hash(jsparse.attention_fn(again))
    assert jsparse.attention_fn(PATTERN) != jsparse.attention_fn(PATTERN, scale=1.0)


def test_dtypes_are_those_that_the_layer_asks_for():
    sparse, _ = layers(dtype=jnp.bfloat16)
    assert sparse(X).dtype == jnp.bfloat16
    q = jnp.ones((LENGTH, HEADS, 4), jnp.float16)
    assert jsparse.attention_fn(PATTERN)(q, q.astype(jnp.float32), q).dtype == jnp.float32


def test_weights_are_not_sown():
    sparse, _ = layers()
    if "sow_weights" in inspect.signature(sparse.__call__).parameters:
        with pytest.raises(NotYetSupportedError, match="sow_weights=True"):
            sparse(X, sow_weights=True)
