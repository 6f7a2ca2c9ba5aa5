"""Graph layers in modules of Equinox, and the page about it."""

import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from nn.graphs import graph_of, normal, weights

import jsparse
import jsparse.nnx

eqx = pytest.importorskip("equinox")
optax = pytest.importorskip("optax")
nnx = pytest.importorskip("flax.nnx")

PAGE = Path(__file__).parents[2] / "docs" / "how_to" / "equinox.md"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The names that the page's code defines."""
    given = {"jax": jax, "jnp": jnp, "jsparse": jsparse, "path": tmp_path_factory.mktemp("page") / "model.eqx"}
    text = PAGE.read_text(encoding="utf-8")
    for block in re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        exec(block, given)
    return given


def test_page(page):
    assert page["value"] < 0.3 < (page["y"] ** 2).mean()  # the loss of a model that gives 0
    assert page["largest"] > 0
    assert page["outputs"].shape == (3, 5)
    assert page["outputs_of_mlp"].shape == (16, 3)
    assert page["mlp"].layers[1].weight.nse == 410
    assert page["moved"].weight.nnz == 20
    assert page["logits"].shape == (5, 3)
    assert eqx.tree_equal(page["restored"], page["dynamic"])


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
