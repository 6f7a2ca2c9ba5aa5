"""Layers and their input that do not fit; `refusals.txt` has the messages of the rows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from nn.graphs import graph_of, normal, weights
from refusals import test_refusals as test_refusals

import jsparse
import jsparse.linen
import jsparse.nnx
from jsparse import DTypeError, NotYetSupportedError, PatternError, ShapeError, nn
from jsparse.nn import Projection
from jsparse.nnx import PrunedLinear, SparseAttention, SparseLinear, prune_model

N, M, F, G, H, D = 9, 7, 5, 3, 2, 3
A = graph_of(weights(N, N), "static")
X, KERNEL, VECTOR = normal(1, N, F), normal(1, F, H, D), normal(2, H, D)
KERNELS = KERNEL, VECTOR, VECTOR
THREE = (Projection(KERNEL),) * 3
MASK = jsparse.pattern.window(8, 2)
RNGS = nnx.Rngs(0)


@pytest.mark.semantics
def convolutions():
    yield ShapeError, lambda: nn.sage_conv(A, (normal(1, N, F), normal(1, M, F)), normal(2, F, G))
    yield ShapeError, lambda: nn.gcn_conv(A, normal(1, M, F), normal(2, F, G))
    yield ShapeError, lambda: nn.gcn_conv(A, normal(1, N, F), normal(2, G, F))
    yield ShapeError, lambda: nn.sage_conv(A, normal(1, N, F), normal(2, F, G), reduction="pool", pool=(1, 0))
    yield ShapeError, lambda: nn.aggregate(A, normal(1, N, F), "median")
    yield ShapeError, lambda: nn.rgcn_conv(A, normal(1, N, F), normal(2, 1, F, G))
    yield ShapeError, lambda: nn.gcn_conv(graph_of(weights(N, M), "static"), normal(1, N, F), normal(2, F, G))
    yield ShapeError, lambda: nn.gin_conv(A, (1, 2, 3), jnp.tanh)
    yield ShapeError, lambda: nn.gin_conv(A, (normal(1, N, F), normal(1, N, G)), jnp.tanh)
    yield ShapeError, lambda: nn.pool(normal(1, N, F), jnp.ones(N), 2)
    yield ShapeError, lambda: nn.attention_pool(normal(1, N, F), normal(1, M), jnp.zeros(N, int), 2)
    yield ShapeError, lambda: nn.basis_kernel(normal(1, 3, 2), normal(2, 3, F, G))
    dense, S = weights(N, N), jsparse.asarray(weights(N, N))
    yield DTypeError, lambda: nn.gcn_conv(dense, X, normal(2, F, G))
    yield DTypeError, lambda: nn.sage_conv(dense, X, normal(2, F, G))
    yield DTypeError, lambda: nn.gcn_conv(X, S, normal(2, F, G))
    yield DTypeError, lambda: nn.rgcn_conv(X, S, normal(2, F, G))
    yield DTypeError, lambda: nn.aggregate(S, S)
    yield DTypeError, lambda: nn.edge_conv(S, S, jnp.tanh)
    yield DTypeError, lambda: nn.gin_conv(S, S, jnp.tanh)
    yield DTypeError, lambda: nn.pool(S, np.zeros(N, int), 1)
    yield DTypeError, lambda: nn.sage_conv(S, S, normal(2, N, G), reduction="max")
    yield DTypeError, lambda: nn.top_k_activations(S, S)
    kept = jsparse.graph.from_edges([0, 0], [1, 1], nodes=3, duplicates="keep")
    yield ShapeError, lambda: jsparse.graph.normalize(kept)
    yield ShapeError, lambda: nn.cheb_conv(A, X, normal(2, 3, F + 1, 2))
    yield ShapeError, lambda: nn.cheb_conv(A, X, normal(2, 3, F, 2), normalize=False)
    yield ShapeError, lambda: nn.ChebConv(F, 2, 3, lambda_max=0.0)
    yield ShapeError, lambda: nn.ChebConv(F, 2, 0)
    yield ShapeError, lambda: nn.cheb_conv(graph_of(weights(N, N - 1), "static"), X[1:], normal(2, 3, F, 2))
    yield ShapeError, lambda: nn.gcn_conv(A, X, jsparse.asarray(weights(G, F)))
    yield ShapeError, lambda: nn.gat_conv(A, X, jsparse.asarray(weights(F, 2)), VECTOR, VECTOR)
    yield DTypeError, lambda: nn.GCNConv(F, 2).apply({"kernel": jnp.ones((F, 2)), "bias": S}, A, X)


def parameters():
    edges = jsparse.SparseTensor(jnp.ones(2 * N), jsparse.eye(N).pattern.extended([2]))
    yield (
        ShapeError,
        lambda: nn.transformer_conv(A, X, *THREE, Projection(normal(2, F, H * D)), gate=jnp.ones((3 * H * D, 1))),
    )
    yield ShapeError, lambda: nn.transformer_conv(A, X, *THREE, Projection(normal(2, F, 1)))
    yield ShapeError, lambda: nn.transformer_conv(A, X, Projection(KERNEL, jnp.ones(D)), *THREE[1:])
    yield ShapeError, lambda: nn.gcn_conv(A, X, normal(2, F, 4), jnp.ones((1, 4)))
    yield ShapeError, lambda: nn.sage_conv(A, X, normal(2, F, 4), None, jnp.ones(1))
    yield ShapeError, lambda: nn.gat_conv(A, X, *KERNELS, jnp.ones((H, D)))
    yield ShapeError, lambda: nn.gatv2_conv(A, X, KERNEL, KERNEL, KERNELS[1], bias_target=1.0)
    yield ShapeError, lambda: nn.gat_conv(A, X, KERNEL, jnp.ones((1, D)), KERNELS[2])
    yield ShapeError, lambda: nn.gatv2_conv(A, X, KERNEL, KERNEL, jnp.ones(D))
    yield ShapeError, lambda: nn.gat_conv(A, X, *KERNELS, kernel_target=normal(1, F, H, D + 1))
    yield (
        ShapeError,
        lambda: nn.gatv2_conv(A, X, KERNEL, KERNEL, KERNELS[1], edge_features=edges, edge_kernel=jnp.ones((2, H, D))),
    )
    yield (
        ShapeError,
        lambda: nn.gatv2_conv(
            A, X, KERNEL, KERNEL, KERNELS[1], edge_features=jnp.ones(A.nse), edge_kernel=jnp.ones((1, H, D))
        ),
    )
    yield ShapeError, lambda: nn.gin_conv(A, X, jnp.tanh, jnp.ones(N))
    yield ShapeError, lambda: nn.edge_conv(A, X, lambda x: x[:, :, None])
    yield ShapeError, lambda: PrunedLinear(4, 4, rngs=RNGS).prune(float("nan"))
    yield ShapeError, lambda: PrunedLinear(4, 4, rngs=RNGS)(jnp.ones(3))


def kernels_and_features_of_edges():
    yield DTypeError, lambda kernel: nn.gcn_conv(A, X, kernel), [None, "words", np.array([["a"]])]
    yield DTypeError, lambda: nn.gatv2_conv(A, X, KERNEL, KERNEL, None)
    P = A.pattern
    yield ShapeError, lambda: nn.gat_conv(P, X, normal(2, F, H), VECTOR, VECTOR)
    features, edge_kernel = normal(5, 3, 4), normal(6, 4, H, D)
    yield (
        ShapeError,
        lambda: nn.gatv2_conv(P, X, KERNEL, KERNEL, VECTOR, edge_features=features, edge_kernel=edge_kernel),
    )
    yield ShapeError, lambda: nn.gat_conv(graph_of(weights(N, M), "pattern"), (normal(1, M, F), X), *KERNELS)
    yield ShapeError, lambda: nn.transformer_conv(P, X, *THREE, gate=normal(5, 3 * H * D))
    yield ShapeError, lambda: nn.gat_conv(P, X, *KERNELS, dropout_rate=0.4)
    yield ShapeError, lambda: nn.gatv2_conv(P, X, KERNEL, KERNEL, VECTOR, dropout_rate=0.4)
    yield ShapeError, lambda: nn.transformer_conv(P, X, *THREE, dropout_rate=0.4)


def functions():
    ids = jnp.array([[1, 1, -1], [5, 20, 3], [-1, -1, 40]])
    yield ShapeError, lambda: nn.embedding_bag(normal(1, 20, 4), jnp.ones((2, 3)))
    yield ShapeError, lambda: nn.embedding_bag(normal(1, 20, 4), ids, jnp.ones(3))
    yield ShapeError, lambda: nn.route(normal(1, 4, 3), 4)
    yield ShapeError, lambda: nn.route(normal(1, 4, 3), 2, softmax_over="some")
    yield (
        ShapeError,
        lambda: nn.mixture_of_experts(
            normal(1, 4, 3), nn.route(normal(1, 4, 3), 1), normal(1, 3, 5, 6), normal(1, 3, 6, 5)
        ),
    )
    yield ShapeError, lambda: nn.top_k_activations(normal(1, 4, 3), 0)
    yield ShapeError, lambda: jsparse.nnx.BlockSparseLinear(24, 20, block=(5, 5), density=0.5, rngs=RNGS)
    yield ShapeError, lambda: nn.block_linear(normal(1, 4, 3), jsparse.zeros((2, 2, 2, 2)))
    yield ShapeError, lambda: nn.block_linear(normal(1, 4, 3), jsparse.zeros((3, 3, 3)))
    yield DTypeError, lambda: nn.block_linear(normal(1, 4, 6), normal(2, 2, 2, 3, 3))
    x, W = normal(1, 2, 5, 12), jsparse.random(jax.random.key(1), (12, 7), density=0.3)
    yield DTypeError, lambda: nn.linear(x, np.ones((12, 7)))
    yield ShapeError, lambda: nn.linear(x[..., :11], W)
    yield ShapeError, lambda: nn.linear(x, W, jnp.ones(6))
    yield ShapeError, lambda: nn.n_of_m(np.ones((12, 5)), 2, 5)
    yield ShapeError, lambda n, m: nn.n_of_m(x[0].T, n, m), [(0, 4), (5, 4), (True, 4), (1.0, 4), (1, -4)]
    yield DTypeError, lambda: nn.n_of_m(jsparse.asarray(x[0]), 1, 1)
    yield ShapeError, lambda: nn.gradual_sparsity(0, begin=3, end=3, final=0.5)
    yield ShapeError, lambda: nn.relative_bias(jnp.zeros((4, 6)), MASK)
    yield ShapeError, lambda: nn.relative_bias(jnp.zeros((4, 5)), np.ones((3, 3)))
    kernels = {name: Projection(normal(1, 6, 4, 3)) for name in ("query", "key", "value")}
    out = Projection(normal(2, 4, 3, 5))
    x = normal(1, 2, 8, 6)
    yield ShapeError, lambda: nn.multi_head_attention(x, x[..., :5], MASK, **kernels, out=out)
    wrong = Projection(normal(2, 4, 4, 5))
    yield ShapeError, lambda: nn.multi_head_attention(x, x, MASK, **kernels, out=wrong)


def in_linen(name, *sizes, **options):
    return getattr(jsparse.linen, name)(*sizes, **options).init(jax.random.key(0), A, X)


def sizes_and_options():
    yield ShapeError, lambda: jsparse.nnx.GCNConv(0, 3, rngs=RNGS)
    yield ShapeError, lambda: jsparse.nnx.GCNConv(F, -3, rngs=RNGS)
    yield ShapeError, lambda: jsparse.nnx.SAGEConv((F, 2.0), 3, rngs=RNGS)
    yield ShapeError, lambda: jsparse.nnx.SAGEConv(F, 3, reduction="median", rngs=RNGS)
    yield ShapeError, lambda: jsparse.nnx.EdgeConv(F, 3, 3, reduction="std", rngs=RNGS)
    yield ShapeError, lambda: jsparse.nnx.GINConv(F, 0, 3, rngs=RNGS)
    yield ShapeError, lambda: jsparse.nnx.GATConv(F, 3, heads=0, rngs=RNGS)
    yield ShapeError, lambda: jsparse.nnx.GATv2Conv(F, 3, edge_features=0, rngs=RNGS)
    yield ShapeError, lambda: jsparse.nnx.TransformerConv(F, 3, dropout_rate=1.5, rngs=RNGS)
    yield ShapeError, lambda: jsparse.nnx.RGCNConv(F, 3, 2, num_blocks=2, rngs=RNGS)
    yield ShapeError, lambda: jsparse.nnx.RGCNConv(F, 4, 2, num_bases=2, num_blocks=2, rngs=RNGS)
    yield ShapeError, lambda: SparseAttention(MASK, 0, 8, rngs=RNGS)
    yield ShapeError, lambda: SparseAttention(MASK, 2, 8, dropout_rate=-0.1, rngs=RNGS)
    yield ShapeError, lambda: SparseLinear(F, True, density=0.5, rngs=RNGS)
    yield ShapeError, lambda: jsparse.nnx.BlockSparseLinear(8, 8, block=(0, 2), density=0.5, rngs=RNGS)
    yield ShapeError, lambda: PrunedLinear(0, 8, rngs=RNGS)
    yield ShapeError, lambda: in_linen("TransformerConv", 3, heads=-1)
    yield ShapeError, lambda: in_linen("RGCNConv", 3, 2, num_blocks=3)


def other_input():
    yield ShapeError, lambda: jsparse.nnx.GCNConv(None, 3, rngs=RNGS)
    yield ShapeError, lambda: jsparse.nnx.GATConv(F, 3, heads=(4,), rngs=RNGS)
    yield ShapeError, lambda: jsparse.nnx.SAGEConv((4, 4, 4), 3, rngs=RNGS)
    yield ShapeError, lambda: jsparse.nnx.RGCNConv(F, 3, None, rngs=RNGS)
    yield ShapeError, lambda: SparseAttention(MASK, 2, 8, max_distance=2.5, rngs=RNGS)
    yield ShapeError, lambda: SparseAttention(jsparse.asarray(np.ones(8)), 2, 8, rngs=RNGS)
    yield DTypeError, lambda: SparseAttention(MASK, 2, 8, rngs=RNGS)("words")
    yield ShapeError, lambda: jsparse.nnx.TransformerBlock(MASK, 2, -1, rngs=RNGS)
    yield ShapeError, lambda: jsparse.nnx.TransformerBlock(MASK, 2, 8, mlp_features=0, rngs=RNGS)
    yield ShapeError, lambda: jsparse.nnx.TransformerBlock(MASK, 2, 8, out_features=1, rngs=RNGS)
    yield ShapeError, lambda: jsparse.nnx.TransformerBlock(MASK, 2, 8, rngs=RNGS)(jnp.ones((8, 3)))
    yield ShapeError, lambda: jsparse.nnx.TransformerEncoder(MASK, 0, 2, 8, rngs=RNGS)
    yield ShapeError, lambda: jsparse.nnx.BlockSparseLinear(8, 8, block=4, density=0.5, rngs=RNGS)
    yield ShapeError, lambda: SparseLinear(8, 8, density="3", rngs=RNGS)
    yield ShapeError, lambda: SparseLinear.of(A, jnp.ones(2))
    yield ShapeError, lambda: SparseLinear(8, 8, density=0.5, dynamic=True, rngs=RNGS).rewire(X, "3")
    yield DTypeError, lambda: SparseLinear(8, 8, density=0.5, dtype=jnp.bfloat16, rngs=RNGS)(None)
    yield ShapeError, lambda: PrunedLinear(8, 8, rngs=RNGS).prune("3")
    yield DTypeError, lambda: PrunedLinear(8, 8, rngs=RNGS)(None)
    yield DTypeError, lambda: jsparse.nnx.GCNConv(F, 3, dtype=jnp.int32, rngs=RNGS)
    yield DTypeError, lambda: in_linen("GATConv", 3, param_dtype=jnp.int8)
    yield DTypeError, lambda: jsparse.linen.GATConv(3).init(jax.random.key(0), A, X, edge_features="words")


def other_input_of_functions():
    yield ShapeError, lambda: nn.route(X, 2.5)
    yield ShapeError, lambda: nn.top_k_activations(X, 2.5)
    yield DTypeError, lambda: nn.embedding_bag(None, jnp.zeros((1, 1), int))
    yield DTypeError, lambda: nn.mixture_of_experts(X, None, jnp.ones((2, F, 4)), jnp.ones((2, 4, F)))
    yield ShapeError, lambda: nn.aggregate(A, X, [])
    yield ShapeError, lambda: nn.aggregate(A, X, 3)
    yield ShapeError, lambda: nn.pool(X, jnp.zeros(N, int), None)
    yield DTypeError, lambda: nn.transformer_conv(A, X, KERNEL, KERNEL, KERNEL)
    yield DTypeError, lambda: nn.transformer_conv(A, X, *THREE, edge_features=jnp.ones((A.nse, 2)))
    yield DTypeError, lambda: nn.gat_conv(A, X, KERNEL, VECTOR, VECTOR, edges=jnp.ones((5, 2)))
    yield ShapeError, lambda: nn.sage_conv(A, X, jnp.ones((F, 2)), reduction="pool", pool=(jnp.ones((F, F)),))
    yield DTypeError, lambda: jsparse.graph.unbatch(A)
    yield ShapeError, lambda: jsparse.nnx.GCNConv(F, 3, rngs=RNGS)(A, (X, X))
    yield ShapeError, lambda: jsparse.linen.GCNConv(3).init(jax.random.key(0), A, (X, X))
    layer = SparseAttention(MASK, 2, 8, rngs=RNGS)
    yield ShapeError, lambda: layer(jnp.ones((9, 8)))
    yield ShapeError, lambda: layer(jnp.ones((8, 8)), mask=np.ones((8, 8)))
    yield ShapeError, lambda: layer(jnp.ones((8, 8)), mask=jsparse.eye(6))
    yield ShapeError, lambda: layer(jnp.ones((8, 7)))
    yield ShapeError, lambda name: getattr(jsparse.nnx, name)(F, rngs=RNGS), ["GINConv", "EdgeConv"]
    edges = normal(3, A.nse, 4)
    for name in ("GATConv", "GATv2Conv", "TransformerConv"):
        yield ShapeError, lambda name: getattr(jsparse.nnx, name)(F, 3, rngs=RNGS)(A, X, edge_features=edges), [name]


class OwnLayer(nnx.Module):
    def __init__(self):
        self.kernel = nnx.Param(KERNEL)


def weights_of_layers():
    linear, x = nnx.Linear(2, 3, rngs=RNGS), jnp.ones(2)
    yield DTypeError, lambda: SparseLinear.of(linear, jnp.ones(3))
    yield ShapeError, lambda: SparseLinear.of(linear, sparsity=90)
    yield ShapeError, lambda: prune_model(linear, "0.9")
    yield DTypeError, lambda: SparseLinear.of(jnp.ones((2, 3)))
    yield DTypeError, lambda: SparseLinear.of(nnx.Embed(2, 3, rngs=RNGS))
    yield DTypeError, lambda: prune_model(nnx.Embed(2, 3, rngs=RNGS), 0.9)
    yield DTypeError, lambda: prune_model(linear, 0.9, where=nnx.PathContains("mlp"))
    yield DTypeError, lambda: prune_model(linear, lambda path, layer: 0.5, across_layers=True)
    yield DTypeError, lambda: prune_model(linear, 0.5, block=(2, 2), dynamic=True)
    yield DTypeError, lambda: prune_model(linear, 0.5, block=(2, 2), format="csc")
    yield ShapeError, lambda: prune_model(linear, 0.5, block=(0, 2))
    yield DTypeError, lambda: prune_model(linear, 0.5, block=(5, 7))
    yield DTypeError, lambda: prune_model(linear, 0.5, modules=nnx.Linear)
    yield DTypeError, lambda: prune_model(OwnLayer(), 0.5)
    graph_layer = jsparse.nnx.GATConv(F, 2, rngs=nnx.Rngs(0))
    yield DTypeError, lambda: prune_model(graph_layer, 0.5, format="csr")
    yield ShapeError, lambda: nnx.jit(lambda layer: prune_model(layer, 0.5)[0](A, X))(graph_layer)
    yield DTypeError, lambda: jsparse.nnx.SparseParam(A)[0]
    yield ShapeError, lambda: jsparse.nnx.BlockSparseLinear.of(linear, block=(5, 7))
    yield ShapeError, lambda: jsparse.nnx.BlockSparseLinear.of(linear, block=(2, 2), sparsity=90)
    yield ShapeError, lambda: jsparse.nnx.BlockSparseLinear.of(linear, block=(2, 2, 2))
    yield PatternError, lambda: jsparse.nnx.rigl_step(linear, lambda model: 0.0, fraction=0.1)
    yield ShapeError, lambda: jsparse.nnx.rigl_step(linear, lambda model: 0.0, fraction=1.5)
    yield ShapeError, lambda: jsparse.nnx.rigl_step(linear, lambda model: 0.0, fraction="all")
    yield ShapeError, lambda: nnx.jit(lambda layer: SparseLinear.of(layer)(x))(linear)
    yield NotYetSupportedError, lambda: SparseLinear.of(linear)(x, jax.P("x"))
    general = SparseLinear.of(nnx.LinearGeneral((4, 4), (5,), axis=(-2, -1), rngs=RNGS), sparsity=0.5)
    yield ShapeError, lambda: general(jnp.ones((3, 5, 16)))
    by_columns, by_rows = (SparseLinear.of(linear, sparsity=0.5, format=format) for format in ("csc", "csr"))
    yield PatternError, lambda: nnx.update(by_columns, nnx.state(by_rows))
    for shape in ((24, 20), (23, 20)):
        ones = jsparse.asarray(np.ones(shape, np.float32), format="bsr(4, 5)")
        blocks = ones.pattern.on_levels
        other = jsparse.nnx.SparseParam(jsparse.SparseTensor(jnp.ones(blocks.nse), blocks))
        own = jsparse.nnx.SparseParam(ones.T if shape == (24, 20) else ones)
        yield PatternError, lambda own, other: nnx.update(own, nnx.state(other)), [(own, other)]
    pruned = PrunedLinear(16, 10, rngs=RNGS)
    yield ShapeError, lambda: nnx.jit(lambda layer: layer.to_sparse()(jnp.ones((3, 16))))(pruned)
    yield ShapeError, lambda: pruned.prune_n_of_m(1.5, 4)
    scores, key = jnp.ones((20, 6)), jax.random.key(0)
    yield PatternError, lambda: SparseLinear(20, 6, density=0.3, rngs=RNGS).rewire(scores, 5)
    dynamic = SparseLinear(20, 6, density=0.3, dynamic=True, rngs=RNGS)
    yield ShapeError, lambda: dynamic.rewire(scores, 37)
    yield DTypeError, lambda: SparseLinear.of(jnp.ones((20, 6)))
    yield ShapeError, lambda: SparseLinear(20, 6, density=0, rngs=RNGS)
    yield ShapeError, lambda: SparseAttention(MASK, 3, 8, rngs=RNGS)
    yield ShapeError, lambda: SparseAttention(np.ones((12, 12)), 4, 8, rngs=RNGS)
    yield ShapeError, lambda: jsparse.linen.SparseAttention(MASK, 3).init(key, jnp.ones((2, 8, 8)))
    yield ShapeError, lambda: jsparse.linen.SparseAttention(np.ones((8, 8)), 4).init(key, jnp.ones((2, 8, 8)))
    yield ShapeError, lambda: jsparse.linen.SparseLinear(pattern=np.ones((2, 2))).init(key, X)
    yield ShapeError, lambda: jsparse.linen.SparseLinear(pattern=jsparse.eye(8, 6).pattern).init(key, X)


def decoding():
    causal = jsparse.pattern.causal(20, before=4)
    layer, x = SparseAttention(causal, 4, 16, rngs=RNGS, decode=True), jnp.ones((2, 20, 16))
    yield ShapeError, lambda: SparseAttention(causal, 4, 16, rngs=RNGS)(jnp.ones((2, 21, 16)))
    yield ShapeError, lambda: layer(x[:, :1])
    layer.init_cache((2, 19, 16))
    yield ShapeError, lambda: layer(x[:, :1])
    layer.init_cache(x.shape)
    yield ShapeError, lambda: layer(x[:, :0])
    yield ShapeError, lambda: layer(jnp.concatenate([x, x], axis=1))
    yield ShapeError, lambda: layer(x[:, :1], x)
    for mask in (jsparse.pattern.window(20, 2), jsparse.pattern.causal(19, 20)):
        yield PatternError, lambda mask: layer(x[:, :1], mask=mask), [mask]


def heterogeneous_layers():
    writes, cites = ("author", "writes", "paper"), ("paper", "cites", "paper")
    shapes = {writes: (6, 5), cites: (6, 6)}
    graphs = {relation: jsparse.asarray(weights(*shape)) for relation, shape in shapes.items()}
    x, convs = {"author": normal(1, 5, 3), "paper": normal(2, 6, 4)}, {writes: nn.SAGEConv((3, 4), 2)}
    convs[cites] = nn.GCNConv(4, 2)

    def run(graph, x, convs=convs):
        layer = nn.HeteroConv(convs)
        return layer.apply(layer.init(jax.random.key(0)), graph, x)

    yield ShapeError, lambda: nn.HeteroConv({})
    yield ShapeError, lambda: nn.HeteroConv({"cites": convs[cites]})
    yield DTypeError, lambda: nn.HeteroConv({cites: jnp.tanh})
    yield ShapeError, lambda: nn.HeteroConv({("a__b", "c", "d"): convs[writes], ("a", "b__c", "d"): convs[writes]})
    yield ShapeError, lambda: nn.HeteroConv({writes: nn.GATConv((3, 4), 2)})
    yield ShapeError, lambda: nn.HeteroConv(convs, aggr="median")
    yield DTypeError, lambda: run(graphs[cites], x)
    yield DTypeError, lambda: run(graphs, x["paper"])
    yield ShapeError, lambda: run({}, x)
    yield ShapeError, lambda: run(graphs, {"paper": x["paper"]})
    yield ShapeError, lambda: run(graphs, {**x, "author": x["paper"]})
    yield ShapeError, lambda: run(graphs, x, {writes: convs[writes], cites: nn.GCNConv(4, 3)})
