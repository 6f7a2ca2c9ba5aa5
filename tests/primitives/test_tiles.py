"""Chains of operations on the tiles of a static pattern: values, gradients, NaN, and when tiles are used."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from backends import calls_of_ours

import jsparse
from jsparse import NotYetSupportedError
from jsparse.primitives.portable.summed import CPU
from jsparse.primitives.portable.tiles import SIDE, tiling_of

RNG = np.random.default_rng(0)


def scattered(rows, columns, density, format="csr"):
    """Entries in some tiles; some rows and tile rows have none."""
    stored = RNG.random((rows, columns)) < density
    stored[rows // 3 : rows // 3 + SIDE] = False
    stored[:, -5:] = False
    return jsparse.asarray(stored.astype(np.float32), format=format).pattern


PATTERNS = {
    "window and a global token": jsparse.pattern.window(150, 9) | jsparse.pattern.global_(150, 1),
    "causal, runs": jsparse.pattern.causal(140, before=70),
    "whole causal": jsparse.pattern.causal(190),
    "scattered": scattered(170, 170, 0.1),
    "scattered in columns": scattered(130, 130, 0.1, "csc"),
    "scattered in coo": scattered(130, 130, 0.1, "coo"),
    "few rows": scattered(200, 200, 0.05, "dcsr"),
    "one tile": jsparse.pattern.causal(7),
}


def dense(pattern):
    mask = np.zeros(pattern.shape, bool)
    mask[tuple(pattern.to_coords())] = True
    return mask


@pytest.mark.parametrize("name", PATTERNS)
def test_tiles_hold_the_entries(name):
    pattern = PATTERNS[name]
    tiling = tiling_of(pattern)
    rows, columns = tiling.counts
    found = np.zeros((rows * SIDE, columns * SIDE), int)
    masks = np.unpackbits(tiling.masks, axis=-1).reshape(-1, SIDE, SIDE)
    for bucket in tiling.buckets:
        for row, its_columns, its_masks in zip(bucket.rows, bucket.columns, bucket.masks, strict=True):
            for column, mask in zip(its_columns, its_masks, strict=True):
                found[row * SIDE : (row + 1) * SIDE, column * SIDE : (column + 1) * SIDE] += masks[mask]
    wanted = np.zeros_like(found)
    wanted[: pattern.shape[0], : pattern.shape[1]] = dense(pattern)
    np.testing.assert_array_equal(found, wanted)
    assert len({tuple(mask.ravel()) for mask in masks}) == len(masks)


def test_what_has_no_tiles():
    assert tiling_of(jsparse.asarray(np.zeros((5, 5))).pattern) is None
    assert tiling_of(jsparse.random(jax.random.key(0), (5, 5, 5), density=0.5).pattern) is None
    assert tiling_of(jsparse.eye(10_000, format="csr").pattern) is None  # its tiles are nearly empty


def attend_by_dense(q, k, v, mask):
    wide = jnp.promote_types(q.dtype, jnp.float32)
    q, k, v = (x.astype(wide) for x in (q, k, v))
    scores = jnp.einsum("...id,...jd->...ij", q, k, precision="highest") / np.sqrt(q.shape[-1])
    largest = jax.lax.stop_gradient(jnp.where(mask, scores, -1e30).max(-1, keepdims=True))
    weights = jnp.where(mask, jnp.exp(jnp.where(mask, scores - largest, 0)), 0)
    sums = weights.sum(-1, keepdims=True)
    return jnp.where(sums > 0, weights / jnp.where(sums > 0, sums, 1), 0) @ v


def operands(pattern, dtype, lead=(2,), features=8):
    rng = np.random.default_rng(1)
    sizes = (pattern.shape[0], pattern.shape[1], pattern.shape[1])
    return [jnp.asarray(rng.normal(size=(*lead, n, features)), dtype) for n in sizes]


def by_tiles(function, *arguments):
    """Call a function by tiles, and make sure that its program has them."""
    with jsparse.config(backend="xla", tiles="on"):
        program = jax.jit(function).lower(*arguments)
    assert f"x{SIDE}x{SIDE}xi1>" in program.as_text()
    return program.compile()(*arguments)


NARROW = ("window and a global token", "scattered")


@pytest.mark.parametrize(("name", "dtype"), [*((n, "float32") for n in PATTERNS), *((n, "bfloat16") for n in NARROW)])
def test_attention_and_its_gradients(name, dtype):
    pattern, tolerance = PATTERNS[name], 1e-5 if dtype == "float32" else 2e-2
    mask, (q, k, v) = dense(pattern), operands(PATTERNS[name], dtype)
    attend = lambda q, k, v: jsparse.sparse_attention(q, k, v, pattern)  # noqa: E731
    found, wanted = by_tiles(attend, q, k, v), attend_by_dense(q, k, v, mask)
    assert found.dtype == dtype
    np.testing.assert_allclose(found.astype("float32"), wanted, rtol=tolerance, atol=tolerance)

    def loss(attend, *operands):
        return (attend(*operands) * jnp.cos(jnp.arange(operands[2].shape[-1]))).sum().astype("float32")

    slopes = by_tiles(jax.grad(lambda *x: loss(attend, *x), (0, 1, 2)), q, k, v)
    expected = jax.grad(lambda *x: loss(lambda *y: attend_by_dense(*y, mask), *x), (0, 1, 2))(q, k, v)
    for one, other in zip(slopes, expected, strict=True):
        scale = float(jnp.abs(other.astype("float32")).max())
        np.testing.assert_allclose(one.astype("float32"), other.astype("float32"), atol=tolerance * scale, rtol=0)


def test_other_layouts_and_transformations():
    pattern = PATTERNS["scattered"]
    mask = dense(pattern)
    q, k, v = operands(pattern, "float32", lead=(3, 2))
    attend = lambda q, k, v: jsparse.sparse_attention(q, k, v, pattern)  # noqa: E731
    wanted = attend_by_dense(q, k, v, mask)
    np.testing.assert_allclose(by_tiles(jax.vmap(attend), q, k, v), wanted, rtol=1e-5, atol=1e-5)
    last = lambda q, k, v: jsparse.dot_product_attention(q, k, v, mask=pattern)  # noqa: E731  (batch, length, heads, d)
    found = by_tiles(last, *(jnp.swapaxes(x, 1, 2) for x in (q, k, v)))
    np.testing.assert_allclose(jnp.swapaxes(found, 1, 2), wanted, rtol=1e-5, atol=1e-5)
    tangents = (jnp.cos(q), jnp.sin(k), v**2)
    _, slope = by_tiles(lambda *x: jax.jvp(attend, x, tangents), q, k, v)
    _, expected = jax.jvp(lambda *x: attend_by_dense(*x, mask), (q, k, v), tangents)
    np.testing.assert_allclose(slope, expected, rtol=1e-4, atol=1e-4)
    second = lambda f: jax.grad(lambda q: (jax.grad(lambda q: (f(q, k, v) ** 2).sum())(q) * k).sum())  # noqa: E731
    expected = second(lambda *x: attend_by_dense(*x, mask))(q)
    np.testing.assert_allclose(by_tiles(second(attend), q), expected, rtol=1e-3, atol=1e-4)


def test_a_graph_layer():
    pattern = PATTERNS["scattered"]
    x, kernel = RNG.normal(size=(170, 12)).astype("float32"), RNG.normal(size=(12, 5)).astype("float32")
    matrix = dense(pattern) + np.eye(170, dtype="float32")
    scale = 1 / np.sqrt(matrix.sum(1, keepdims=True))
    found = by_tiles(lambda x, kernel: jsparse.nn.gcn_conv(pattern, x, kernel), x, kernel)
    np.testing.assert_allclose(found, scale * (matrix @ (scale * x)) @ kernel, rtol=1e-4, atol=1e-5)


BAD = [("query", np.nan), ("key", np.nan), ("key", -np.inf), ("value", np.nan), ("value", np.inf)]


@pytest.mark.parametrize(("where", "bad"), BAD)
def test_bad_numbers_reach_no_further_than_entry_by_entry(where, bad):
    pattern = PATTERNS["window and a global token"]
    arrays = dict(zip(("query", "key", "value"), operands(pattern, "float32"), strict=True))
    arrays[where] = arrays[where].at[1, 40, 3].set(bad)
    attend = lambda q, k, v: jsparse.sparse_attention(q, k, v, pattern)  # noqa: E731
    gradient = jax.grad(lambda *x: (attend(*x) * jnp.cos(x[0])).sum(), (0, 1, 2))
    for function in (attend, gradient):
        with jsparse.config(backend="xla", tiles="off"):
            wanted = jax.jit(function)(*arrays.values())
        found = by_tiles(function, *arrays.values())
        for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
            np.testing.assert_array_equal(jnp.isnan(one), jnp.isnan(other))
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
        assert not jnp.isnan(jax.tree.leaves(found)[0][1, 100:]).any()


def test_chains_without_rules_go_entry_by_entry():
    """Values of entries as an operand or as a result, integers, and dynamic patterns."""
    pattern = PATTERNS["scattered"]
    q, k, v = operands(pattern, "float32")
    bias = jsparse.SparseTensor(jnp.asarray(RNG.normal(size=pattern.nse), "float32"), pattern)
    weights = lambda q, k: jsparse.fuse(lambda q, k: jsparse.softmax(bias * (q @ k.T)))(q, k).values  # noqa: E731
    ints = lambda x: jsparse.fuse(lambda x: bias.astype("int32") @ (bias.astype("int32") @ x))(x)  # noqa: E731
    data = jsparse.SparseTensor(jnp.ones(pattern.nse), pattern).dynamic()
    dynamic = lambda q, k, v: jsparse.sparse_attention(q, k, v, data.pattern)  # noqa: E731
    biased = lambda q, k, v: jsparse.sparse_attention(q, k, v, bias)  # noqa: E731
    cases = [(weights, (q[0], k[0])), (ints, (jnp.arange(170),)), (dynamic, (q, k, v)), (biased, (q, k, v))]
    for function, arguments in cases:
        wanted = jax.jit(function)(*arguments)
        with jsparse.config(backend="xla", tiles="on"):
            np.testing.assert_allclose(jax.jit(function)(*arguments), wanted, rtol=1e-4, atol=1e-5)


def test_tiles_are_used_where_they_pay():
    """On a CPU, the price decides. On other platforms, they are used if the entries would be too large as constants."""
    window, few = jsparse.pattern.causal(512, before=100), scattered(512, 512, 0.1)
    assert tiling_of(window).pays(CPU)
    assert not tiling_of(few).pays(CPU)

    def has_tiles(pattern, platform, **settings):
        with jsparse.config(**settings):
            arrays = operands(pattern, "float32")
            traced = jax.jit(lambda *x: jsparse.sparse_attention(*x, pattern)).trace(*arrays)
            text = traced.lower(lowering_platforms=(platform,)).as_text()
        assert calls_of_ours(text) == (settings.get("backend") is None and platform == "cpu")
        return f"x{SIDE}x{SIDE}xi1>" in text

    assert has_tiles(window, "cpu", backend="xla")
    assert not has_tiles(window, "cpu", backend="xla", tiles="off")
    assert not has_tiles(window, "cpu")
    assert not has_tiles(few, "cpu", backend="xla")
    assert has_tiles(few, "cpu", backend="xla", tiles="on")
    assert not has_tiles(window, "tpu")
    assert has_tiles(window, "tpu", tiles="on")
    large = jsparse.pattern.causal(2048, before=200)
    assert has_tiles(large, "tpu")
    with pytest.raises(NotYetSupportedError, match="at most 1,048,576 bytes"):
        has_tiles(large, "tpu", tiles="off")
    many = jsparse.asarray((RNG.random((3072, 3072)) < 0.1).astype("float32")).pattern  # each tile has its own mask
    with pytest.raises(NotYetSupportedError, match=r"at most 1,048,576 bytes"):
        has_tiles(many, "tpu")
