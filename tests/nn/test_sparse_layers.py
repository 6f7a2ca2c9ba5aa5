"""Embedding bags, mixtures of experts, activations of which few are kept, blocks, pruned layers, encoders."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx
from nn.graphs import normal

import jsparse
import jsparse.linen
import jsparse.nnx

IDS = jnp.array([[1, 1, -1], [5, 20, 3], [-1, -1, 40]])


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_embedding_bag(reduction):
    table, weights = normal(1, 20, 4), normal(2, 3, 3)

    def formula(table, weights):
        first = (weights[0, 0] + weights[0, 1]) * table[1]
        second = weights[1, 0] * table[5] + weights[1, 2] * table[3]
        found = jnp.stack([first, second, 0 * table[0]])
        totals = weights[0, 0] + weights[0, 1], weights[1, 0] + weights[1, 2], 1.0
        return found / jnp.stack(totals)[:, None] if reduction == "mean" else found

    def layer(table, weights):
        return jsparse.nn.embedding_bag(table, IDS, weights, reduction=reduction)

    np.testing.assert_allclose(jax.jit(layer)(table, weights), formula(table, weights), rtol=1e-5)
    found, expected = (
        jax.jit(jax.grad(lambda *x, of=of: (of(*x) ** 2).sum(), (0, 1)))(table, weights) for of in (layer, formula)
    )
    for mine, exact in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, exact, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("weighted", [False, True])
def test_maxima_of_bags(weighted):
    table, weights = normal(1, 20, 4), normal(2, 3, 3) if weighted else jnp.ones((3, 3))

    def formula(table, weights):
        sent = weights[:, :, None] * table.at[jnp.where(IDS < 0, 20, IDS)].get(mode="fill", fill_value=0)
        most = jnp.where(((IDS >= 0) & (IDS < 20))[:, :, None], sent, -jnp.inf).max(1)
        return jnp.where(jnp.isfinite(most), most, 0)

    def layer(table, weights):
        return jsparse.nn.embedding_bag(table, IDS, weights if weighted else None, reduction="max")

    np.testing.assert_allclose(jax.jit(layer)(table, weights), formula(table, weights), rtol=1e-6)
    both = [jax.jit(jax.grad(lambda *x, of=of: (of(*x) ** 2).sum(), (0, 1)))(table, weights) for of in (layer, formula)]
    for mine, exact in list(zip(*both, strict=True))[: 1 + weighted]:
        np.testing.assert_allclose(mine, exact, rtol=1e-4, atol=1e-6)
    narrow = layer(jnp.full((20, 4), 3, jnp.float16), weights.astype(jnp.float16))
    assert narrow.dtype == jnp.float16


def test_a_single_expert_is_trained():
    logits = normal(1, 9, 3)
    probabilities = jax.nn.softmax(logits, axis=1)
    experts, weights = jsparse.nn.route(logits, 1)
    np.testing.assert_array_equal(experts[:, 0], logits.argmax(1))
    np.testing.assert_allclose(weights[:, 0], probabilities.max(1), rtol=1e-6)
    two = jsparse.nn.route(logits, 2, softmax_over="all")
    np.testing.assert_allclose(two.weights, -jnp.sort(-probabilities, axis=1)[:, :2], rtol=1e-6)
    x, up, down = normal(2, 9, 4), normal(3, 3, 4, 6), normal(4, 3, 6, 5)

    def loss(logits, over):
        routing = jsparse.nn.route(logits, 1, softmax_over=over)
        return (jsparse.nn.mixture_of_experts(x, routing, up, down) ** 2).sum()

    gradient = jax.jit(jax.grad(loss), static_argnums=1)
    assert np.abs(gradient(logits, None)).min() > 1e-6
    assert not np.any(gradient(logits, "chosen"))


@pytest.mark.parametrize("k", [1, 2])
def test_mixture_of_experts(k):
    x, logits, up, down = normal(1, 9, 4), normal(2, 9, 3), normal(3, 3, 4, 6), normal(4, 3, 6, 5)

    def formula(x, logits, up, down):
        order = jnp.argsort(-logits, axis=1)[:, :k]
        weights = jax.nn.softmax(jnp.take_along_axis(logits, order, 1), axis=1)
        hidden = jnp.tanh(jnp.einsum("tc,ecm->tem", x, up))
        of_all = jnp.einsum("tem,emf->tef", hidden, down)
        return (weights[..., None] * jnp.take_along_axis(of_all, order[..., None], 1)).sum(1)

    def layer(x, logits, up, down):
        routing = jsparse.nn.route(logits, k, softmax_over="chosen")
        return jsparse.nn.mixture_of_experts(x, routing, up, down, jnp.tanh)

    given = (x, logits, up, down)
    np.testing.assert_allclose(jax.jit(layer)(*given), formula(*given), rtol=1e-4, atol=1e-5)
    found, expected = (
        jax.jit(jax.grad(lambda *a, of=of: (of(*a) ** 2).sum(), (0, 1, 2, 3)))(*given) for of in (layer, formula)
    )
    for mine, exact in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, exact, rtol=1e-3, atol=1e-4)


def test_the_first_of_equal_activations_are_kept():
    equal = jsparse.nn.top_k_activations(jnp.ones((2, 5)), 2)
    np.testing.assert_array_equal(equal.todense(), [[1, 1, 0, 0, 0]] * 2)


@pytest.mark.parametrize("dtype", [None, jnp.bfloat16])
def test_blocks(dtype):
    layer = jsparse.nnx.BlockSparseLinear(24, 20, block=(4, 5), density=0.5, dtype=dtype, rngs=nnx.Rngs(0))
    layer.bias[...] = normal(3, 20)
    x, W = normal(1, 2, 7, 24), layer.kernel.tensor
    dense = W.todense()
    assert (W.nse, W.format.name) == (12 * 20, "bsr(4, 5)")
    found = layer(x)
    tolerance = {"rtol": 1e-5, "atol": 1e-5} if dtype is None else {"rtol": 0.05, "atol": 0.1}
    np.testing.assert_allclose(np.asarray(found, np.float32), x @ dense + layer.bias[...], **tolerance)
    assert found.dtype == (jnp.float32 if dtype is None else dtype)
    slopes = nnx.grad(lambda layer: (layer(x).astype(jnp.float32) ** 2).sum())(layer)
    assert all(np.any(leaf) for leaf in jax.tree.leaves(slopes))


def test_states_of_blocks_are_those_of_tensors_of_blocks():
    """A layer has the parameters and the random numbers of a layer on the tensor of blocks (in / b, out / c, b, c)."""
    layer, rngs = jsparse.nnx.BlockSparseLinear(24, 20, block=(4, 5), density=0.5, rngs=nnx.Rngs(7)), nnx.Rngs(7)
    blocks = jsparse.random(rngs.params(), (6, 4), density=0.5, format="csr").pattern.extended([4, 5])
    values = jax.random.normal(rngs.params(), (blocks.nse,)) / jnp.sqrt(12.0)
    other = jsparse.nnx.SparseParam(jsparse.SparseTensor(values, blocks))
    (name,) = nnx.state(layer)["kernel"]
    assert [name] == list(nnx.state(other))
    np.testing.assert_array_equal(nnx.state(layer)["kernel"][name][...], values)
    x = normal(1, 7, 24)
    np.testing.assert_array_equal(jsparse.nn.linear(x, other.tensor), layer(x))
    np.testing.assert_array_equal(jsparse.nn.block_linear(x, layer.kernel.tensor), layer(x))
    nnx.update(other, jax.tree.map(lambda x: 2 * x, nnx.state(layer)["kernel"]))
    nnx.update(layer.kernel, nnx.state(other))
    np.testing.assert_array_equal(other.tensor.values, 2 * values)
    np.testing.assert_array_equal(layer.kernel.tensor.values, 2 * values)


def test_a_layer_made_in_a_program():
    """The positions of its blocks are traced, so its kernel is dynamic."""

    def make():
        return jsparse.nnx.BlockSparseLinear(24, 20, block=(4, 5), density=0.5, kernel_init=ones, rngs=nnx.Rngs(0))

    def ones(key, shape, dtype):
        return jnp.ones(shape, dtype)

    made, outside, x = nnx.jit(make)(), make(), jnp.arange(48.0).reshape(2, 24)
    assert made.kernel.tensor.is_dynamic
    np.testing.assert_array_equal(made.kernel.tensor.todense(), outside.kernel.tensor.todense())
    np.testing.assert_array_equal(nnx.jit(lambda layer, x: layer(x))(made, x), outside(x))


@pytest.mark.parametrize("format", ["bsr(4, 4)", "bsr(5, 4)", "hyb"])
def test_composed_weights(format):
    W = jsparse.random(jax.random.key(1), (12, 8), density=0.3).asformat(format)
    x, bias, dense = normal(1, 5, 12), normal(2, 8), W.todense()
    np.testing.assert_allclose(jsparse.nn.linear(x, W, bias), x @ dense + bias, rtol=1e-5, atol=1e-5)
    layer = jsparse.linen.SparseLinear(pattern=W.pattern)
    found = layer.apply({"params": {"kernel": W.values, "bias": bias}}, x)
    np.testing.assert_allclose(found, x @ dense + bias, rtol=1e-5, atol=1e-5)
    (shape,) = {leaf.shape for leaf in jax.tree.leaves(layer.init(jax.random.key(0), x)) if leaf.shape != (8,)}
    assert shape == (W.nse,)


def test_pruning():
    layer = jsparse.nnx.PrunedLinear(16, 10, rngs=nnx.Rngs(0))
    x, kernel = normal(1, 3, 16), layer.linear.kernel[...]
    np.testing.assert_allclose(layer(x), x @ kernel, rtol=1e-5, atol=1e-6)
    jitted = nnx.jit(lambda layer, zeros: layer.prune(zeros))
    jitted(layer, 0.75)
    least = jnp.sort(jnp.abs(kernel).reshape(-1))[-40]
    expected = jnp.where(jnp.abs(kernel) >= least, kernel, 0)
    np.testing.assert_allclose(layer(x), x @ expected, rtol=1e-5, atol=1e-6)
    sparse = layer.to_sparse()
    assert sparse.kernel.tensor.nse == 40
    np.testing.assert_allclose(sparse(x), layer(x), rtol=1e-5, atol=1e-6)
    optimizer = nnx.Optimizer(layer, optax.sgd(0.1), wrt=nnx.Param)
    optimizer.update(layer, nnx.grad(lambda layer: (layer(x) ** 2).sum())(layer))
    moved = np.asarray(layer.linear.kernel[...] != kernel)
    assert moved.any()
    assert not moved[np.asarray(expected == 0)].any()
    layer.prune(0.0)
    assert np.asarray(layer.mask[...]).all()
    for prune in (type(layer).prune_n_of_m, nnx.jit(type(layer).prune_n_of_m, static_argnums=(1, 2))):
        layer.prune(0.0)
        prune(layer, 1, 4)
        groups = np.abs(np.asarray(layer.linear.kernel[...])).reshape(4, 4, 10)
        mask = np.asarray(layer.mask[...]).reshape(4, 4, 10)
        np.testing.assert_array_equal(mask, groups == groups.max(1, keepdims=True))


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16, jnp.float16])
def test_nan_is_the_largest_weight(dtype):
    """Pruning does not hide a weight that is NaN, in a layer, by groups, nor across the layers of a model."""
    layer = jsparse.nnx.PrunedLinear(8, 4, rngs=nnx.Rngs(0), param_dtype=dtype)
    kernel = layer.linear.kernel[...].at[[3, 5], [1, 2]].set(jnp.nan).at[[0, 6], [1, 2]].set(-jnp.inf)
    layer.linear.kernel[...] = kernel
    for prune in (type(layer).prune, nnx.jit(type(layer).prune)):
        layer.prune(0.0)
        prune(layer, 1 - 3 / 32)
        np.testing.assert_array_equal(np.argwhere(layer.mask[...]), [[0, 1], [3, 1], [5, 2]])
    layer.prune_n_of_m(1, 8)
    assert np.asarray(layer.mask[...])[[3, 5], [1, 2]].all()
    model = nnx.Sequential(nnx.Linear(8, 4, rngs=nnx.Rngs(0), param_dtype=dtype), nnx.Linear(4, 8, rngs=nnx.Rngs(0)))
    model.layers[0].kernel[...] = kernel
    model.layers[1].kernel[...] = model.layers[1].kernel[...].at[0, 0].set(jnp.inf)
    pruned, _ = jsparse.nnx.prune_model(model, 1 - 3 / 64, across_layers=True)
    assert [layer.kernel.tensor.nse for layer in pruned.layers] == [3, 0]
    np.testing.assert_array_equal(np.stack(pruned.layers[0].kernel.tensor.coords).T, [[0, 1], [3, 1], [5, 2]])


def test_encoders():
    mask = jsparse.pattern.window(12, 2)
    encoder = jsparse.nnx.TransformerEncoder(mask, 2, 2, 8, rngs=nnx.Rngs(0))
    x = normal(1, 3, 12, 8)
    expected = x
    for block in encoder.blocks:
        expected = block(expected)
    np.testing.assert_array_equal(encoder(x), encoder.norm(expected))
    assert np.abs(encoder(x, mask=jsparse.pattern.full((12, 12))) - encoder(x)).max() > 1e-3
