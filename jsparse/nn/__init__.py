"""Layers as pure functions of arrays and sparse tensors, and graph layers as dataclasses of sizes and options.

`jsparse.nnx` and `jsparse.linen` have these layers as modules of Flax.
"""

from jsparse.nn.aggregation import aggregate as aggregate
from jsparse.nn.attention import Projection as Projection
from jsparse.nn.attention import multi_head_attention as multi_head_attention
from jsparse.nn.attention import relative_bias as relative_bias
from jsparse.nn.convolutions.cheb import ChebConv as ChebConv
from jsparse.nn.convolutions.cheb import cheb_conv as cheb_conv
from jsparse.nn.convolutions.edge import EdgeConv as EdgeConv
from jsparse.nn.convolutions.edge import edge_conv as edge_conv
from jsparse.nn.convolutions.gcn import GCNConv as GCNConv
from jsparse.nn.convolutions.gcn import gcn_conv as gcn_conv
from jsparse.nn.convolutions.gin import GINConv as GINConv
from jsparse.nn.convolutions.gin import gin_conv as gin_conv
from jsparse.nn.convolutions.rgcn import RGCNConv as RGCNConv
from jsparse.nn.convolutions.rgcn import basis_kernel as basis_kernel
from jsparse.nn.convolutions.rgcn import rgcn_conv as rgcn_conv
from jsparse.nn.convolutions.sage import SAGEConv as SAGEConv
from jsparse.nn.convolutions.sage import sage_conv as sage_conv
from jsparse.nn.decoding import KVCache as KVCache
from jsparse.nn.decoding import attention_step as attention_step
from jsparse.nn.embedding import embedding_bag as embedding_bag
from jsparse.nn.experts import Routing as Routing
from jsparse.nn.experts import mixture_of_experts as mixture_of_experts
from jsparse.nn.experts import route as route
from jsparse.nn.experts import top_k_activations as top_k_activations
from jsparse.nn.graph_attention.gat import EdgeAttention as EdgeAttention
from jsparse.nn.graph_attention.gat import GATConv as GATConv
from jsparse.nn.graph_attention.gat import gat_conv as gat_conv
from jsparse.nn.graph_attention.gatv2 import GATv2Conv as GATv2Conv
from jsparse.nn.graph_attention.gatv2 import gatv2_conv as gatv2_conv
from jsparse.nn.graph_attention.transformer import TransformerConv as TransformerConv
from jsparse.nn.graph_attention.transformer import transformer_conv as transformer_conv
from jsparse.nn.hetero import HeteroConv as HeteroConv
from jsparse.nn.layer import Layer as Layer
from jsparse.nn.linear import block_linear as block_linear
from jsparse.nn.linear import linear as linear
from jsparse.nn.pooling import attention_pool as attention_pool
from jsparse.nn.pooling import pool as pool
from jsparse.nn.sparsity import gradual_sparsity as gradual_sparsity
from jsparse.nn.sparsity import n_of_m as n_of_m
