"""Tables in modules of Flax and Equinox train by rows, without a change of the modules."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse

optax = pytest.importorskip("optax")
lazy = pytest.importorskip("jsparse.optax")

IDS = jnp.array([[3, 3, 5], [0, 9, 3]])
Y = jnp.array([1.0, -1.0])


def check(loss, params, is_table):
    """A step by rows is that by whole tables: in the first one the moments of all other rows are 0."""

    def by_rows(params):
        value, gradients = jsparse.value_and_grad(loss, rows=is_table)(params)
        optimizer = lazy.lazy_adam(0.1)
        updates, _ = optimizer.update(gradients, optimizer.init(params), params)
        return value, lazy.apply_updates(params, updates), gradients

    value, got, gradients = jax.jit(by_rows)(params)
    wanted, slopes = jax.value_and_grad(loss)(params)
    updates, _ = optax.adam(0.1).update(slopes, optax.adam(0.1).init(params))
    np.testing.assert_allclose(value, wanted, rtol=1e-6)
    want = optax.apply_updates(params, updates)
    assert jax.tree.structure(got) == jax.tree.structure(want)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), got, want)
    tensors = [x for x in jax.tree.leaves(gradients, is_leaf=is_tensor) if is_tensor(x)]
    assert [x.shape[0] for x in tensors] == [12]


def is_tensor(x):
    return isinstance(x, jsparse.SparseTensor)


def named(part):
    """The mask of the leaves whose path has that part."""
    return lambda params: jax.tree_util.tree_map_with_path(lambda path, _: part in jax.tree_util.keystr(path), params)


@pytest.mark.parametrize("dtype", [None, jnp.bfloat16])
def test_linen(dtype):
    linen = pytest.importorskip("flax.linen")

    class Model(linen.Module):
        @linen.compact
        def __call__(self, ids):
            x = linen.Embed(12, 4, dtype=dtype)(ids).mean(1)  # which casts the whole table before it takes rows
            return linen.Dense(1)(jnp.float32(x))[:, 0]

    model = Model()
    params = model.init(jax.random.key(0), IDS)
    check(lambda params: ((model.apply(params, IDS) - Y) ** 2).sum(), params, named("embedding"))


def test_nnx():
    nnx = pytest.importorskip("flax.nnx")

    class Model(nnx.Module):
        def __init__(self, rngs):
            self.embed, self.out = nnx.Embed(12, 4, rngs=rngs), nnx.Linear(4, 1, rngs=rngs)

        def __call__(self, ids):
            return self.out(self.embed(ids).mean(1))[:, 0]

    graph, params = nnx.split(Model(nnx.Rngs(0)))
    check(lambda params: ((nnx.merge(graph, params)(IDS) - Y) ** 2).sum(), params, named("embedding"))


def test_equinox():
    eqx = pytest.importorskip("equinox")

    class Model(eqx.Module):
        embed: eqx.nn.Embedding
        out: eqx.nn.Linear

        def __call__(self, ids):
            return self.out(jax.vmap(self.embed)(ids).mean(0))[0]

    keys = jax.random.split(jax.random.key(0))
    model = Model(eqx.nn.Embedding(12, 4, key=keys[0]), eqx.nn.Linear(4, 1, key=keys[1]))
    params, static = eqx.partition(model, eqx.is_array)
    check(lambda params: ((jax.vmap(eqx.combine(params, static))(IDS) - Y) ** 2).sum(), params, named("embed"))


def test_a_tied_output_is_refused_with_its_line():
    linen = pytest.importorskip("flax.linen")

    class Model(linen.Module):
        @linen.compact
        def __call__(self, ids):
            embed = linen.Embed(12, 4)
            return embed.attend(embed(ids))

    model = Model()
    params = model.init(jax.random.key(0), IDS)
    with pytest.raises(jsparse.NotYetSupportedError, match="leave the table out of rows="):
        jsparse.grad(lambda params: model.apply(params, IDS).sum(), rows=named("embedding"))(params)
