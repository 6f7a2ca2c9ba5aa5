"""The graph layers of `jsparse.nn` as modules. Written by `python tools/stubs.py`."""

from flax import nnx
from jax.typing import DTypeLike

from jsparse.nn.hetero import Convs
from jsparse.nn.layer import Initializer
from jsparse.nnx.graph_layer import GraphLayer

__all__ = [
    "ChebConv",
    "EdgeConv",
    "GATConv",
    "GATv2Conv",
    "GCNConv",
    "GINConv",
    "HeteroConv",
    "RGCNConv",
    "SAGEConv",
    "TransformerConv",
]

class ChebConv(GraphLayer):
    def __init__(
        self,
        in_features: int,
        out_features: int,
        order: int,
        *,
        use_bias: bool = True,
        normalize: bool = True,
        lambda_max: float | None = None,
        rngs: nnx.Rngs,
        dtype: DTypeLike | None = None,
        param_dtype: DTypeLike = ...,
        kernel_init: Initializer | None = None,
        attention_init: Initializer | None = None,
        bias_init: Initializer | None = None,
    ) -> None: ...

class EdgeConv(GraphLayer):
    def __init__(
        self,
        in_features: int | tuple[int, int],
        hidden_features: int | None = None,
        out_features: int | None = None,
        *,
        reduction: str = "max",
        rngs: nnx.Rngs,
        dtype: DTypeLike | None = None,
        param_dtype: DTypeLike = ...,
        kernel_init: Initializer | None = None,
        attention_init: Initializer | None = None,
        bias_init: Initializer | None = None,
    ) -> None: ...

class GATConv(GraphLayer):
    def __init__(
        self,
        in_features: int | tuple[int, int],
        out_features: int,
        *,
        heads: int = 1,
        concat: bool = True,
        edge_features: int | None = None,
        use_bias: bool = True,
        dropout_rate: float = 0.0,
        negative_slope: float = 0.2,
        self_loops: bool = True,
        rngs: nnx.Rngs,
        dtype: DTypeLike | None = None,
        param_dtype: DTypeLike = ...,
        kernel_init: Initializer | None = None,
        attention_init: Initializer | None = None,
        bias_init: Initializer | None = None,
    ) -> None: ...

class GATv2Conv(GraphLayer):
    def __init__(
        self,
        in_features: int | tuple[int, int],
        out_features: int,
        *,
        heads: int = 1,
        concat: bool = True,
        edge_features: int | None = None,
        use_bias: bool = True,
        dropout_rate: float = 0.0,
        share_weights: bool = False,
        negative_slope: float = 0.2,
        self_loops: bool = True,
        rngs: nnx.Rngs,
        dtype: DTypeLike | None = None,
        param_dtype: DTypeLike = ...,
        kernel_init: Initializer | None = None,
        attention_init: Initializer | None = None,
        bias_init: Initializer | None = None,
    ) -> None: ...

class GCNConv(GraphLayer):
    def __init__(
        self,
        in_features: int | tuple[int, int],
        out_features: int,
        *,
        use_bias: bool = True,
        self_loops: bool = True,
        normalize: bool = True,
        rngs: nnx.Rngs,
        dtype: DTypeLike | None = None,
        param_dtype: DTypeLike = ...,
        kernel_init: Initializer | None = None,
        attention_init: Initializer | None = None,
        bias_init: Initializer | None = None,
    ) -> None: ...

class GINConv(GraphLayer):
    def __init__(
        self,
        in_features: int | tuple[int, int],
        hidden_features: int | None = None,
        out_features: int | None = None,
        *,
        eps: float = 0.0,
        train_eps: bool = False,
        rngs: nnx.Rngs,
        dtype: DTypeLike | None = None,
        param_dtype: DTypeLike = ...,
        kernel_init: Initializer | None = None,
        attention_init: Initializer | None = None,
        bias_init: Initializer | None = None,
    ) -> None: ...

class HeteroConv(GraphLayer):
    def __init__(
        self,
        convs: Convs,
        *,
        aggr: str | None = "sum",
        rngs: nnx.Rngs,
        dtype: DTypeLike | None = None,
        param_dtype: DTypeLike = ...,
        kernel_init: Initializer | None = None,
        attention_init: Initializer | None = None,
        bias_init: Initializer | None = None,
    ) -> None: ...

class RGCNConv(GraphLayer):
    def __init__(
        self,
        in_features: int | tuple[int, int],
        out_features: int,
        num_relations: int,
        *,
        num_bases: int | None = None,
        num_blocks: int | None = None,
        use_root: bool = True,
        use_bias: bool = True,
        normalize: bool = True,
        rngs: nnx.Rngs,
        dtype: DTypeLike | None = None,
        param_dtype: DTypeLike = ...,
        kernel_init: Initializer | None = None,
        attention_init: Initializer | None = None,
        bias_init: Initializer | None = None,
    ) -> None: ...

class SAGEConv(GraphLayer):
    def __init__(
        self,
        in_features: int | tuple[int, int],
        out_features: int,
        *,
        reduction: str = "mean",
        pool_features: int | None = None,
        use_root: bool = True,
        use_bias: bool = True,
        normalize: bool = False,
        rngs: nnx.Rngs,
        dtype: DTypeLike | None = None,
        param_dtype: DTypeLike = ...,
        kernel_init: Initializer | None = None,
        attention_init: Initializer | None = None,
        bias_init: Initializer | None = None,
    ) -> None: ...

class TransformerConv(GraphLayer):
    def __init__(
        self,
        in_features: int | tuple[int, int],
        out_features: int,
        *,
        heads: int = 1,
        concat: bool = True,
        edge_features: int | None = None,
        use_bias: bool = True,
        dropout_rate: float = 0.0,
        beta: bool = False,
        use_root: bool = True,
        rngs: nnx.Rngs,
        dtype: DTypeLike | None = None,
        param_dtype: DTypeLike = ...,
        kernel_init: Initializer | None = None,
        attention_init: Initializer | None = None,
        bias_init: Initializer | None = None,
    ) -> None: ...
