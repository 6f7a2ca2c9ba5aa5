"""Layers of graph attention for NNX."""

from __future__ import annotations

from typing import Any

from flax import nnx

from jsparse.nn.definitions import GAT, GATv2, Transformer
from jsparse.nnx.graph_layer import GraphLayer

__all__ = ["GATConv", "GATv2Conv", "TransformerConv"]


class GATConv(GraphLayer):
    """Graph attention with heads, as `jsparse.nn.gat_conv` computes it (Veličković et al., 2018).

        >>> from flax import nnx
        >>> layer = jsparse.nnx.GATConv(4, 3, heads=2, rngs=nnx.Rngs(0))
        >>> layer(jsparse.random(jax.random.key(0), (6, 6), density=0.5), jnp.ones((6, 4))).shape
        (6, 6)

    Args:
        in_features: of x; a pair for sources and targets.
        out_features: of one head.
        heads: the number of heads.
        concat: whether heads are side by side; otherwise their mean is the result.
        edge_features: the features of edges, if there are any.
        use_bias: whether there are biases.
        negative_slope: of leaky_relu.
        self_loops: whether each node is its own neighbour.
        dropout_rate: of weights, in training.
        rngs: streams of random numbers; "params" and, for dropout, "dropout" are used.
        **options: `dtype`, `param_dtype`, `kernel_init`, `attention_init` and `bias_init`, as layers of Flax have
            them.

    Calls raise ShapeError for shapes that do not fit, and DTypeError for a dense graph.
    """

    def __init__(
        self,
        in_features: int | tuple[int, int],
        out_features: int,
        *,
        heads: int = 1,
        concat: bool = True,
        edge_features: int | None = None,
        use_bias: bool = True,
        negative_slope: float = 0.2,
        self_loops: bool = True,
        dropout_rate: float = 0.0,
        rngs: nnx.Rngs,
        **options: Any,
    ) -> None:
        definition = GAT(
            inputs=in_features,
            dim=out_features,
            heads=heads,
            concat=concat,
            edge_inputs=edge_features,
            use_bias=use_bias,
            negative_slope=negative_slope,
            self_loops=self_loops,
            dropout_rate=dropout_rate,
        )
        super().__init__(definition, rngs, **options)


class GATv2Conv(GraphLayer):
    """Graph attention whose scores depend on both ends together, as `jsparse.nn.gatv2_conv` computes it.

    Brody et al., 2022.

        >>> from flax import nnx
        >>> layer = jsparse.nnx.GATv2Conv(4, 3, heads=2, rngs=nnx.Rngs(0))
        >>> layer(jsparse.random(jax.random.key(0), (6, 6), density=0.5), jnp.ones((6, 4))).shape
        (6, 6)

    Args:
        in_features: of x; a pair for sources and targets.
        out_features: of one head.
        heads: the number of heads.
        concat: whether heads are side by side; otherwise their mean is the result.
        share_weights: whether sources and targets have one kernel.
        edge_features: the features of edges, if there are any.
        use_bias: whether there are biases.
        negative_slope: of leaky_relu.
        self_loops: whether each node is its own neighbour.
        dropout_rate: of weights, in training.
        rngs: streams of random numbers; "params" and, for dropout, "dropout" are used.
        **options: `dtype`, `param_dtype`, `kernel_init`, `attention_init` and `bias_init`, as layers of Flax have
            them.

    Calls raise ShapeError for shapes that do not fit, and DTypeError for a dense graph.
    """

    def __init__(
        self,
        in_features: int | tuple[int, int],
        out_features: int,
        *,
        heads: int = 1,
        concat: bool = True,
        share_weights: bool = False,
        edge_features: int | None = None,
        use_bias: bool = True,
        negative_slope: float = 0.2,
        self_loops: bool = True,
        dropout_rate: float = 0.0,
        rngs: nnx.Rngs,
        **options: Any,
    ) -> None:
        definition = GATv2(
            inputs=in_features,
            dim=out_features,
            heads=heads,
            concat=concat,
            share_weights=share_weights,
            edge_inputs=edge_features,
            use_bias=use_bias,
            negative_slope=negative_slope,
            self_loops=self_loops,
            dropout_rate=dropout_rate,
        )
        super().__init__(definition, rngs, **options)


class TransformerConv(GraphLayer):
    """Attention of products of queries and keys, plus x R, as `jsparse.nn.transformer_conv` computes it.

    Shi et al., 2021.

        >>> from flax import nnx
        >>> layer = jsparse.nnx.TransformerConv(4, 3, heads=2, rngs=nnx.Rngs(0))
        >>> layer(jsparse.random(jax.random.key(0), (6, 6), density=0.5), jnp.ones((6, 4))).shape
        (6, 6)

    Args:
        in_features: of x; a pair for sources and targets.
        out_features: of one head.
        heads: the number of heads.
        concat: whether heads are side by side; otherwise their mean is the result.
        beta: whether a gate chooses between neighbours and x R.
        use_root: whether x R is added.
        edge_features: the features of edges, if there are any.
        use_bias: whether there are biases.
        dropout_rate: of weights, in training.
        rngs: streams of random numbers; "params" and, for dropout, "dropout" are used.
        **options: `dtype`, `param_dtype`, `kernel_init`, `attention_init` and `bias_init`, as layers of Flax have
            them.

    Calls raise ShapeError for shapes that do not fit, and DTypeError for a dense graph.
    """

    def __init__(
        self,
        in_features: int | tuple[int, int],
        out_features: int,
        *,
        heads: int = 1,
        concat: bool = True,
        beta: bool = False,
        use_root: bool = True,
        edge_features: int | None = None,
        use_bias: bool = True,
        dropout_rate: float = 0.0,
        rngs: nnx.Rngs,
        **options: Any,
    ) -> None:
        definition = Transformer(
            inputs=in_features,
            dim=out_features,
            heads=heads,
            concat=concat,
            beta=beta,
            use_root=use_root,
            edge_inputs=edge_features,
            use_bias=use_bias,
            dropout_rate=dropout_rate,
        )
        super().__init__(definition, rngs, **options)
