"""Graph attention: sums over neighbours, weighted by a softmax of scores."""

from jsparse.nn.graph_attention.gat import gat_conv as gat_conv
from jsparse.nn.graph_attention.gatv2 import gatv2_conv as gatv2_conv
from jsparse.nn.graph_attention.transformer import transformer_conv as transformer_conv
