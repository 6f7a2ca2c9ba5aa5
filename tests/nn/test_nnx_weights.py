"""NNX layers with sparse kernels and sparse attention: training, other patterns, states."""

import jax.numpy as jnp
import numpy as np
import pytest
from compilations import COMPILED

nnx = pytest.importorskip("flax.nnx")
optax = pytest.importorskip("optax")

import jsparse  # noqa: E402
import jsparse.nnx  # noqa: E402
from jsparse.nnx import SparseAttention, SparseLinear, TransformerBlock  # noqa: E402

RNG = np.random.default_rng(0)
X = jnp.asarray(RNG.standard_normal((16, 20)), jnp.float32)
TARGET = jnp.asarray(RNG.standard_normal((16, 6)), jnp.float32)


def mean_square(model, x=X, target=TARGET):
    return ((model(x) - target) ** 2).mean()


@pytest.mark.parametrize("dynamic", [False, True])
def test_sparse_linear_is_its_formula_and_learns(dynamic: bool) -> None:
    layer = SparseLinear(20, 6, density=0.4, dynamic=dynamic, rngs=nnx.Rngs(0))
    kernel = layer.kernel.tensor
    assert kernel.nse == round(0.4 * 20 * 6)
    np.testing.assert_allclose(layer(X), X @ kernel.todense() + layer.bias[...], rtol=1e-5, atol=1e-5)
    optimizer = nnx.Optimizer(layer, optax.adam(0.05), wrt=nnx.Param)

    @nnx.jit
    def step(layer, optimizer):
        loss, slopes = nnx.value_and_grad(mean_square)(layer)
        optimizer.update(layer, slopes)
        return loss

    losses = [float(step(layer, optimizer)) for _ in range(60)]
    assert losses[-1] < 0.5 * losses[0]
    assert layer.kernel.tensor.nse == kernel.nse


def test_variance_of_the_results_is_that_of_the_inputs() -> None:
    layer = SparseLinear(400, 300, density=0.05, rngs=nnx.Rngs(3))
    x = jnp.asarray(RNG.standard_normal((50, 400)), jnp.float32)
    assert 0.8 < float(layer(x).std()) < 1.2


def places(layer: SparseLinear) -> np.ndarray:
    """Where the kernel stores entries."""
    found = np.zeros(layer.kernel.tensor.shape, bool)
    found[tuple(np.asarray(layer.kernel.tensor.coords))] = True
    return found


def test_rewiring_keeps_the_number_of_entries_and_compiles_nothing() -> None:
    layer = SparseLinear(20, 6, density=0.3, dynamic=True, rngs=nnx.Rngs(0))
    traces = 0

    @nnx.jit
    def step(layer, scores):
        nonlocal traces
        traces += 1
        layer.rewire(scores, 5)

    for seed in range(3):
        before, stored = np.asarray(layer.kernel.tensor.todense()), places(layer)
        least = np.sort(np.abs(before[stored]))[4]
        scores = jnp.asarray(np.random.default_rng(seed).random((20, 6)), jnp.float32)
        step(layer, scores)
        after, kept = np.asarray(layer.kernel.tensor.todense()), stored & (np.abs(before) > least)
        assert places(layer).sum() == stored.sum() == layer.kernel.tensor.nse
        np.testing.assert_array_equal(after, np.where(kept, before, 0))
        candidates = np.where(kept, -1, scores)
        grown = places(layer) & ~kept
        assert candidates[grown].min() >= np.sort(candidates.ravel())[-grown.sum()]
    assert traces == 1


@pytest.mark.parametrize("jitted", [False, True])
def test_a_schedule_of_rewiring_compiles_once(jitted: bool) -> None:
    layer = SparseLinear(20, 6, density=0.3, dynamic=True, rngs=nnx.Rngs(0))
    total, scores = layer.kernel.tensor.nse, jnp.asarray(RNG.random((20, 6)), jnp.float32)
    step = nnx.jit(SparseLinear.rewire) if jitted else SparseLinear.rewire
    counts = [round(0.15 * total * (1 + np.cos(np.pi * t / 9))) for t in range(10)]  # all numbers of a cosine schedule
    assert len(set(counts)) > 6
    for number, count in enumerate(counts):
        layer.kernel.replace(layer.kernel.tensor.with_values(jnp.arange(1.0, total + 1)))
        before, stored = np.asarray(layer.kernel.tensor.todense()), places(layer)
        step(layer, scores, count)
        kept = stored & (before > count)
        np.testing.assert_array_equal(np.asarray(layer.kernel.tensor.todense()), np.where(kept, before, 0))
        candidates = np.sort(np.where(kept, -1, scores).ravel())[::-1]
        expected = kept | (np.where(kept, -1, scores) >= candidates[max(count - 1, 0)]) if count else kept
        np.testing.assert_array_equal(places(layer), expected)
        if number == 1:
            compiled = len(COMPILED)
    assert len(COMPILED) == compiled


def test_a_pruned_dense_layer() -> None:
    dense = nnx.Linear(20, 6, rngs=nnx.Rngs(1))
    kernel = jsparse.asarray(dense.kernel[...], format="csc").prune(keep=30)
    layer = SparseLinear.of(kernel, dense.bias[...])
    largest = np.abs(np.asarray(dense.kernel[...])) >= np.sort(np.abs(np.asarray(dense.kernel[...])).ravel())[-30]
    np.testing.assert_allclose(layer(X), X @ (dense.kernel[...] * largest), rtol=1e-5, atol=1e-5)


MASK = jsparse.pattern.window(12, 2) | jsparse.pattern.global_(12, 1)


def test_attention_on_a_full_mask_is_flaxs() -> None:
    sparse = SparseAttention(jsparse.pattern.full((12, 12)), 4, 8, rngs=nnx.Rngs(0))
    dense = nnx.MultiHeadAttention(4, 8, rngs=nnx.Rngs(1), decode=False)
    for name in ("query", "key", "value", "out"):
        held, of_flax = getattr(sparse, name), getattr(dense, name)
        held["kernel"][...] = of_flax.kernel[...]
        held["bias"][...] = of_flax.bias[...] = jnp.asarray(RNG.standard_normal(of_flax.bias.shape), jnp.float32)
    x, context = (jnp.asarray(RNG.standard_normal((2, 12, 8)), jnp.float32) for _ in range(2))
    np.testing.assert_allclose(sparse(x), dense(x), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(sparse(x, context), dense(x, context), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_block_trains_splits_and_merges(dynamic: bool) -> None:
    ones = jsparse.SparseTensor(jnp.ones(MASK.nse), MASK)
    mask = ones.dynamic(MASK.nse + 2) if dynamic else MASK
    block = TransformerBlock(mask, 4, 8, num_kv_heads=2, max_distance=3, dropout_rate=0.1, rngs=nnx.Rngs(0, dropout=1))
    x = jnp.asarray(RNG.standard_normal((2, 12, 8)), jnp.float32)
    target = x[:, ::-1]
    optimizer = nnx.Optimizer(block, optax.adam(0.01), wrt=nnx.Param)

    @nnx.jit
    def step(block, optimizer):
        loss, slopes = nnx.value_and_grad(mean_square)(block, x, target)
        optimizer.update(block, slopes)
        return loss

    losses = [float(step(block, optimizer)) for _ in range(40)]
    assert losses[-1] < losses[0]
    assert float(jnp.abs(block.attention.relative[...]).max()) > 0
    assert not np.allclose(block(x), block(x))  # dropout
    block.eval()
    np.testing.assert_array_equal(block(x), block(x))
    merged = nnx.merge(*nnx.split(block))
    np.testing.assert_array_equal(merged(x), block(x))
