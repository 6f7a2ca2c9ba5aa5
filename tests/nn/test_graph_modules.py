"""Graph layers as modules of NNX and Linen: equal to each other, under Flax's transformations, and equivariant."""

import dataclasses
import inspect
import os
import pickle
import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx
from nn.graphs import graph_of, normal, weights

import jsparse
import jsparse.linen
import jsparse.nnx

N, F = 9, 5
TABLE = {
    "GCNConv": ((3,), {}),
    "SAGEConv": ((3,), {"reduction": "pool", "pool_features": 4, "normalize": True}),
    "GINConv": ((4, 3), {"train_eps": True, "eps": 0.5}),
    "EdgeConv": ((4, 3), {}),
    "RGCNConv": ((3, 2), {"num_bases": 3}),
    "GATConv": ((3,), {"heads": 2}),
    "GATv2Conv": ((3,), {"heads": 2, "concat": False, "share_weights": True}),
    "TransformerConv": ((3,), {"heads": 2, "beta": True}),
}
MODULE_OPTIONS = "dtype", "param_dtype", "kernel_init", "attention_init", "bias_init"
NAMES = [name for name in jsparse.nnx.graph_layers.__all__ if name != "HeteroConv"]  # which takes dictionaries


def options_of(name):
    """Sizes after the features, and options: those of the table, or of the example in a layer's docstring."""
    if name in TABLE:
        return TABLE[name]
    given = re.search(rf"nn\.{name}\(4, (.*)\)\n", getattr(jsparse.nn, name).__doc__)[1]
    return eval(f"(lambda *sizes, **own: (sizes, own))({given})")


def layer_of(name, **options):
    sizes, own = options_of(name)
    return getattr(jsparse.nnx, name)(F, *sizes, **own, **options, rngs=nnx.Rngs(0))


def linen_of(name, **options):
    sizes, own = options_of(name)
    return getattr(jsparse.linen, name)(*sizes, **own, **options)


def array_for(name, seed=0):
    return weights(2, N, N, seed=seed) if name == "RGCNConv" else weights(N, N, seed=seed)


def graph_for(name, kind="static", seed=0):
    return graph_of(array_for(name, seed), kind, "csf" if name == "RGCNConv" else "csr")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", NAMES)
def test_nnx_and_linen_are_equal(name):
    graph, x, layer = graph_for(name), normal(1, N, F), layer_of(name)
    parameters = {key: getattr(layer, key)[...] for key in layer.names}
    other = linen_of(name)
    made = other.init(jax.random.key(0), graph, x)["params"]
    assert jax.tree.map(jnp.shape, made) == jax.tree.map(jnp.shape, parameters)
    np.testing.assert_array_equal(other.apply({"params": parameters}, graph, x), layer(graph, x))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", ["static", "dynamic", "pattern"])
@pytest.mark.parametrize("name", NAMES)
def test_training(name, kind):
    graph, x, layer = graph_for(name, kind), normal(1, N, F), layer_of(name)
    towards = normal(2, *layer(graph, x).shape)
    optimizer = nnx.Optimizer(layer, optax.adam(0.02), wrt=nnx.Param)

    @nnx.jit
    def step(layer, optimizer, graph):
        loss, slopes = nnx.value_and_grad(lambda layer: ((layer(graph, x) - towards) ** 2).mean())(layer)
        optimizer.update(layer, slopes)
        return loss, slopes

    first, slopes = step(layer, optimizer, graph)
    assert all(np.any(leaf) for leaf in jax.tree.leaves(slopes))
    for _ in range(30):
        last, _ = step(layer, optimizer, graph)
    assert last < 0.9 * first


WORDS = 97
BAGS = weights(N, WORDS, density=0.1, seed=5)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", NAMES)
def test_sparse_features_are_multiplied_as_they_are(name):
    sizes, own = options_of(name)
    graph, x = graph_for(name), jsparse.asarray(BAGS)
    layer = getattr(jsparse.nnx, name)(WORDS, *sizes, **own, rngs=nnx.Rngs(0))
    definition, state = nnx.split(layer)

    def loss(state, x):
        return (nnx.merge(definition, state)(graph, x) ** 2).sum()

    step = jax.jit(jax.value_and_grad(loss, (0, 1))).lower(state, x).compile()
    assert not [shape for shape in (f"[{N},{WORDS}]", f"[{WORDS},{N}]") if shape in step.as_text()]
    found, (slopes, of_x) = step(state, x)
    expected, (exact, of_dense) = jax.jit(jax.value_and_grad(loss, (0, 1)))(state, jnp.asarray(BAGS))
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-3, atol=1e-4), slopes, exact)
    np.testing.assert_allclose(of_x.values, of_dense[tuple(x.coords)], rtol=2e-3, atol=1e-4)
    np.testing.assert_allclose(layer(graph, x.dynamic(x.nse + 4)), layer(graph, BAGS), rtol=1e-4, atol=1e-5)


def test_sparse_features_of_one_side_and_of_other_libraries():
    sample = graph_of(weights(4, N, density=0.5), "dynamic")
    layer = jsparse.nnx.SAGEConv((WORDS, F), 3, dtype=jnp.float32, rngs=nnx.Rngs(0))
    for x in (jsparse.asarray(BAGS).to_scipy(), jsparse.asarray(BAGS).to_bcoo()):
        targets = normal(1, 4, F)
        np.testing.assert_allclose(layer(sample, (x, targets)), layer(sample, (BAGS, targets)), rtol=1e-4, atol=1e-5)
        other = jsparse.linen.GCNConv(3)
        variables = other.init(jax.random.key(0), graph_for("GCNConv"), x)
        found, expected = (other.apply(variables, graph_for("GCNConv"), given) for given in (x, BAGS))
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["GINConv", "EdgeConv"])
def test_two_numbers_are_the_features_in_and_out(name):
    graph, x = graph_for(name), normal(1, N, F)
    layers = [getattr(jsparse.nnx, name)(F, *sizes, rngs=nnx.Rngs(0)) for sizes in ((3,), (3, 3))]
    layers.append(getattr(jsparse.nnx, name)(F, out_features=3, rngs=nnx.Rngs(0)))
    assert [layer.definition.parameters() for layer in layers[1:]] == [layers[0].definition.parameters()] * 2
    assert layers[0](graph, x).shape == (N, 3)
    parameters = {key: getattr(layers[0], key)[...] for key in layers[0].names}
    for other in (getattr(jsparse.linen, name)(3), getattr(jsparse.linen, name)(out_features=3)):
        np.testing.assert_array_equal(other.apply({"params": parameters}, graph, x), layers[0](graph, x))


@pytest.mark.parametrize("name", NAMES)
def test_state_is_restored(name):
    graph, x, layer = graph_for(name), normal(1, N, F), layer_of(name)
    definition, state = nnx.split(layer)
    np.testing.assert_array_equal(nnx.merge(definition, state)(graph, x), layer(graph, x))
    sizes, own = options_of(name)
    other = getattr(jsparse.nnx, name)(F, *sizes, **own, rngs=nnx.Rngs(7))
    nnx.update(other, nnx.state(layer))
    np.testing.assert_array_equal(other(graph, x), layer(graph, x))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", NAMES)
def test_permutation_equivariance(name, seed):
    layer, x, order = layer_of(name), normal(1, N, F), np.random.default_rng(seed).permutation(N)
    a = array_for(name, seed)
    moved = a[..., order, :][..., order]
    format = "csf" if a.ndim == 3 else "csr"
    found = layer(jsparse.asarray(moved, format=format), x[order])
    np.testing.assert_allclose(found, layer(jsparse.asarray(a, format=format), x)[order], rtol=1e-4, atol=1e-5)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", NAMES)
def test_dtypes(name):
    graph, x = graph_for(name, "pattern"), normal(1, N, F)
    layer = layer_of(name, dtype=jnp.bfloat16)
    found = layer(graph, x)
    assert found.dtype == jnp.bfloat16
    assert all(getattr(layer, key).dtype == jnp.float32 for key in layer.names)
    np.testing.assert_allclose(np.asarray(found, np.float32), layer_of(name)(graph, x), rtol=0.1, atol=0.15)


@pytest.mark.parametrize("name", ["GATConv", "GATv2Conv", "TransformerConv"])
def test_dropout(name):
    graph, x, layer = graph_for(name), normal(1, N, F), layer_of(name, dropout_rate=0.5)
    first, second = layer(graph, x), layer(graph, x)
    assert np.abs(first - second).max() > 1e-3
    np.testing.assert_array_equal(layer(graph, x, deterministic=True), layer_of(name)(graph, x))
    layer.eval()
    np.testing.assert_array_equal(layer(graph, x), layer(graph, x))
    other = linen_of(name, dropout_rate=0.5)
    variables = other.init(jax.random.key(0), graph, x)
    drawn = [other.apply(variables, graph, x, rngs={"dropout": jax.random.key(n)}) for n in (1, 2)]
    assert np.abs(drawn[0] - drawn[1]).max() > 1e-3


@pytest.mark.parametrize("name", ["GATConv", "GATv2Conv", "TransformerConv"])
def test_features_of_edges(name):
    graph, x = graph_for(name), normal(1, N, F)
    layer = layer_of(name, edge_features=4)
    edges = normal(3, graph.nse, 4)
    assert np.abs(layer(graph, x, edge_features=edges) - layer(graph, x)).max() > 1e-3
    variables = linen_of(name).init(jax.random.key(0), graph, x, edge_features=edges)
    parameters = {key: getattr(layer, key)[...] for key in layer.names}
    assert set(variables["params"]) == set(parameters)
    found = linen_of(name).apply({"params": parameters}, graph, x, edge_features=edges)
    np.testing.assert_array_equal(found, layer(graph, x, edge_features=edges))


@pytest.mark.parametrize("name", ["SAGEConv", "GATConv", "GATv2Conv", "TransformerConv", "RGCNConv"])
def test_two_sets_of_nodes(name):
    sizes, own = options_of(name)
    own = {key: value for key, value in own.items() if key != "share_weights"}
    own |= {"self_loops": False} if name.startswith("GAT") else {}
    a = weights(2, N, 6) if name == "RGCNConv" else weights(N, 6)
    graph = jsparse.asarray(a, format="csf" if a.ndim == 3 else "csr")
    layer = getattr(jsparse.nnx, name)((4, F), *sizes, **own, rngs=nnx.Rngs(0))
    xs, xt = normal(1, 6, 4), normal(2, N, F)
    found = layer(graph, (xs, xt))
    assert found.shape[0] == N
    order = np.random.default_rng(0).permutation(6)
    moved = jsparse.asarray(a[..., order], format=graph.format)
    np.testing.assert_allclose(layer(moved, (xs[order], xt)), found, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["GINConv", "EdgeConv"])
def test_two_sets_of_nodes_with_the_same_features(name):
    layer, other = layer_of(name), linen_of(name)
    graph = jsparse.asarray(weights(N, 6))
    x = normal(1, 6, F), normal(2, N, F)
    parameters = {key: getattr(layer, key)[...] for key in layer.names}
    assert jax.tree.map(jnp.shape, other.init(jax.random.key(0), graph, x)["params"]) == jax.tree.map(
        jnp.shape, parameters
    )
    np.testing.assert_array_equal(other.apply({"params": parameters}, graph, x), layer(graph, x))


# Layers with as many results as inputs, so that they follow each other.
SQUARE = {
    "GCNConv": ((F,), {}),
    "SAGEConv": ((F,), {"reduction": "max"}),
    "GINConv": ((4, F), {"train_eps": True}),
    "EdgeConv": ((4, F), {"reduction": "mean"}),
    "RGCNConv": ((F, 2), {"num_bases": 3}),
    "GATConv": ((F,), {}),
    "GATv2Conv": ((F,), {"heads": 2, "concat": False}),
    "TransformerConv": ((F,), {"heads": 2, "concat": False}),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["dynamic", "static"])
@pytest.mark.parametrize("name", SQUARE)
def test_layers_in_a_scan(name, kind):
    """Values and gradients of stacked layers are those of the layers one after the other."""
    graph, x, (sizes, options) = graph_for(name, kind), normal(1, N, F), SQUARE[name]

    @nnx.split_rngs(splits=2)
    @nnx.vmap
    def create(rngs):
        return getattr(jsparse.nnx, name)(F, *sizes, **options, rngs=rngs)

    layers = create(nnx.Rngs(0))

    def scanned(layers, x):
        @nnx.scan(in_axes=(nnx.Carry, 0), out_axes=nnx.Carry)
        def through(x, layer):
            return jnp.tanh(layer(graph, x))

        return through(x, layers)

    def unrolled(layers, x):
        definition, state = nnx.split(layers)
        for n in range(2):
            layer = nnx.merge(definition, jax.tree.map(lambda leaf, n=n: leaf[n], state))
            x = jnp.tanh(layer(graph, x))
        return x

    def slopes(run):
        def squares(layers):
            out = run(layers, x)
            return (out**2).sum(), out

        return nnx.jit(nnx.grad(squares, has_aux=True))(layers)

    (found, out), (expected, wanted) = slopes(scanned), slopes(unrolled)
    np.testing.assert_allclose(out, wanted, rtol=1e-4, atol=1e-5)
    for mine, other in zip(*map(jax.tree.leaves, (found, expected)), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("options", [{"num_blocks": 5}, {}])
def test_kernels_of_relations(options):
    layer = jsparse.nnx.RGCNConv(F, 10, 2, **options, rngs=nnx.Rngs(0))
    graph, x = graph_for("RGCNConv"), normal(1, N, F)
    kernel, root, bias = (getattr(layer, key)[...] for key in ("kernel", "root", "bias"))
    np.testing.assert_array_equal(layer(graph, x), jsparse.nn.rgcn_conv(graph, x, kernel, root, bias))
    deviation = np.asarray(kernel).std() * (kernel.shape[-2]) ** 0.5  # that of each matrix by its own inputs
    assert 0.5 < deviation < 1.6


@pytest.mark.parametrize("name", NAMES)
def test_signatures_name_every_option_and_docstrings_each_of_them(name):
    options = [x.name for x in dataclasses.fields(getattr(jsparse.nn, name))]
    for module, own in ((jsparse.nnx, [*options, "rngs"]), (jsparse.linen, options)):
        found = inspect.signature(getattr(module, name)).parameters
        inferred = {"in_features", "edge_features"} if module is jsparse.linen else set()
        assert found.keys() - {"parent", "name"} == {*own, *MODULE_OPTIONS} - inferred
        described = re.findall(r"^    ([\w, ]+): ", inspect.getdoc(getattr(module, name)), re.MULTILINE)
        assert {*", ".join(described).split(", ")} == found.keys() - {"parent", "name"}
    made = pickle.loads(pickle.dumps(layer_of(name)))
    np.testing.assert_array_equal(
        made(graph_for(name), normal(1, N, F)), layer_of(name)(graph_for(name), normal(1, N, F))
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_layer_computes_with_its_own_parameters_as_its_module_does(name):
    sizes, own = options_of(name)
    graph, x, layer = graph_for(name), normal(1, N, F), getattr(jsparse.nn, name)(F, *sizes, **own)
    parameters = layer.init(jax.random.key(0), bias_init=jax.nn.initializers.ones)
    module = layer_of(name)
    assert {key: p.shape for key, p in parameters.items()} == {key: getattr(module, key).shape for key in module.names}
    for key, array in parameters.items():
        setattr(module, key, nnx.Param(array))
    np.testing.assert_array_equal(layer.apply(parameters, graph, x), module(graph, x))
    narrow = layer.apply(parameters, graph, x, dtype=jnp.bfloat16)
    assert narrow.dtype == jnp.bfloat16


def test_modules_are_made_without_docstrings():
    program = "import jsparse.nnx, jsparse.linen; print(jsparse.nnx.GCNConv, jsparse.linen.GCNConv)"
    command = [sys.executable, "-OO", "-c", program]
    done = subprocess.run(command, env={**os.environ, "JAX_PLATFORMS": "cpu"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
