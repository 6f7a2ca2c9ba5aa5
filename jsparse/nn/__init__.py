"""Layers as pure functions of arrays and sparse tensors, and graph layers as dataclasses of sizes and options.

`jsparse.nnx` and `jsparse.linen` have these layers as Flax modules.
"""

from jsparse.nn.aggregation import aggregate
from jsparse.nn.attention import Projection, multi_head_attention, relative_bias
from jsparse.nn.convolutions.cheb import ChebConv, cheb_conv
from jsparse.nn.convolutions.edge import EdgeConv, edge_conv
from jsparse.nn.convolutions.gcn import GCNConv, gcn_conv
from jsparse.nn.convolutions.gin import GINConv, gin_conv
from jsparse.nn.convolutions.rgcn import RGCNConv, basis_kernel, rgcn_conv
from jsparse.nn.convolutions.sage import SAGEConv, sage_conv
from jsparse.nn.decoding import KVCache, attention_step
from jsparse.nn.embedding import embedding_bag
from jsparse.nn.experts import Routing, mixture_of_experts, route, top_k_activations
from jsparse.nn.graph_attention.gat import EdgeAttention, GATConv, gat_conv
from jsparse.nn.graph_attention.gatv2 import GATv2Conv, gatv2_conv
from jsparse.nn.graph_attention.transformer import TransformerConv, transformer_conv
from jsparse.nn.hetero import HeteroConv
from jsparse.nn.layer import Layer
from jsparse.nn.linear import block_linear, linear
from jsparse.nn.pooling import attention_pool, pool
from jsparse.nn.sparsity import gradual_sparsity, n_of_m

__all__ = [
    "ChebConv",
    "EdgeAttention",
    "EdgeConv",
    "GATConv",
    "GATv2Conv",
    "GCNConv",
    "GINConv",
    "HeteroConv",
    "KVCache",
    "Layer",
    "Projection",
    "RGCNConv",
    "Routing",
    "SAGEConv",
    "TransformerConv",
    "aggregate",
    "attention_pool",
    "attention_step",
    "basis_kernel",
    "block_linear",
    "cheb_conv",
    "edge_conv",
    "embedding_bag",
    "gat_conv",
    "gatv2_conv",
    "gcn_conv",
    "gin_conv",
    "gradual_sparsity",
    "linear",
    "mixture_of_experts",
    "multi_head_attention",
    "n_of_m",
    "pool",
    "relative_bias",
    "rgcn_conv",
    "route",
    "sage_conv",
    "top_k_activations",
    "transformer_conv",
]
