"""Layers with sparse operands for Flax Linen. It needs the extra `jsparse[flax]`, as `jsparse.nnx` does."""

try:
    from flax import linen as _linen  # noqa: F401  an error that says what to install
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"Expected the package flax for jsparse.linen, but there is no {error.name}. Install it: pip install "
        "'jsparse[flax]'.",
        name=error.name,
    ) from error

from jsparse.linen.attention import SparseAttention as SparseAttention
from jsparse.linen.attention import SparseAttention as SparseSelfAttention  # noqa: F401  without a context
from jsparse.linen.attention import TransformerBlock as TransformerBlock
from jsparse.linen.attention import TransformerEncoder as TransformerEncoder
from jsparse.linen.graph_layers import *  # noqa: F403
from jsparse.linen.linear import SparseLinear as SparseLinear
