"""Layers of graph attention as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax

from jsparse.nn.attention import Projection
from jsparse.nn.definitions.parameters import Arrays, Parameter, bias_of, check_sizes, chosen, pair
from jsparse.nn.graph_attention import gat_conv, gatv2_conv, transformer_conv
from jsparse.nn.graph_attention.gat import EdgeAttention
from jsparse.ops.attention.dropout import check_rate

__all__ = ["GAT", "GATv2", "Transformer"]


@dataclass(frozen=True, slots=True)
class GAT:
    """`gat_conv`. A pair of inputs has two kernels."""

    inputs: int | tuple[int, int]
    dim: int
    heads: int = 1
    concat: bool = True
    edge_inputs: int | None = None
    use_bias: bool = True
    negative_slope: float = 0.2
    self_loops: bool = True
    dropout_rate: float = 0.0

    def __post_init__(self) -> None:
        _check("GATConv", self)

    def parameters(self) -> dict[str, Parameter]:
        source, target = pair(self.inputs)
        heads, edges = (self.heads, self.dim), self.edge_inputs
        vector = Parameter(heads, "attention")
        return chosen(
            kernel=Parameter((source, *heads)),
            kernel_target=Parameter((target, *heads)) if isinstance(self.inputs, tuple) else None,
            attention_source=vector,
            attention_target=vector,
            edge_kernel=None if edges is None else Parameter((edges, *heads)),
            attention_edge=None if edges is None else vector,
            bias=bias_of(self.dim * (self.heads if self.concat else 1), self.use_bias),
        )

    def apply(self, p: Arrays, graph: Any, x: Any, *, edge_features: Any = None, dropout_key: Any = None) -> jax.Array:
        edges = None
        if edge_features is not None:
            edges = EdgeAttention(edge_features, p["edge_kernel"], p["attention_edge"])
        return gat_conv(
            graph,
            x,
            p["kernel"],
            p["attention_source"],
            p["attention_target"],
            p.get("bias"),
            kernel_target=p.get("kernel_target"),
            edges=edges,
            concat=self.concat,
            negative_slope=self.negative_slope,
            self_loops=self.self_loops,
            dropout_rate=0.0 if dropout_key is None else self.dropout_rate,
            dropout_key=dropout_key,
        )


@dataclass(frozen=True, slots=True)
class GATv2:
    """`gatv2_conv`, with one kernel for sources and targets if `share_weights`."""

    inputs: int | tuple[int, int]
    dim: int
    heads: int = 1
    concat: bool = True
    edge_inputs: int | None = None
    use_bias: bool = True
    share_weights: bool = False
    negative_slope: float = 0.2
    self_loops: bool = True
    dropout_rate: float = 0.0

    def __post_init__(self) -> None:
        _check("GATv2Conv", self)

    def parameters(self) -> dict[str, Parameter]:
        source, target = pair(self.inputs)
        heads, own = (self.heads, self.dim), not self.share_weights
        bias = Parameter(heads, "bias") if self.use_bias else None
        return chosen(
            kernel_source=Parameter((source, *heads)),
            bias_source=bias,
            kernel_target=Parameter((target, *heads)) if own else None,
            bias_target=bias if own else None,
            attention=Parameter(heads, "attention"),
            edge_kernel=None if self.edge_inputs is None else Parameter((self.edge_inputs, *heads)),
            bias=bias_of(self.dim * (self.heads if self.concat else 1), self.use_bias),
        )

    def apply(self, p: Arrays, graph: Any, x: Any, *, edge_features: Any = None, dropout_key: Any = None) -> jax.Array:
        side = "source" if self.share_weights else "target"
        return gatv2_conv(
            graph,
            x,
            p["kernel_source"],
            p[f"kernel_{side}"],
            p["attention"],
            p.get("bias"),
            bias_source=p.get("bias_source"),
            bias_target=p.get(f"bias_{side}"),
            edge_features=edge_features,
            edge_kernel=p.get("edge_kernel"),
            concat=self.concat,
            negative_slope=self.negative_slope,
            self_loops=self.self_loops,
            dropout_rate=0.0 if dropout_key is None else self.dropout_rate,
            dropout_key=dropout_key,
        )


@dataclass(frozen=True, slots=True)
class Transformer:
    """`transformer_conv`."""

    inputs: int | tuple[int, int]
    dim: int
    heads: int = 1
    concat: bool = True
    beta: bool = False
    edge_inputs: int | None = None
    use_root: bool = True
    use_bias: bool = True
    dropout_rate: float = 0.0

    def __post_init__(self) -> None:
        _check("TransformerConv", self)

    def parameters(self) -> dict[str, Parameter]:
        source, target = pair(self.inputs)
        heads, out = (self.heads, self.dim), self.dim * (self.heads if self.concat else 1)
        bias = Parameter(heads, "bias") if self.use_bias else None
        return chosen(
            query=Parameter((target, *heads)),
            query_bias=bias,
            key=Parameter((source, *heads)),
            key_bias=bias,
            value=Parameter((source, *heads)),
            value_bias=bias,
            root=Parameter((target, out)) if self.use_root else None,
            root_bias=bias_of(out, self.use_root and self.use_bias),
            gate=Parameter((3 * out, 1)) if self.use_root and self.beta else None,
            edge_kernel=None if self.edge_inputs is None else Parameter((self.edge_inputs, *heads)),
        )

    def apply(self, p: Arrays, graph: Any, x: Any, *, edge_features: Any = None, dropout_key: Any = None) -> jax.Array:
        root = Projection(p["root"], p.get("root_bias")) if self.use_root else None
        return transformer_conv(
            graph,
            x,
            Projection(p["query"], p.get("query_bias")),
            Projection(p["key"], p.get("key_bias")),
            Projection(p["value"], p.get("value_bias")),
            root,
            gate=p["gate"][:, 0] if "gate" in p else None,
            edge_features=edge_features,
            edge_kernel=p.get("edge_kernel"),
            concat=self.concat,
            dropout_rate=0.0 if dropout_key is None else self.dropout_rate,
            dropout_key=dropout_key,
        )


def _check(layer: str, made: GAT | GATv2 | Transformer) -> None:
    check_sizes(
        layer,
        pairs=["in_features"],
        optional=["edge_features"],
        edge_features=made.edge_inputs,
        in_features=made.inputs,
        out_features=made.dim,
        heads=made.heads,
    )
    check_rate(made.dropout_rate, layer)
