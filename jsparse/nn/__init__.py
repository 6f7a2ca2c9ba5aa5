"""Layers as pure functions of arrays and sparse tensors. `jsparse.nnx` has them as modules of Flax."""

from jsparse.nn.attention import Projection as Projection
from jsparse.nn.attention import multi_head_attention as multi_head_attention
from jsparse.nn.attention import relative_bias as relative_bias
from jsparse.nn.linear import linear as linear
from jsparse.nn.sparsity import gradual_sparsity as gradual_sparsity
from jsparse.nn.sparsity import n_of_m as n_of_m
