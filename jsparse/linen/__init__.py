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
from jsparse.linen.convolutions import EdgeConv as EdgeConv
from jsparse.linen.convolutions import GCNConv as GCNConv
from jsparse.linen.convolutions import GINConv as GINConv
from jsparse.linen.convolutions import RGCNConv as RGCNConv
from jsparse.linen.convolutions import SAGEConv as SAGEConv
from jsparse.linen.graph_attention import GATConv as GATConv
from jsparse.linen.graph_attention import GATv2Conv as GATv2Conv
from jsparse.linen.graph_attention import TransformerConv as TransformerConv
from jsparse.linen.linear import SparseLinear as SparseLinear
