"""Graph convolutions for NNX."""

from __future__ import annotations

from typing import Any

from flax import nnx

from jsparse.nn.definitions import GCN, GIN, RGCN, SAGE, Edge
from jsparse.nnx.graph_layer import GraphLayer

__all__ = ["EdgeConv", "GCNConv", "GINConv", "RGCNConv", "SAGEConv"]


class GCNConv(GraphLayer):
    """D^-1/2 (A + I) D^-1/2 x W + b, as `jsparse.nn.gcn_conv` computes it (Kipf and Welling, 2017).

        >>> from flax import nnx
        >>> layer = jsparse.nnx.GCNConv(4, 2, rngs=nnx.Rngs(0))
        >>> layer(jsparse.random(jax.random.key(0), (6, 6), density=0.5), jnp.ones((6, 4))).shape
        (6, 2)

    Args:
        in_features: of x.
        out_features: of the result.
        use_bias: whether there is a bias.
        self_loops: whether I is added; an existing self-loop adds to it.
        normalize: whether there are the factors D^-1/2.
        rngs: streams of random numbers; "params" is used.
        **options: `dtype`, `param_dtype`, `kernel_init`, `attention_init` and `bias_init`, as layers of Flax have
            them.

    Calls raise ShapeError for shapes that do not fit, and DTypeError for a dense graph.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        use_bias: bool = True,
        self_loops: bool = True,
        normalize: bool = True,
        rngs: nnx.Rngs,
        **options: Any,
    ) -> None:
        definition = GCN(
            inputs=in_features, out=out_features, use_bias=use_bias, self_loops=self_loops, normalize=normalize
        )
        super().__init__(definition, rngs, **options)


class SAGEConv(GraphLayer):
    """(reduction over neighbours) W + x R + b, as `jsparse.nn.sage_conv` computes it (Hamilton et al., 2017).

        >>> from flax import nnx
        >>> layer = jsparse.nnx.SAGEConv(4, 2, rngs=nnx.Rngs(0))
        >>> layer(jsparse.random(jax.random.key(0), (6, 6), density=0.5), jnp.ones((6, 4))).shape
        (6, 2)

    Args:
        in_features: of x; a pair for sources and targets.
        out_features: of the result.
        reduction: "mean", "sum", "max", or "pool" for maxima of relu(x P + p).
        pool_features: of x P; by default those of x.
        use_root: whether x R is added.
        use_bias: whether there is a bias.
        normalize: whether results are divided by their Euclidean norms.
        rngs: streams of random numbers; "params" is used.
        **options: `dtype`, `param_dtype`, `kernel_init`, `attention_init` and `bias_init`, as layers of Flax have
            them.

    Calls raise ShapeError for shapes that do not fit, and DTypeError for a dense graph.
    """

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
        **options: Any,
    ) -> None:
        definition = SAGE(
            inputs=in_features,
            out=out_features,
            reduction=reduction,
            pooled=pool_features,
            use_root=use_root,
            use_bias=use_bias,
            normalize=normalize,
        )
        super().__init__(definition, rngs, **options)


class GINConv(GraphLayer):
    """mlp((1 + ε) x + Σ over neighbours), as `jsparse.nn.gin_conv` computes it (Xu et al., 2019).

    The function has two linear layers, and relu between them.

        >>> from flax import nnx
        >>> layer = jsparse.nnx.GINConv(4, 2, rngs=nnx.Rngs(0))  # or GINConv(4, 8, 2), with 8 in between
        >>> layer(jsparse.random(jax.random.key(0), (6, 6), density=0.5), jnp.ones((6, 4))).shape
        (6, 2)

    Args:
        in_features: of x.
        hidden_features: between the layers. It may be left out, and is out_features then.
        out_features: of the result.
        eps: ε.
        train_eps: whether ε is a parameter.
        rngs: streams of random numbers; "params" is used.
        **options: `dtype`, `param_dtype`, `kernel_init`, `attention_init` and `bias_init`, as layers of Flax have
            them.

    Calls raise ShapeError for shapes that do not fit, and DTypeError for a dense graph.
    """

    def __init__(
        self,
        in_features: int,
        hidden_features: int | None = None,
        out_features: int | None = None,
        *,
        eps: float = 0.0,
        train_eps: bool = False,
        rngs: nnx.Rngs,
        **options: Any,
    ) -> None:
        definition = GIN(inputs=in_features, hidden=hidden_features, out=out_features, eps=eps, train_eps=train_eps)
        super().__init__(definition, rngs, **options)


class EdgeConv(GraphLayer):
    """A reduction of mlp([x[i], x[j] - x[i]]) over neighbours j, as `jsparse.nn.edge_conv` computes it.

    Wang et al., 2019. The function has two linear layers, and relu between them.

        >>> from flax import nnx
        >>> layer = jsparse.nnx.EdgeConv(4, 2, rngs=nnx.Rngs(0))  # or EdgeConv(4, 8, 2), with 8 in between
        >>> layer(jsparse.random(jax.random.key(0), (6, 6), density=0.5), jnp.ones((6, 4))).shape
        (6, 2)

    Args:
        in_features: of x.
        hidden_features: between the layers. It may be left out, and is out_features then.
        out_features: of the result.
        reduction: "max", "mean" or "sum".
        rngs: streams of random numbers; "params" is used.
        **options: `dtype`, `param_dtype`, `kernel_init`, `attention_init` and `bias_init`, as layers of Flax have
            them.

    Calls raise ShapeError for shapes that do not fit, and DTypeError for a dense graph.
    """

    def __init__(
        self,
        in_features: int,
        hidden_features: int | None = None,
        out_features: int | None = None,
        *,
        reduction: str = "max",
        rngs: nnx.Rngs,
        **options: Any,
    ) -> None:
        definition = Edge(inputs=in_features, hidden=hidden_features, out=out_features, reduction=reduction)
        super().__init__(definition, rngs, **options)


class RGCNConv(GraphLayer):
    """A kernel for each relation of a graph (relations, targets, sources), as `jsparse.nn.rgcn_conv` computes it.

    Schlichtkrull et al., 2018.

        >>> from flax import nnx
        >>> layer = jsparse.nnx.RGCNConv(4, 2, 3, rngs=nnx.Rngs(0))
        >>> layer(jsparse.random(jax.random.key(0), (3, 6, 6), density=0.3), jnp.ones((6, 4))).shape
        (6, 2)

    Args:
        in_features: of x; a pair for sources and targets.
        out_features: of the result.
        num_relations: of the graph.
        num_bases: if given, kernels are combinations of so many.
        num_blocks: if given, kernels are block-diagonal, with so many blocks.
        use_root: whether x R is added.
        use_bias: whether there is a bias.
        normalize: whether neighbours of a relation are averaged.
        rngs: streams of random numbers; "params" is used.
        **options: `dtype`, `param_dtype`, `kernel_init`, `attention_init` and `bias_init`, as layers of Flax have
            them.

    Calls raise ShapeError for shapes that do not fit, and DTypeError for a dense graph.
    """

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
        **options: Any,
    ) -> None:
        definition = RGCN(
            inputs=in_features,
            out=out_features,
            relations=num_relations,
            bases=num_bases,
            blocks=num_blocks,
            use_root=use_root,
            use_bias=use_bias,
            normalize=normalize,
        )
        super().__init__(definition, rngs, **options)
