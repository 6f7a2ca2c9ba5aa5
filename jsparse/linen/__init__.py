"""Layers with sparse operands for Flax Linen. The package needs the extra `jsparse[flax]`, as `jsparse.nnx` does."""

try:
    from flax import linen as _linen  # noqa: F401  an error that says what to install
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"Expected the package flax for jsparse.linen, but {error.name} is not installed. Install it: pip install "
        "'jsparse[flax]'.",
        name=error.name,
    ) from error

from jsparse.linen import graph_layers
from jsparse.linen.attention import SparseAttention, TransformerBlock, TransformerEncoder
from jsparse.linen.attention import SparseAttention as SparseSelfAttention
from jsparse.linen.graph_layers import *  # noqa: F403
from jsparse.linen.linear import SparseLinear

__all__ = ["SparseAttention", "SparseLinear", "SparseSelfAttention", "TransformerBlock", "TransformerEncoder"]
__all__ += graph_layers.__all__
