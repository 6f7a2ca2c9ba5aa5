"""Layers of graph attention for Linen."""

from __future__ import annotations

from typing import Any

from jsparse.linen.graph_layer import GraphLayer
from jsparse.nn.definitions import GAT, Definition, GATv2, Transformer

__all__ = ["GATConv", "GATv2Conv", "TransformerConv"]


class GATConv(GraphLayer):
    """Graph attention with heads, as `jsparse.nn.gat_conv` computes it (Veličković et al., 2018).

        >>> graph, x = jsparse.random(jax.random.key(0), (6, 6), density=0.5), jnp.ones((6, 4))
        >>> layer = jsparse.linen.GATConv(3, heads=2)
        >>> variables = layer.init(jax.random.key(1), graph, x)
        >>> layer.apply(variables, graph, x).shape
        (6, 6)

    Attributes:
        out_features: of one head.
        heads: the number of heads.
        concat: whether heads are side by side; otherwise their mean is the result.
        use_bias: whether there are biases.
        negative_slope: of leaky_relu.
        self_loops: whether each node is its own neighbour.
        dropout_rate: of weights, in training.
        dtype, param_dtype, kernel_init, attention_init, bias_init: as layers of Flax have them.

    Calls raise ShapeError for shapes that do not fit, and DTypeError for a dense graph.
    """

    out_features: int
    heads: int = 1
    concat: bool = True
    use_bias: bool = True
    negative_slope: float = 0.2
    self_loops: bool = True
    dropout_rate: float = 0.0

    def definition(self, inputs: Any, edge_inputs: int | None) -> Definition:
        """The layer as a value."""
        return GAT(
            inputs=inputs,
            dim=self.out_features,
            heads=self.heads,
            concat=self.concat,
            use_bias=self.use_bias,
            negative_slope=self.negative_slope,
            self_loops=self.self_loops,
            dropout_rate=self.dropout_rate,
            edge_inputs=edge_inputs,
        )


class GATv2Conv(GraphLayer):
    """Graph attention whose scores depend on both ends together, as `jsparse.nn.gatv2_conv` computes it.

    Brody et al., 2022.

        >>> graph, x = jsparse.random(jax.random.key(0), (6, 6), density=0.5), jnp.ones((6, 4))
        >>> layer = jsparse.linen.GATv2Conv(3, heads=2)
        >>> variables = layer.init(jax.random.key(1), graph, x)
        >>> layer.apply(variables, graph, x).shape
        (6, 6)

    Attributes:
        out_features: of one head.
        heads: the number of heads.
        concat: whether heads are side by side; otherwise their mean is the result.
        share_weights: whether sources and targets have one kernel.
        use_bias: whether there are biases.
        negative_slope: of leaky_relu.
        self_loops: whether each node is its own neighbour.
        dropout_rate: of weights, in training.
        dtype, param_dtype, kernel_init, attention_init, bias_init: as layers of Flax have them.

    Calls raise ShapeError for shapes that do not fit, and DTypeError for a dense graph.
    """

    out_features: int
    heads: int = 1
    concat: bool = True
    share_weights: bool = False
    use_bias: bool = True
    negative_slope: float = 0.2
    self_loops: bool = True
    dropout_rate: float = 0.0

    def definition(self, inputs: Any, edge_inputs: int | None) -> Definition:
        """The layer as a value."""
        return GATv2(
            inputs=inputs,
            dim=self.out_features,
            heads=self.heads,
            concat=self.concat,
            share_weights=self.share_weights,
            use_bias=self.use_bias,
            negative_slope=self.negative_slope,
            self_loops=self.self_loops,
            dropout_rate=self.dropout_rate,
            edge_inputs=edge_inputs,
        )


class TransformerConv(GraphLayer):
    """Attention of products of queries and keys, plus x R, as `jsparse.nn.transformer_conv` computes it.

    Shi et al., 2021.

        >>> graph, x = jsparse.random(jax.random.key(0), (6, 6), density=0.5), jnp.ones((6, 4))
        >>> layer = jsparse.linen.TransformerConv(3, heads=2)
        >>> variables = layer.init(jax.random.key(1), graph, x)
        >>> layer.apply(variables, graph, x).shape
        (6, 6)

    Attributes:
        out_features: of one head.
        heads: the number of heads.
        concat: whether heads are side by side; otherwise their mean is the result.
        beta: whether a gate chooses between neighbours and x R.
        use_root: whether x R is added.
        use_bias: whether there are biases.
        dropout_rate: of weights, in training.
        dtype, param_dtype, kernel_init, attention_init, bias_init: as layers of Flax have them.

    Calls raise ShapeError for shapes that do not fit, and DTypeError for a dense graph.
    """

    out_features: int
    heads: int = 1
    concat: bool = True
    beta: bool = False
    use_root: bool = True
    use_bias: bool = True
    dropout_rate: float = 0.0

    def definition(self, inputs: Any, edge_inputs: int | None) -> Definition:
        """The layer as a value."""
        return Transformer(
            inputs=inputs,
            dim=self.out_features,
            heads=self.heads,
            concat=self.concat,
            beta=self.beta,
            use_root=self.use_root,
            use_bias=self.use_bias,
            dropout_rate=self.dropout_rate,
            edge_inputs=edge_inputs,
        )
