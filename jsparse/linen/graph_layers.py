"""The Linen module of each graph layer of `jsparse.nn`. `tools/stubs.py` writes their signatures for type checkers."""

from jsparse import nn
from jsparse.linen.graph_layer import graph_layer
from jsparse.nn.modules import layers_of

_modules = {layer.__name__: graph_layer(layer) for layer in layers_of(nn)}
__all__ = list(_modules)
globals().update(_modules)
