"""Graph layers in modules of Equinox, as the page about it writes them."""

from contextlib import chdir

import jax
import numpy as np
import pytest
from docs.pages import run
from nn.graphs import graph_of, normal, weights

import jsparse
import jsparse.nnx

eqx = pytest.importorskip("equinox")
optax = pytest.importorskip("optax")
nnx = pytest.importorskip("flax.nnx")


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The names that the page's code defines."""
    with chdir(tmp_path_factory.mktemp("page")):
        return run("docs/how_to/equinox.md")


CASES = [
    ("GCNConv", "static", (5, 3), {}),
    ("SAGEConv", "dynamic", (5, 3), {"reduction": "max"}),
    ("GATConv", "dynamic", (5, 3), {"heads": 2}),
]


@pytest.mark.parametrize("name, kind, sizes, options", CASES, ids=[name for name, *_ in CASES])
def test_training(page, name, kind, sizes, options):
    """Adam has the same losses as with the NNX module and the same parameters, and they fall."""
    graph, x = graph_of(weights(9, 9), kind), normal(1, 9, 5)
    theirs = getattr(jsparse.nnx, name)(*sizes, **options, rngs=nnx.Rngs(0))
    ours = page["Convolution"](getattr(jsparse.nn, name)(*sizes, **options), jax.random.key(0))
    ours = eqx.tree_at(lambda m: m.parameters, ours, {key: getattr(theirs, key)[...] for key in theirs.names})
    towards = normal(2, *ours(graph, x).shape)

    def loss(model, graph):
        return ((model(graph, x) - towards) ** 2).mean()

    transformation = optax.adam(0.05)
    optimizer = nnx.Optimizer(theirs, transformation, wrt=nnx.Param)

    @nnx.jit
    def step_of_nnx(model, optimizer, graph):
        value, gradients = nnx.value_and_grad(loss)(model, graph)
        optimizer.update(model, gradients)
        return value

    @eqx.filter_jit
    def step(model, state, graph):
        value, gradients = eqx.filter_value_and_grad(loss)(model, graph)
        updates, state = transformation.update(gradients, state)
        return eqx.apply_updates(model, updates), state, value

    state, losses = transformation.init(eqx.filter(ours, eqx.is_inexact_array)), []
    for _ in range(5):
        ours, state, value = step(ours, state, graph)
        losses.append(value)
    np.testing.assert_allclose(losses, [step_of_nnx(theirs, optimizer, graph) for _ in range(5)], rtol=1e-5)
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < losses[0]
