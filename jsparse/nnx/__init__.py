"""SparseTensors in Flax NNX modules. This needs the extra `jsparse[flax]`; no other package of jsparse imports it."""

try:
    from flax import nnx as _nnx  # noqa: F401  an error that says what to install
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"Expected the package flax for jsparse.nnx, but {error.name} is not installed. Install it: pip install "
        "'jsparse[flax]'.",
        name=error.name,
    ) from error

from jsparse.nnx import graph_layers
from jsparse.nnx.attention import SparseAttention, TransformerBlock, TransformerEncoder
from jsparse.nnx.attention import SparseAttention as SparseSelfAttention
from jsparse.nnx.graph_layers import *  # noqa: F403
from jsparse.nnx.linear import BlockSparseLinear, SparseLinear
from jsparse.nnx.moments import restrict_state
from jsparse.nnx.param import SparseIndex, SparseParam
from jsparse.nnx.prune_model import KernelSummary, PruningSummary, prune_model
from jsparse.nnx.pruned import Mask, PrunedLinear
from jsparse.nnx.rigl import rigl_step

__all__ = [
    "BlockSparseLinear",
    "KernelSummary",
    "Mask",
    "PrunedLinear",
    "PruningSummary",
    "SparseAttention",
    "SparseIndex",
    "SparseLinear",
    "SparseParam",
    "SparseSelfAttention",
    "TransformerBlock",
    "TransformerEncoder",
    "prune_model",
    "restrict_state",
    "rigl_step",
]
__all__ += graph_layers.__all__
