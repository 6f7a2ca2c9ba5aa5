"""Steps of RigL, compared with the rule of the paper in NumPy, on gradients of dense kernels that JAX takes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

nnx, optax = pytest.importorskip("flax.nnx"), pytest.importorskip("optax")

import jsparse  # noqa: E402
import jsparse.nnx  # noqa: E402

RNG = np.random.default_rng(0)
X, Y = (jnp.asarray(RNG.standard_normal(shape), jnp.float32) for shape in ((8, 12), (8, 10)))


def squares(model, x, y):
    return ((model(x) - y) ** 2).mean()


def moved(kernel, gradient, count):
    """Where entries are stored after a step: those of largest magnitude, and the others of largest gradient."""
    kernel, gradient = np.asarray(kernel, np.float64), np.abs(np.asarray(gradient, np.float64))
    stored = np.zeros(kernel.size, bool)
    stored[np.argsort(-np.abs(kernel).ravel())[: (kernel != 0).sum() - count]] = True
    stored[np.argsort(np.where(stored, 1, -gradient.ravel()))[:count]] = True
    return stored.reshape(kernel.shape)


def stored_in(layer):
    mask = np.zeros(layer.kernel.tensor.shape, bool)
    mask[tuple(np.asarray(layer.kernel.tensor.coords))] = True
    return mask


def network(dtype=None):
    rngs = nnx.Rngs(0)
    sparse = jsparse.nnx.SparseLinear(16, 10, density=0.3, dynamic=True, dtype=dtype, rngs=rngs)
    return nnx.Sequential(nnx.Linear(12, 16, rngs=rngs), nnx.relu, sparse), sparse


@pytest.mark.parametrize("dtype", [None, jnp.bfloat16])
@pytest.mark.parametrize("jitted", [False, True])
def test_entries_move_as_in_the_paper(jitted, dtype):
    model, layer = network(dtype)
    optimizer = nnx.Optimizer(model, optax.adam(1e-2), wrt=nnx.Param)
    optimizer.update(model, nnx.grad(squares)(model, X, Y))
    kernel, bias = layer.kernel.tensor.todense(), layer.bias[...]
    hidden = nnx.relu(model.layers[0](X))

    def of_dense(kernel):
        product = (hidden @ kernel + bias).astype(dtype or jnp.float32)
        return ((product - Y) ** 2).mean()

    gradient = jax.grad(of_dense)(kernel)

    def first_moment():
        leaves = jax.tree.leaves(nnx.state(optimizer, nnx.OptState))
        moment = np.zeros((16, 10))
        moment[tuple(np.asarray(layer.kernel.tensor.coords))] = next(x for x in leaves if x.shape == (48,))
        return moment

    before = first_moment()

    def step(model, optimizer, fraction):
        jsparse.nnx.rigl_step(model, squares, X, Y, fraction=fraction, optimizer=optimizer)

    run = nnx.jit(step) if jitted else step
    run(model, optimizer, 0.25)
    expected = moved(kernel, gradient, 12)
    if dtype is None:
        np.testing.assert_array_equal(stored_in(layer), expected)
    else:  # gradients that are nearly equal may change places
        assert (stored_in(layer) != expected).sum() <= 4
    stays = stored_in(layer) & (np.asarray(kernel) != 0)
    np.testing.assert_array_equal(np.asarray(layer.kernel.tensor.todense())[stays], np.asarray(kernel)[stays])
    after = first_moment()
    np.testing.assert_array_equal(after[stays], before[stays])
    assert not after[~stays].any()
    run(model, optimizer, 0.5)
    assert stored_in(layer).sum() == 48
    optimizer.update(model, nnx.grad(squares)(model, X, Y))


def test_all_else_in_the_model_stays():
    rngs = nnx.Rngs(0)
    sparse = jsparse.nnx.SparseLinear(12, 12, density=0.3, dynamic=True, rngs=rngs)
    fixed = jsparse.nnx.SparseLinear(12, 10, density=0.3, dynamic=True, rngs=rngs)
    model = nnx.Sequential(nnx.BatchNorm(12, rngs=rngs), nnx.Dropout(0.1, rngs=rngs), sparse, sparse, fixed)
    before, old = jax.tree.map(jnp.copy, nnx.state(model)), stored_in(sparse)

    def with_result(model, x, y):
        return squares(model, x, y), model(x)

    jsparse.nnx.rigl_step(model, with_result, X, Y, fraction=0.5, where=lambda path, layer: layer.out_features == 12)
    assert model.layers[2] is model.layers[3] is sparse
    assert (stored_in(sparse) != old).any()
    after = dict(nnx.to_flat_state(nnx.state(model)))
    for path, variable in nnx.to_flat_state(before):
        if path[:2] != ("layers", 2):
            for one, other in zip(jax.tree.leaves(variable), jax.tree.leaves(after[path]), strict=True):
                assert jnp.array_equal(one, other), path


def test_attention_that_was_pruned_moves():
    block = jsparse.nnx.TransformerBlock(jsparse.pattern.causal(6), 2, 8, rngs=nnx.Rngs(0))
    model, _ = jsparse.nnx.prune_model(block, 0.5, dynamic=True)
    x = jnp.asarray(RNG.standard_normal((2, 6, 8)), jnp.float32)
    old = stored_in(model.attention.out)
    jsparse.nnx.rigl_step(model, lambda model, x: (model(x) ** 2).sum(), x, fraction=0.4)
    assert (stored_in(model.attention.out) != old).any()
    assert stored_in(model.attention.out).sum() == old.sum()
