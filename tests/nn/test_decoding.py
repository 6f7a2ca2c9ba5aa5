"""Decoding token by token gives what one call for the whole sequence does: our layers, Flax's, and the functions."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse
from jsparse import ShapeError, SparseTensor
from jsparse.nn import KVCache, Projection, attention_step, multi_head_attention
from jsparse.ops.attention import decoding

nnx = pytest.importorskip("flax.nnx")
linen = pytest.importorskip("flax.linen")

import jsparse.linen  # noqa: E402  # after importorskip
import jsparse.nnx  # noqa: E402

N, HEADS, FEATURES, BATCH = 20, 4, 16, 2
MASK = jsparse.pattern.causal(N, before=4) | (jsparse.pattern.global_(N, 2) & jsparse.pattern.causal(N))
RUNS = jsparse.pattern.causal(N, before=6)
X = jax.random.normal(jax.random.key(0), (BATCH, N, FEATURES))


def close(found, wanted, tolerance=1e-5):
    np.testing.assert_allclose(np.asarray(found, np.float32), np.asarray(wanted, np.float32), tolerance, tolerance)


def decoded(step, layer, x):
    return jnp.concatenate([step(layer, x[..., t : t + 1, :]) for t in range(x.shape[-2])], axis=-2)


@nnx.jit
def step(layer, x):
    return layer(x, decode=True)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("mask", [MASK, RUNS], ids=["global", "runs"])
@pytest.mark.parametrize("options", [{}, {"num_kv_heads": 2, "max_distance": 3}, {"dropout_rate": 0.5}], ids=str)
def test_encoders_of_nnx(mask, options):
    encoder = jsparse.nnx.TransformerEncoder(mask, 2, HEADS, FEATURES, rngs=nnx.Rngs(0), **options)
    encoder.eval()
    wanted = encoder(X)
    encoder.init_cache(X.shape)
    close(decoded(step, encoder, X), wanted)
    encoder.init_cache(X.shape)  # from the start again
    close(decoded(step, encoder, X[:, :7]), wanted[:, :7])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("mask", [MASK, RUNS], ids=["global", "runs"])
@pytest.mark.parametrize("options", [{}, {"num_kv_heads": 2, "max_distance": 3}], ids=str)
@pytest.mark.parametrize("lengths", [(7, 1, 1), (1, 12, 7), (20,)], ids=str)
def test_a_prompt_in_one_call(mask, options, lengths):
    """Parts of any lengths, one after the other, are positions of the whole sequence, eager and in jit."""
    encoder = jsparse.nnx.TransformerEncoder(mask, 2, HEADS, FEATURES, rngs=nnx.Rngs(0), **options)
    wanted = encoder(X)
    for call in (step, type(encoder).__call__) if len(lengths) == 1 else (step,):
        encoder.init_cache(X.shape)
        first = 0
        for length in lengths:
            part = slice(first, first + length)
            found = call(encoder, X[:, part]) if call is step else encoder(X[:, part], decode=True)
            close(found, wanted[:, part])
            first += length
        assert int(encoder.blocks[0].attention.cache_index[...]) == first


@pytest.mark.sampled(2)
@pytest.mark.parametrize("heads", [False, True])
@pytest.mark.parametrize("dynamic", [False, True])
def test_prompts_on_masks_of_all_kinds(heads, dynamic):
    shape = (HEADS, N, N) if heads else (N, N)
    pattern = jsparse.pattern.from_mask(np.tril(np.random.default_rng(0).random(shape) < 0.5))
    given = projections(HEADS)
    wanted = multi_head_attention(X, X, pattern, **given)
    mask = SparseTensor(jnp.ones(pattern.nse), pattern).dynamic(pattern.nse + 5).pattern if dynamic else pattern
    run = jax.jit(lambda x, cache, mask=mask: attention_step(x, cache, mask, **given))
    found, cache = run(X[:, :13], KVCache.empty((BATCH,), N, HEADS, 4))
    close(found, wanted[:, :13])
    found, cache = run(X[:, 13:], cache)
    close(found, wanted[:, 13:])
    assert int(cache.index) == N


def test_a_prompt_that_is_padded():
    """Later keys are not seen: with the index set back, a step writes over the padding."""
    given, cache = projections(HEADS), KVCache.empty((BATCH,), N, HEADS, 4)
    wanted = multi_head_attention(X, X, MASK, **given)
    padded = X[:, :16].at[:, 10:].set(1e3)
    found, cache = attention_step(padded, cache, MASK, **given)
    close(found[:, :10], wanted[:, :10])
    found, _ = attention_step(X[:, 10:11], dataclasses.replace(cache, index=jnp.asarray(10)), MASK, **given)
    close(found, wanted[:, 10:11])


def test_the_rows_of_a_prompt_have_room_for_their_entries_alone():
    """The capacity follows from the mask's rows, not from its longest one: the mask has a row of all keys."""
    mask = jsparse.pattern.causal(400, before=3) | (jsparse.pattern.global_(400, [399]) & jsparse.pattern.causal(400))
    rows = jax.eval_shape(lambda t: decoding.rows_of(mask, t, 100), jnp.asarray(0))
    longest = max(np.convolve(np.bincount(mask.rows()[0], minlength=400), np.ones(100, int), "valid"))
    assert (rows.shape, rows.nse) == ((100, 400), longest)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("mask", [MASK, RUNS], ids=["global", "runs"])
@pytest.mark.parametrize("options", [{}, {"num_kv_heads": 2, "max_distance": 3}], ids=str)
def test_sequences_that_are_shorter_than_the_mask(mask, options):
    """The leading part of a causal mask gives the first positions of the whole sequence, with gradients."""
    layer = jsparse.nnx.SparseAttention(mask, HEADS, FEATURES, rngs=nnx.Rngs(0), **options)
    other = jsparse.nnx.SparseAttention(mask[:9, :9], HEADS, FEATURES, rngs=nnx.Rngs(0), **options)
    wanted = layer(X)[:, :9]
    for call in (layer, nnx.jit(lambda x: layer(x))):
        close(call(X[:, :9]), wanted)
    slopes = [jax.grad(lambda x, of=of: (of(x) ** 2).sum())(X[:, :9]) for of in (layer, other)]
    close(*slopes)
    dynamic = SparseTensor(jnp.ones(mask.nse), mask).dynamic(mask.nse + 5)
    close(nnx.jit(lambda layer, x, mask: layer(x, mask=mask))(layer, X[:, :9], dynamic), wanted)
    of_linen = jsparse.linen.SparseAttention(mask, HEADS, **options)
    variables = of_linen.init(jax.random.key(0), X)
    close(of_linen.apply(variables, X[:, :9]), of_linen.apply(variables, X)[:, :9])


def test_shorter_queries_and_shorter_contexts():
    mask = jsparse.pattern.from_mask(np.random.default_rng(0).random((HEADS, N, 15)) < 0.7)
    layer = jsparse.nnx.SparseAttention(mask, HEADS, FEATURES, rngs=nnx.Rngs(0))
    close(layer(X[:, :6], X[:, :15]), layer(X, X[:, :15])[:, :6])
    part = jsparse.nnx.SparseAttention(mask[:, :, :11], HEADS, FEATURES, rngs=nnx.Rngs(0))
    close(layer(X, X[:, :11]), part(X, X[:, :11]))


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float32])
def test_narrow_floats(dtype):
    """A step in bfloat16 sums in float32, as the whole layer does; a cache in bfloat16 is rounded once."""
    layer = jsparse.nnx.SparseAttention(MASK, HEADS, FEATURES, dtype=dtype, rngs=nnx.Rngs(0))
    wanted = layer(X)
    layer.init_cache(X.shape)
    assert layer.cached_key.dtype == dtype
    close(decoded(step, layer, X), wanted, 2e-2 if dtype == jnp.bfloat16 else 1e-5)
    layer.init_cache(X.shape, jnp.bfloat16)
    close(decoded(step, layer, X), wanted, 3e-2)


@pytest.mark.parametrize("options", [{}, {"num_kv_heads": 2, "max_distance": 3}], ids=str)
def test_encoders_of_linen(options):
    layer = jsparse.linen.TransformerEncoder(MASK, 2, HEADS, decode=True, **options)
    variables = layer.init(jax.random.key(0), X)
    whole = jsparse.linen.TransformerEncoder(MASK, 2, HEADS, **options)
    wanted = whole.apply({"params": variables["params"]}, X)
    of_step = jax.jit(lambda variables, x: layer.apply(variables, x, mutable=["cache"]))
    for t in range(N):
        found, changed = of_step(variables, X[:, t : t + 1])
        variables = {**variables, **changed}
        close(found, wanted[:, t : t + 1])


@pytest.mark.parametrize("dynamic", [False, True])
def test_attention_of_nnx(dynamic):
    held = SparseTensor(jnp.ones(MASK.nse), MASK).dynamic(MASK.nse + 5).pattern if dynamic else MASK
    attend = jsparse.attention_fn(held)
    layer = nnx.MultiHeadAttention(HEADS, FEATURES, decode=False, attention_fn=attend, rngs=nnx.Rngs(0))
    wanted = layer(X)
    layer.init_cache(X.shape)
    close(decoded(step, layer, X), wanted)


def test_attention_of_nnx_with_a_mask_of_padding():
    """The padding of one sequence does not change which row the others see, nor hides it the row itself."""
    attend = jsparse.attention_fn(MASK)
    layer = nnx.MultiHeadAttention(HEADS, FEATURES, decode=False, attention_fn=attend, rngs=nnx.Rngs(0))
    shown = np.arange(N) < np.array([[N], [5]])
    wanted = layer(X, mask=jnp.asarray(shown[:, None, None, :]))
    layer.init_cache(X.shape)
    padded = nnx.jit(lambda layer, x, mask: layer(x, mask=mask, decode=True))
    for t in range(N):
        close(padded(layer, X[:, t : t + 1], shown[:, None, None, :]), wanted[:, t : t + 1])


def test_attention_of_linen():
    options = {"num_heads": HEADS, "attention_fn": jsparse.attention_fn(MASK)}
    layer = linen.MultiHeadDotProductAttention(decode=True, **options)
    variables = layer.init(jax.random.key(0), X)
    wanted = linen.MultiHeadDotProductAttention(**options).apply({"params": variables["params"]}, X)
    of_step = jax.jit(lambda variables, x: layer.apply(variables, x, mutable=["cache"]))
    for t in range(N):
        found, changed = of_step(variables, X[:, t : t + 1])
        variables = {**variables, **changed}
        close(found, wanted[:, t : t + 1])


def projections(kv_heads):
    keys = jax.random.split(jax.random.key(1), 4)
    shapes = {"query": (FEATURES, HEADS, 4), "key": (FEATURES, kv_heads, 4), "value": (FEATURES, kv_heads, 4)}
    made = {name: Projection(jax.random.normal(k, s) / 4) for k, (name, s) in zip(keys, shapes.items(), strict=False)}
    return made | {"out": Projection(jax.random.normal(keys[3], (HEADS, 4, FEATURES)) / 4)}


@pytest.mark.parametrize("kv_heads", [HEADS, 2])
def test_a_mask_for_each_head_in_a_scan(kv_heads):
    stacked = np.tril(np.random.default_rng(0).random((HEADS, N, N)) < 0.5)
    mask, given = jsparse.pattern.from_mask(stacked), projections(kv_heads)
    wanted = multi_head_attention(X, X, mask, **given)

    def one(cache, x):
        found, cache = attention_step(x, cache, mask, **given)
        return cache, found

    empty = KVCache.empty((BATCH,), N, kv_heads, 4)
    cache, found = jax.jit(lambda x: jax.lax.scan(one, empty, jnp.moveaxis(x, 1, 0)[:, :, None]))(X)
    close(jnp.moveaxis(found[:, :, 0], 0, 1), wanted)
    assert int(cache.index) == N


def test_sequences_at_different_positions():
    """`vmap` over caches: each sequence has an index of its own."""
    given = projections(HEADS)
    wanted = multi_head_attention(X, X, MASK, **given)
    caches = []
    for number, start in enumerate((3, 11)):
        cache = KVCache.empty((), N, HEADS, 4)
        for t in range(start):
            _, cache = attention_step(X[number, t : t + 1], cache, MASK, **given)
        caches.append(cache)
    both = jax.tree.map(lambda *leaves: jnp.stack(leaves), *caches)
    x = jnp.stack([X[0, 3:4], X[1, 11:12]])
    found, _ = jax.jit(jax.vmap(lambda x, cache: attention_step(x, cache, MASK, **given)))(x, both)
    close(found, jnp.stack([wanted[0, 3:4], wanted[1, 11:12]]))


def test_after_the_last_position():
    layer = jsparse.nnx.SparseAttention(MASK, HEADS, FEATURES, rngs=nnx.Rngs(0))
    layer.init_cache(X.shape)
    decoded(step, layer, X)
    with pytest.raises(ShapeError, match="at most 20 steps for a KV cache of length 20"):
        layer(X[:, :1], decode=True)
    assert jnp.isnan(step(layer, X[:, :1])).all()


def test_a_step_moves_no_whole_cache():
    """One row of the mask reads few keys, so keys and values are not transposed for the kernel."""
    q, k = jnp.ones((1, 1, HEADS, 4)), jnp.ones((1, 64, HEADS, 4))
    mask = jsparse.pattern.causal(64, before=5)
    lowered = jax.jit(lambda q, k, t: jsparse.dot_product_attention(q, k, k, mask=mask[[t]])).lower(q, k, 3).as_text()
    assert not [line for line in lowered.splitlines() if "stablehlo.transpose" in line and "64" in line]
    whole = jax.jit(lambda k: jsparse.dot_product_attention(k, k, k, mask=mask)).lower(k).as_text()
    assert [line for line in whole.splitlines() if "stablehlo.transpose" in line and "64" in line]


@pytest.mark.parametrize("batch", [1, 2])
def test_a_loop_writes_its_cache_in_place(batch):
    mask, (*inner, last) = jsparse.pattern.causal(64, before=5), [Projection(jnp.ones((8, HEADS, 4)))] * 4
    last = Projection(jnp.ones((HEADS, 4, 8)))

    def step(cache, x):
        found, cache = attention_step(x, cache, mask, query=inner[0], key=inner[1], value=inner[2], out=last)
        return cache, found

    decode = jax.jit(lambda cache, xs: jax.lax.scan(step, cache, xs), donate_argnums=0)
    text = decode.lower(KVCache.empty((batch,), 64, HEADS, 4), jnp.ones((10, batch, 1, 8))).compile().as_text()
    (body,) = (
        part for part in text.split("\n\n") if "jsparse" in part and "dynamic-update-slice" in part and "dot" in part
    )
    assert f"f32[{batch},64,4,4]" in body
    assert not [line for line in body.splitlines() if " copy(" in line and "64,4,4]" in line]


def test_wrong_input():
    layer = jsparse.nnx.SparseAttention(MASK, HEADS, FEATURES, rngs=nnx.Rngs(0), decode=True)
    layer.init_cache(X.shape)
    layer(X[:, :19])
    with pytest.raises(ShapeError, match=r"19 positions are written already, and x \(2, 2, 16\) has 2"):
        layer(X[:, :2])
    assert jnp.isnan(step(layer, X[:, :2])).all()
    layer.init_cache(X.shape)
