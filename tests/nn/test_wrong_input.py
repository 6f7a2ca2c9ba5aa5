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


RNGS = nnx.Rngs(0)
MASK = jsparse.pattern.window(8, 2)
nn = jsparse.nnx
MADE = {
    "in_features .* GCNConv": lambda: nn.GCNConv(0, 3, rngs=RNGS),
    "out_features .* GCNConv": lambda: nn.GCNConv(F, -3, rngs=RNGS),
    "in_features .* SAGEConv": lambda: nn.SAGEConv((F, 2.0), 3, rngs=RNGS),
    "reduction of SAGEConv": lambda: nn.SAGEConv(F, 3, reduction="median", rngs=RNGS),
    "reduction of EdgeConv": lambda: nn.EdgeConv(F, 3, 3, reduction="std", rngs=RNGS),
    "hidden_features .* GINConv": lambda: nn.GINConv(F, 0, 3, rngs=RNGS),
    "heads .* GATConv": lambda: nn.GATConv(F, 3, heads=0, rngs=RNGS),
    "edge_features .* GATv2Conv": lambda: nn.GATv2Conv(F, 3, edge_features=0, rngs=RNGS),
    "dropout_rate .* TransformerConv": lambda: nn.TransformerConv(F, 3, dropout_rate=1.5, rngs=RNGS),
    "num_blocks .* RGCNConv": lambda: nn.RGCNConv(F, 3, 2, num_blocks=2, rngs=RNGS),
    "num_bases or num_blocks in RGCNConv": lambda: nn.RGCNConv(F, 4, 2, num_bases=2, num_blocks=2, rngs=RNGS),
    "num_heads .* SparseAttention": lambda: nn.SparseAttention(MASK, 0, 8, rngs=RNGS),
    "dropout_rate .* SparseAttention": lambda: nn.SparseAttention(MASK, 2, 8, dropout_rate=-0.1, rngs=RNGS),
    "out_features .* SparseLinear": lambda: nn.SparseLinear(F, True, density=0.5, rngs=RNGS),
    "block .* BlockSparseLinear": lambda: nn.BlockSparseLinear(8, 8, block=(0, 2), density=0.5, rngs=RNGS),
    "in_features .* PrunedLinear": lambda: nn.PrunedLinear(0, 8, rngs=RNGS),
    "heads .* TransformerConv": lambda: in_linen_with("TransformerConv", heads=-1),
    "num_blocks to divide .* RGCNConv": lambda: in_linen_with("RGCNConv", num_blocks=3),
}


def in_linen_with(name, **options):
    return getattr(jsparse.linen, name)(*LAYERS[name][0], **options).init(jax.random.key(0), graph_of(name), X)


@pytest.mark.parametrize("message", MADE)
def test_wrong_sizes_and_options(message):
    with pytest.raises(ShapeError, match=f"Expected .*{message}"):
        MADE[message]()


@pytest.mark.parametrize("call", [in_nnx, in_linen])
def test_a_layer_of_one_set_of_nodes_takes_no_pair(call):
    with pytest.raises(ShapeError, match="one array of features.* in (GCNConv|gcn_conv), but got a pair"):
        call("GCNConv", GRAPH, (X, X))


def test_attention_names_itself():
    layer = nn.SparseAttention(MASK, 2, 8, rngs=RNGS)
    for x, mask in ((jnp.ones((9, 8)), None), (jnp.ones((8, 8)), np.ones((8, 8))), (jnp.ones((8, 8)), GRAPH)):
        with pytest.raises(ShapeError, match="in sparse_attention|of SparseAttention"):
            layer(x, mask=mask)
    with pytest.raises(ShapeError, match="in multi_head_attention"):
        layer(jnp.ones((8, 7)))


def test_dropout_of_all_weights():
    layer = nn.GATConv(F, 3, dropout_rate=1.0, rngs=nnx.Rngs(0))
    np.testing.assert_array_equal(layer(GRAPH, X), 0)


HEADS, VECTOR = jnp.ones((F, 2, 3)), jnp.ones((2, 3))
PROJECTIONS = (jsparse.nn.Projection(HEADS),) * 3
OTHERS = {
    "GCNConv": lambda: nn.GCNConv(None, 3, rngs=RNGS),
    "GATConv": lambda: nn.GATConv(F, 3, heads=(4,), rngs=RNGS),
    "SAGEConv": lambda: nn.SAGEConv((4, 4, 4), 3, rngs=RNGS),
    "RGCNConv": lambda: nn.RGCNConv(F, 3, None, rngs=RNGS),
    "SparseAttention": lambda: nn.SparseAttention(MASK, 2, 8, max_distance=2.5, rngs=RNGS),
    "mask .* SparseAttention": lambda: nn.SparseAttention(jsparse.asarray(np.ones(8)), 2, 8, rngs=RNGS),
    "x .* SparseAttention": lambda: nn.SparseAttention(MASK, 2, 8, rngs=RNGS)("words"),
    "TransformerBlock": lambda: nn.TransformerBlock(MASK, 2, -1, rngs=RNGS),
    "mlp_features .* TransformerBlock": lambda: nn.TransformerBlock(MASK, 2, 8, mlp_features=0, rngs=RNGS),
    "out_features .* TransformerBlock": lambda: nn.TransformerBlock(MASK, 2, 8, out_features=1, rngs=RNGS),
    "x .* TransformerBlock": lambda: nn.TransformerBlock(MASK, 2, 8, rngs=RNGS)(jnp.ones((8, 3))),
    "num_layers .* TransformerEncoder": lambda: nn.TransformerEncoder(MASK, 0, 2, 8, rngs=RNGS),
    "block .* BlockSparseLinear": lambda: nn.BlockSparseLinear(8, 8, block=4, density=0.5, rngs=RNGS),
    "density .* SparseLinear": lambda: nn.SparseLinear(8, 8, density="3", rngs=RNGS),
    "bias .* SparseLinear": lambda: nn.SparseLinear.of(GRAPH, jnp.ones(2)),
    "count .* SparseLinear": lambda: nn.SparseLinear(8, 8, density=0.5, dynamic=True, rngs=RNGS).rewire(X, "3"),
    "x .* SparseLinear": lambda: nn.SparseLinear(8, 8, density=0.5, dtype=jnp.bfloat16, rngs=RNGS)(None),
    "PrunedLinear.prune": lambda: nn.PrunedLinear(8, 8, rngs=RNGS).prune("3"),
    "x .* PrunedLinear": lambda: nn.PrunedLinear(8, 8, rngs=RNGS)(None),
    "dtype .* GCNConv": lambda: nn.GCNConv(F, 3, dtype=jnp.int32, rngs=RNGS),
    "dtype .* GATConv": lambda: in_linen_with("GATConv", param_dtype=jnp.int8),
    "edge_features .* GATConv": lambda: jsparse.linen.GATConv(3).init(
        jax.random.key(0), GRAPH, X, edge_features="words"
    ),
    "route": lambda: jsparse.nn.route(X, 2.5),
    "top_k_activations": lambda: jsparse.nn.top_k_activations(X, 2.5),
    "embedding_bag": lambda: jsparse.nn.embedding_bag(None, jnp.zeros((1, 1), int)),
    "mixture_of_experts": lambda: jsparse.nn.mixture_of_experts(X, None, jnp.ones((2, F, 4)), jnp.ones((2, 4, F))),
    "reductions in aggregate": lambda: jsparse.nn.aggregate(GRAPH, X, []),
    "names of reductions": lambda: jsparse.nn.aggregate(GRAPH, X, 3),
    "size in pool": lambda: jsparse.nn.pool(X, jnp.zeros(N, int), None),
    "query of transformer_conv": lambda: jsparse.nn.transformer_conv(GRAPH, X, HEADS, HEADS, HEADS),
    "edge kernel .* transformer_conv": lambda: jsparse.nn.transformer_conv(
        GRAPH, X, *PROJECTIONS, edge_features=jnp.ones((GRAPH.nse, 2))
    ),
    "edges= of gat_conv": lambda: jsparse.nn.gat_conv(GRAPH, X, HEADS, VECTOR, VECTOR, edges=jnp.ones((5, 2))),
    "pool=": lambda: jsparse.nn.sage_conv(GRAPH, X, jnp.ones((F, 2)), reduction="pool", pool=(jnp.ones((F, F)),)),
    "unbatch": lambda: jsparse.graph.unbatch(GRAPH),
}


@pytest.mark.parametrize("message", OTHERS)
def test_other_wrong_input(message):
    with pytest.raises(JsparseError, match=f"Expected (.|\n)*{message}"):
        OTHERS[message]()
