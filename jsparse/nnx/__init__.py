"""SparseTensors in Flax NNX modules. It needs the extra `jsparse[flax]`, and no other package of jsparse imports it."""

try:
    from flax import nnx as _nnx  # noqa: F401  an error that says what to install
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"Expected the package flax for jsparse.nnx, but there is no {error.name}. Install it: pip install "
        "'jsparse[flax]'.",
        name=error.name,
    ) from error

from jsparse.nnx.attention import SparseAttention as SparseAttention
from jsparse.nnx.attention import SparseAttention as SparseSelfAttention  # noqa: F401  without a context
from jsparse.nnx.attention import TransformerBlock as TransformerBlock
from jsparse.nnx.attention import TransformerEncoder as TransformerEncoder
from jsparse.nnx.graph_layers import *  # noqa: F403
from jsparse.nnx.linear import BlockSparseLinear as BlockSparseLinear
from jsparse.nnx.linear import SparseLinear as SparseLinear
from jsparse.nnx.moments import restrict_state as restrict_state
from jsparse.nnx.param import SparseIndex as SparseIndex
from jsparse.nnx.param import SparseParam as SparseParam
from jsparse.nnx.prune_model import KernelSummary as KernelSummary
from jsparse.nnx.prune_model import PruningSummary as PruningSummary
from jsparse.nnx.prune_model import prune_model as prune_model
from jsparse.nnx.pruned import Mask as Mask
from jsparse.nnx.pruned import PrunedLinear as PrunedLinear
