"""Linen's layers with sparse weights and masks: equal to those of NNX, and to dense formulas."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

pytest.importorskip("flax")
from flax import nnx

import jsparse
import jsparse.linen
import jsparse.nnx

LENGTH, WIDTH, HEADS = 12, 8, 4
MASK = jsparse.pattern.window(LENGTH, 3) | jsparse.pattern.global_(LENGTH, 1)
X = np.random.default_rng(0).standard_normal((2, LENGTH, WIDTH)).astype(np.float32)


def arrays(module: nnx.Module) -> dict[str, Any]:
    """The parameters of an NNX module as nested dictionaries, as Linen has them."""

    def named(tree: Any) -> Any:
        return {str(k): named(v) for k, v in tree.items()} if hasattr(tree, "items") else tree

    return named(nnx.to_pure_dict(nnx.state(module, nnx.Param)))


def as_linen(tree: dict[str, Any]) -> dict[str, Any]:
    """The same with Linen's names of blocks."""
    blocks = tree.pop("blocks", {})
    return tree | {f"blocks_{number}": block for number, block in blocks.items()}


ATTENTION = {"num_kv_heads": 2, "max_distance": 2}


def test_attention_is_that_of_nnx() -> None:
    layer = jsparse.nnx.SparseAttention(MASK, HEADS, WIDTH, 16, 6, **ATTENTION, rngs=nnx.Rngs(0))
    other = jsparse.linen.SparseAttention(MASK, HEADS, 16, 6, **ATTENTION)
    layer.relative[...] = np.random.default_rng(1).standard_normal((HEADS, 5))
    parameters, made = arrays(layer), other.init(jax.random.key(0), X)["params"]
    assert jax.tree.map(jnp.shape, made) == jax.tree.map(jnp.shape, parameters)
    np.testing.assert_array_equal(other.apply({"params": parameters}, X), layer(X))
    context = np.random.default_rng(2).standard_normal((2, 5, WIDTH)).astype(np.float32)
    cross = jsparse.pattern.full((LENGTH, 5))
    np.testing.assert_array_equal(
        other.apply({"params": parameters}, X, context, mask=cross), layer(X, context, mask=cross)
    )


@pytest.mark.parametrize("dynamic", [False, True])
def test_an_encoder_is_that_of_nnx(dynamic: bool) -> None:
    mask = jsparse.SparseTensor(np.ones(MASK.nse, np.float32), MASK).dynamic() if dynamic else MASK
    layer = jsparse.nnx.TransformerEncoder(mask, 2, HEADS, WIDTH, **ATTENTION, rngs=nnx.Rngs(0))
    other = jsparse.linen.TransformerEncoder(mask, 2, HEADS, **ATTENTION)
    parameters, made = as_linen(arrays(layer)), other.init(jax.random.key(0), X)["params"]
    assert jax.tree.map(jnp.shape, made) == jax.tree.map(jnp.shape, parameters)
    np.testing.assert_allclose(jax.jit(other.apply)({"params": parameters}, X), layer(X), rtol=1e-5, atol=1e-5)


def test_dropout_needs_a_stream_of_random_numbers() -> None:
    block = jsparse.linen.TransformerBlock(MASK, HEADS, dropout_rate=0.5)
    variables = block.init(jax.random.key(0), X)
    still = block.apply(variables, X)
    key = {"dropout": jax.random.key(1)}
    dropped = block.apply(variables, X, rngs=key)
    assert np.abs(dropped - still).max() > 0.1
    np.testing.assert_array_equal(block.apply(variables, X, rngs=key), dropped)
    np.testing.assert_array_equal(block.apply(variables, X, rngs=key, deterministic=True), still)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_attention_computes_in_its_dtype(dtype: str) -> None:
    layer = jsparse.linen.SparseAttention(MASK, HEADS, dtype=jnp.dtype(dtype))
    assert layer.apply(layer.init(jax.random.key(0), X), X).dtype == dtype


def pattern(blocks: bool) -> jsparse.Pattern:
    rng = np.random.default_rng(3)
    coords = np.stack(np.nonzero(rng.random((WIDTH, 6)) < 0.4))
    made, _ = jsparse.Pattern.from_coordinates(coords, (WIDTH, 6), "csr" if blocks else "csc")
    return made.extended([2, 3]) if blocks else made


@pytest.mark.parametrize("blocks", [False, True])
def test_a_linear_layer_is_a_product_with_the_dense_kernel(blocks: bool) -> None:
    layer = jsparse.linen.SparseLinear(pattern=pattern(blocks))
    x = np.random.default_rng(4).standard_normal((3, 2, WIDTH * (2 if blocks else 1))).astype(np.float32)
    variables = layer.init(jax.random.key(0), x)
    p = variables["params"] | {"bias": jnp.arange(18.0 if blocks else 6.0)}
    dense = jsparse.SparseTensor(p["kernel"], pattern(blocks)).todense()
    dense = dense.transpose(0, 2, 1, 3).reshape(x.shape[-1], -1) if blocks else dense
    np.testing.assert_allclose(layer.apply({"params": p}, x), x @ dense + p["bias"], rtol=1e-5, atol=1e-5)
    assert p["kernel"].shape == (pattern(blocks).nse,)


def test_training_works_on_stored_entries() -> None:
    layer, x = jsparse.linen.SparseLinear(pattern=pattern(False), use_bias=False), X[0]
    target = x @ jsparse.SparseTensor(np.ones(layer.pattern.nse, np.float32), layer.pattern).todense()
    p = layer.init(jax.random.key(0), x)
    optimizer = optax.adam(0.1)

    @jax.jit
    def step(p: Any, state: Any) -> Any:
        loss, slopes = jax.value_and_grad(lambda p: ((layer.apply(p, x) - target) ** 2).mean())(p)
        updates, state = optimizer.update(slopes, state)
        return optax.apply_updates(p, updates), state, loss

    state = optimizer.init(p)
    for _ in range(200):
        p, state, loss = step(p, state)
    assert loss < 1e-3
