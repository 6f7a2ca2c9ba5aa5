"""Graph layers with sparse kernels, compared with the same layers on dense kernels with zeros."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from nn.graphs import graph_of, normal, weights

import jsparse
import jsparse.nn
from jsparse.nn.modules import layers_of

N, F = 9, 6
LAYERS = {layer.__name__: layer for layer in layers_of(jsparse.nn)}
CASES = {  # sizes after the features, and options
    "GCNConv": ((3,), {}),
    "GCNConv wide": ((8,), {"normalize": False}),
    "ChebConv": ((3, 3), {}),
    "ChebConv wide": ((8, 3), {}),
    "SAGEConv": ((3,), {"normalize": True}),
    "SAGEConv pool": ((8,), {"reduction": "pool", "pool_features": 4}),
    "GINConv": ((4, 3), {"train_eps": True}),
    "EdgeConv": ((4, 3), {"reduction": "sum"}),
    "RGCNConv": ((4, 2), {}),
    "RGCNConv bases": ((4, 2), {"num_bases": 3}),
    "RGCNConv blocks": ((4, 2), {"num_blocks": 2}),
    "GATConv": ((3,), {"heads": 2, "edge_features": 4}),
    "GATv2Conv": ((3,), {"heads": 2, "edge_features": 4, "concat": False}),
    "GATv2Conv shared": ((3,), {"heads": 2, "share_weights": True}),
    "TransformerConv": ((3,), {"heads": 2, "edge_features": 4, "beta": True}),
    "HeteroConv": ((), {}),
}
RELATION = ("node", "to", "node")


def test_all_layers_are_compared():
    assert {name.split()[0] for name in CASES} == set(LAYERS)


def case_of(name):
    """A layer, its graph, and its other arguments."""
    (sizes, options), layer = CASES[name], LAYERS[name.split()[0]]
    if name == "HeteroConv":
        conv, graph, _ = case_of("SAGEConv")
        return layer({RELATION: conv}), {RELATION: graph}, {}
    a = weights(2, N, N) if "RGCN" in name else weights(N, N)
    graph = graph_of(a, "static", "csr" if a.ndim == 2 else "csf")
    edges = {"edge_features": normal(3, graph.nse, 4)} if "edge_features" in options else {}
    return layer(F, *sizes, **options), graph, edges


def parameters_of(layer, dtype=jnp.float32, format=None, dynamic=False):
    """Parameters whose kernels are sparse, and dense ones with zeros in their place."""
    dense = layer.init(jax.random.key(1), bias_init=jax.nn.initializers.normal(), param_dtype=dtype)
    sparse = dict(dense)
    for n, name in enumerate(layer.kernels()):
        kernel = dense[name]
        dense[name] = jnp.where(np.random.default_rng(n).random(kernel.shape) < 0.6, kernel, 0)
        sparse[name] = jsparse.asarray(dense[name], format=format if kernel.ndim == 2 else None, dynamic=dynamic)
    return sparse, dense


def features(kind, dtype=jnp.float32):
    x = normal(1, N, F).astype(dtype)
    return jsparse.asarray(jnp.where(x > 0.3, x, 0)) if kind == "sparse" else x


def compare(found, expected, tolerance):
    """Compare arrays, or a sparse gradient with the elements of a dense one at its entries."""
    if isinstance(found, jsparse.SparseTensor):
        is_stored = found.with_values(jnp.ones(found.nse)).todense() != 0
        found, expected = found.todense(), jnp.where(is_stored, expected, 0)
    found, expected = np.asarray(found, np.float32), np.asarray(expected, np.float32)
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * max(1, np.abs(expected).max()))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("x", ["dense", "sparse"])
@pytest.mark.parametrize("options", [{}, {"dynamic": True}, {"format": "bsr(2, 1)"}, {"dtype": jnp.bfloat16}])
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name, x, options):
    layer, graph, edges = case_of(name)
    dtype = options.get("dtype", jnp.float32)
    sparse, dense = parameters_of(layer, **options)

    def loss(p, x):
        y = layer.apply(p, graph, {"node": x} if name == "HeteroConv" else x, dtype=x.dtype, **edges)
        (y,) = jax.tree.leaves(y)
        return (y.astype(jnp.float32) ** 2).sum(), y

    step = jax.jit(jsparse.value_and_grad(loss, has_aux=True))
    x = features(x, dtype)
    (_, found), slopes = step(sparse, x)
    # If operands are narrow floats, the reference computes in float32.
    wide = {key: one.astype(jnp.float32) for key, one in dense.items()}
    (_, expected), exact = step(wide, x.astype(jnp.float32))
    assert found.dtype == dtype
    tolerance = 0.03 if dtype == jnp.bfloat16 else 5e-4
    compare(found, expected, tolerance)
    for key, slope in exact.items():
        assert isinstance(slopes[key], jsparse.SparseTensor) == (key in layer.kernels())
        compare(slopes[key], slope, tolerance)


@pytest.mark.parametrize("name", ["GCNConv", "ChebConv", "RGCNConv", "GATConv"])
def test_a_batch_of_kernels(name):
    layer, graph, edges = case_of(name)
    sparse, dense = parameters_of(layer)
    scales = jnp.arange(1.0, 4)

    def scaled(p, scale):
        kernels = {key: p[key] * scale for key in layer.kernels()}
        return layer.apply({**p, **kernels}, graph, features("dense"), dtype=jnp.float32, **edges)

    found, expected = (jax.jit(jax.vmap(scaled, in_axes=(None, 0)))(p, scales) for p in (sparse, dense))
    compare(found, expected, 5e-4)


def test_functions_take_sparse_kernels_of_other_libraries():
    graph, x, kernel = graph_of(weights(N, N), "pattern"), features("dense"), weights(F, 3)
    for sparse in (jsparse.asarray(kernel).to_scipy(), jsparse.asarray(kernel).to_bcoo()):
        compare(jsparse.nn.gcn_conv(graph, x, sparse), jsparse.nn.gcn_conv(graph, x, kernel), 1e-5)
        compare(jsparse.nn.sage_conv(graph, x, sparse, sparse), jsparse.nn.sage_conv(graph, x, kernel, kernel), 1e-5)
