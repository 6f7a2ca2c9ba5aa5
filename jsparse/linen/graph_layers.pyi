"""The graph layers of `jsparse.nn` as modules. Written by `python tools/stubs.py`."""

from typing import Any

from jsparse.linen.graph_layer import GraphLayer
from jsparse.nn.hetero import Convs
from jsparse.nn.layer import Initializer

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
        out_features: int,
        order: int,
        use_bias: bool = True,
        normalize: bool = True,
        lambda_max: float | None = None,
        parent: Any = ...,
        name: str | None = None,
        *,
        dtype: Any = None,
        param_dtype: Any = ...,
        kernel_init: Initializer = ...,
        attention_init: Initializer = ...,
        bias_init: Initializer = ...,
    ) -> None: ...

class EdgeConv(GraphLayer):
    def __init__(
        self,
        hidden_features: int | None = None,
        out_features: int | None = None,
        reduction: str = "max",
        parent: Any = ...,
        name: str | None = None,
        *,
        dtype: Any = None,
        param_dtype: Any = ...,
        kernel_init: Initializer = ...,
        attention_init: Initializer = ...,
        bias_init: Initializer = ...,
    ) -> None: ...

class GATConv(GraphLayer):
    def __init__(
        self,
        out_features: int,
        heads: int = 1,
        concat: bool = True,
        use_bias: bool = True,
        dropout_rate: float = 0.0,
        negative_slope: float = 0.2,
        self_loops: bool = True,
        parent: Any = ...,
        name: str | None = None,
        *,
        dtype: Any = None,
        param_dtype: Any = ...,
        kernel_init: Initializer = ...,
        attention_init: Initializer = ...,
        bias_init: Initializer = ...,
    ) -> None: ...

class GATv2Conv(GraphLayer):
    def __init__(
        self,
        out_features: int,
        heads: int = 1,
        concat: bool = True,
        use_bias: bool = True,
        dropout_rate: float = 0.0,
        share_weights: bool = False,
        negative_slope: float = 0.2,
        self_loops: bool = True,
        parent: Any = ...,
        name: str | None = None,
        *,
        dtype: Any = None,
        param_dtype: Any = ...,
        kernel_init: Initializer = ...,
        attention_init: Initializer = ...,
        bias_init: Initializer = ...,
    ) -> None: ...

class GCNConv(GraphLayer):
    def __init__(
        self,
        out_features: int,
        use_bias: bool = True,
        self_loops: bool = True,
        normalize: bool = True,
        parent: Any = ...,
        name: str | None = None,
        *,
        dtype: Any = None,
        param_dtype: Any = ...,
        kernel_init: Initializer = ...,
        attention_init: Initializer = ...,
        bias_init: Initializer = ...,
    ) -> None: ...

class GINConv(GraphLayer):
    def __init__(
        self,
        hidden_features: int | None = None,
        out_features: int | None = None,
        eps: float = 0.0,
        train_eps: bool = False,
        parent: Any = ...,
        name: str | None = None,
        *,
        dtype: Any = None,
        param_dtype: Any = ...,
        kernel_init: Initializer = ...,
        attention_init: Initializer = ...,
        bias_init: Initializer = ...,
    ) -> None: ...

class HeteroConv(GraphLayer):
    def __init__(
        self,
        convs: Convs,
        aggr: str | None = "sum",
        parent: Any = ...,
        name: str | None = None,
        *,
        dtype: Any = None,
        param_dtype: Any = ...,
        kernel_init: Initializer = ...,
        attention_init: Initializer = ...,
        bias_init: Initializer = ...,
    ) -> None: ...

class RGCNConv(GraphLayer):
    def __init__(
        self,
        out_features: int,
        num_relations: int,
        num_bases: int | None = None,
        num_blocks: int | None = None,
        use_root: bool = True,
        use_bias: bool = True,
        normalize: bool = True,
        parent: Any = ...,
        name: str | None = None,
        *,
        dtype: Any = None,
        param_dtype: Any = ...,
        kernel_init: Initializer = ...,
        attention_init: Initializer = ...,
        bias_init: Initializer = ...,
    ) -> None: ...

class SAGEConv(GraphLayer):
    def __init__(
        self,
        out_features: int,
        reduction: str = "mean",
        pool_features: int | None = None,
        use_root: bool = True,
        use_bias: bool = True,
        normalize: bool = False,
        parent: Any = ...,
        name: str | None = None,
        *,
        dtype: Any = None,
        param_dtype: Any = ...,
        kernel_init: Initializer = ...,
        attention_init: Initializer = ...,
        bias_init: Initializer = ...,
    ) -> None: ...

class TransformerConv(GraphLayer):
    def __init__(
        self,
        out_features: int,
        heads: int = 1,
        concat: bool = True,
        use_bias: bool = True,
        dropout_rate: float = 0.0,
        beta: bool = False,
        use_root: bool = True,
        parent: Any = ...,
        name: str | None = None,
        *,
        dtype: Any = None,
        param_dtype: Any = ...,
        kernel_init: Initializer = ...,
        attention_init: Initializer = ...,
        bias_init: Initializer = ...,
    ) -> None: ...
