"""Train steps on a batch of graphs that is divided: one all-reduce, for the gradients of the parameters."""

from contextlib import nullcontext

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from meshes.programs import P, collectives, draw

import jsparse

nnx = pytest.importorskip("flax.nnx")
GRAPHS, NODES = 8, 20


def graph(seed):
    rng = np.random.default_rng(seed)
    return jsparse.asarray(
        (rng.random((NODES, NODES)) < 0.2).astype(np.float32), format="csr", dynamic=True, nse=NODES**2 // 2
    )


# `mapped` is spmd_axis_name= of vmap. On explicit axes the types have the name.
@pytest.mark.parametrize("kind, mapped", [("auto", None), ("auto", "x"), ("explicit", None)])
@pytest.mark.parametrize("name", ["GCNConv", "SAGEConv", "GINConv", "GATConv"])
def test_steps_on_batches_of_graphs(name, kind, mapped):
    stacked = jax.tree.map(lambda *x: jnp.stack(x), *map(graph, range(GRAPHS)))
    features = draw(GRAPHS, NODES, 16)
    definition, state = nnx.split(getattr(jsparse.nnx, name)(16, 8, rngs=nnx.Rngs(0)))

    def loss(state, graphs, features):
        out = jax.vmap(lambda A, x: nnx.merge(definition, state)(A, x), spmd_axis_name=mapped)(graphs, features)
        return (out**2).mean()

    wanted = jax.jit(jax.grad(loss))(state, stacked, features)
    mesh = jax.make_mesh((4,), ("x",), axis_types=(getattr(AxisType, kind.title()),))
    with jax.set_mesh(mesh) if kind == "explicit" or mapped else nullcontext():
        place = lambda tree, spec: jax.tree.map(lambda x: jax.device_put(x, NamedSharding(mesh, spec)), tree)  # noqa: E731
        given = place(state, P()), place(stacked, P("x")), place(features, P("x"))
        compiled = jax.jit(jax.grad(loss)).lower(*given).compile()
        found = compiled(*given)
    assert collectives(compiled.as_text()) == {"all-reduce": 1}
    for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(x, y, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["auto", "explicit"])
def test_kernels_divided_by_columns(kind):
    A, features = graph(0).static(), draw(NODES, 16)
    definition, state = nnx.split(jsparse.nnx.GCNConv(16, 8, rngs=nnx.Rngs(0)))

    def loss(state, features):
        return (nnx.merge(definition, state)(A, features) ** 2).sum()

    wanted = jax.jit(jax.grad(loss))(state, features)
    mesh = jax.make_mesh((4,), ("x",), axis_types=(getattr(AxisType, kind.title()),))
    with jax.set_mesh(mesh) if kind == "explicit" else nullcontext():
        by_columns = lambda x: jax.device_put(x, NamedSharding(mesh, P(*[None] * (x.ndim - 1), "x")))  # noqa: E731
        given = jax.tree.map(by_columns, state), jax.device_put(features, NamedSharding(mesh, P()))
        compiled = jax.jit(jax.grad(loss)).lower(*given).compile()
        found = compiled(*given)
    assert collectives(compiled.as_text()) == {}
    for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(x, y, rtol=2e-5, atol=1e-5)
