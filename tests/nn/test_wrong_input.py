"""Missing or wrong input: a JsparseError that names the layer and the argument, from modules of NNX and of Linen."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

import jsparse
import jsparse.linen
import jsparse.nnx
from jsparse.errors import DTypeError, JsparseError, ShapeError

N, F = 6, 4
GRAPH = jsparse.random(jax.random.key(0), (N, N), density=0.5)
RELATIONS = jsparse.random(jax.random.key(1), (2, N, N), density=0.5)
X = np.ones((N, F), np.float32)
# The sizes of results, and the functions that the layers call.
LAYERS = {
    "GCNConv": ((3,), "gcn_conv"),
    "SAGEConv": ((3,), "sage_conv"),
    "GINConv": ((5, 3), "gin_conv"),
    "EdgeConv": ((5, 3), "edge_conv"),
    "RGCNConv": ((3, 2), "rgcn_conv"),
    "GATConv": ((3,), "gat_conv"),
    "GATv2Conv": ((3,), "gatv2_conv"),
    "TransformerConv": ((3,), "transformer_conv"),
}


def graph_of(name, shape=(N, N)):
    relations = name == "RGCNConv"
    if shape == (N, N):
        return RELATIONS if relations else GRAPH
    return jsparse.random(jax.random.key(2), (2, *shape) if relations else shape, density=0.5)


def in_nnx(name, graph, x):
    return getattr(jsparse.nnx, name)(F, *LAYERS[name][0], rngs=nnx.Rngs(0))(graph, x)


def in_linen(name, graph, x):
    return getattr(jsparse.linen, name)(*LAYERS[name][0]).init(jax.random.key(0), graph, x)


CALLS = {
    "features of other nodes": (lambda name: (graph_of(name), X[:-1]), ShapeError, "features"),
    "a graph with another number of nodes": (lambda name: (graph_of(name, (N + 1, N + 1)), X), ShapeError, "graph"),
    "a graph that is not square": (lambda name: (graph_of(name, (N, N + 1)), X), ShapeError, "graph"),
    "a vector": (lambda name: (graph_of(name), X[:, 0]), ShapeError, "features"),
    "a number": (lambda name: (graph_of(name), 1.0), ShapeError, "features"),
    "batches": (lambda name: (graph_of(name), X[None]), ShapeError, "features"),
    "words": (lambda name: (graph_of(name), X.astype(str)), DTypeError, "features"),
    "objects": (lambda name: (graph_of(name), X.astype(object)), DTypeError, "features"),
    "nothing": (lambda name: (graph_of(name), None), DTypeError, "features"),
    "exchanged": (lambda name: (jnp.asarray(X), GRAPH[:, :F]), DTypeError, "graph"),
    "a dense graph": (lambda name: (graph_of(name).todense(), X), DTypeError, "jsparse.asarray"),
    "no graph": (lambda name: (None, X), DTypeError, "jsparse.asarray"),
    "three arrays": (lambda name: (graph_of(name), (X, X, X)), ShapeError, "pair"),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("call", [in_nnx, in_linen])
@pytest.mark.parametrize("what", CALLS)
@pytest.mark.parametrize("name", LAYERS)
def test_wrong_operands_of_graph_layers(name, what, call):
    operands, error, argument = CALLS[what]
    with pytest.raises(error) as found:
        call(name, *operands(name))
    assert isinstance(found.value, JsparseError)
    assert name in str(found.value) or LAYERS[name][1] in str(found.value)
    assert argument in str(found.value)


@pytest.mark.parametrize("name", LAYERS)
def test_other_features_than_a_layer_was_made_for(name):
    with pytest.raises(ShapeError, match=f"kernel.* in ({name}|{LAYERS[name][1]})"):
        in_nnx(name, graph_of(name), X[:, 1:])


def test_dropout_of_all_weights():
    layer = jsparse.nnx.GATConv(F, 3, dropout_rate=1.0, rngs=nnx.Rngs(0))
    np.testing.assert_array_equal(layer(GRAPH, X), 0)
