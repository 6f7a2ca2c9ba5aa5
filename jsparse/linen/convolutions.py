"""Graph convolutions for Linen."""

from __future__ import annotations

from typing import Any

from jsparse.linen.graph_layer import GraphLayer
from jsparse.nn.definitions import GCN, GIN, RGCN, SAGE, Definition, Edge

__all__ = ["EdgeConv", "GCNConv", "GINConv", "RGCNConv", "SAGEConv"]


class GCNConv(GraphLayer):
    """D^-1/2 (A + I) D^-1/2 x W + b, as `jsparse.nn.gcn_conv` computes it (Kipf and Welling, 2017).

        >>> graph, x = jsparse.random(jax.random.key(0), (6, 6), density=0.5), jnp.ones((6, 4))
        >>> layer = jsparse.linen.GCNConv(2)
        >>> variables = layer.init(jax.random.key(1), graph, x)
        >>> layer.apply(variables, graph, x).shape
        (6, 2)

    Attributes:
        out_features: of the result.
        use_bias: whether there is a bias.
        self_loops: whether I is added; an existing self-loop adds to it.
        normalize: whether there are the factors D^-1/2.
        dtype, param_dtype, kernel_init, attention_init, bias_init: as layers of Flax have them.

    Calls raise ShapeError for shapes that do not fit, and DTypeError for a dense graph.
    """

    out_features: int
    use_bias: bool = True
    self_loops: bool = True
    normalize: bool = True

    def definition(self, inputs: Any, edge_inputs: int | None) -> Definition:
        """The layer as a value."""
        return GCN(
            inputs=inputs,
            out=self.out_features,
            use_bias=self.use_bias,
            self_loops=self.self_loops,
            normalize=self.normalize,
        )


class SAGEConv(GraphLayer):
    """(reduction over neighbours) W + x R + b, as `jsparse.nn.sage_conv` computes it (Hamilton et al., 2017).

        >>> graph, x = jsparse.random(jax.random.key(0), (6, 6), density=0.5), jnp.ones((6, 4))
        >>> layer = jsparse.linen.SAGEConv(2)
        >>> variables = layer.init(jax.random.key(1), graph, x)
        >>> layer.apply(variables, graph, x).shape
        (6, 2)

    Attributes:
        out_features: of the result.
        reduction: "mean", "sum", "max", or "pool" for maxima of relu(x P + p).
        pool_features: of x P; by default those of x.
        use_root: whether x R is added.
        use_bias: whether there is a bias.
        normalize: whether results are divided by their Euclidean norms.
        dtype, param_dtype, kernel_init, attention_init, bias_init: as layers of Flax have them.

    Calls raise ShapeError for shapes that do not fit, and DTypeError for a dense graph.
    """

    out_features: int
    reduction: str = "mean"
    pool_features: int | None = None
    use_root: bool = True
    use_bias: bool = True
    normalize: bool = False

    def definition(self, inputs: Any, edge_inputs: int | None) -> Definition:
        """The layer as a value."""
        return SAGE(
            inputs=inputs,
            out=self.out_features,
            reduction=self.reduction,
            pooled=self.pool_features,
            use_root=self.use_root,
            use_bias=self.use_bias,
            normalize=self.normalize,
        )


class GINConv(GraphLayer):
    """mlp((1 + ε) x + Σ over neighbours), as `jsparse.nn.gin_conv` computes it (Xu et al., 2019).

    The function has two linear layers, and relu between them.

        >>> graph, x = jsparse.random(jax.random.key(0), (6, 6), density=0.5), jnp.ones((6, 4))
        >>> layer = jsparse.linen.GINConv(8, 2)
        >>> variables = layer.init(jax.random.key(1), graph, x)
        >>> layer.apply(variables, graph, x).shape
        (6, 2)

    Attributes:
        hidden_features: between the layers. It may be left out, and is out_features then.
        out_features: of the result.
        eps: ε.
        train_eps: whether ε is a parameter.
        dtype, param_dtype, kernel_init, attention_init, bias_init: as layers of Flax have them.

    Calls raise ShapeError for shapes that do not fit, and DTypeError for a dense graph.
    """

    hidden_features: int | None = None
    out_features: int | None = None
    eps: float = 0.0
    train_eps: bool = False

    def definition(self, inputs: Any, edge_inputs: int | None) -> Definition:
        """The layer as a value."""
        return GIN(
            inputs=inputs, hidden=self.hidden_features, out=self.out_features, eps=self.eps, train_eps=self.train_eps
        )


class EdgeConv(GraphLayer):
    """A reduction of mlp([x[i], x[j] - x[i]]) over neighbours j, as `jsparse.nn.edge_conv` computes it.

    Wang et al., 2019. The function has two linear layers, and relu between them.

        >>> graph, x = jsparse.random(jax.random.key(0), (6, 6), density=0.5), jnp.ones((6, 4))
        >>> layer = jsparse.linen.EdgeConv(8, 2)
        >>> variables = layer.init(jax.random.key(1), graph, x)
        >>> layer.apply(variables, graph, x).shape
        (6, 2)

    Attributes:
        hidden_features: between the layers. It may be left out, and is out_features then.
        out_features: of the result.
        reduction: "max", "mean" or "sum".
        dtype, param_dtype, kernel_init, attention_init, bias_init: as layers of Flax have them.

    Calls raise ShapeError for shapes that do not fit, and DTypeError for a dense graph.
    """

    hidden_features: int | None = None
    out_features: int | None = None
    reduction: str = "max"

    def definition(self, inputs: Any, edge_inputs: int | None) -> Definition:
        """The layer as a value."""
        return Edge(inputs=inputs, hidden=self.hidden_features, out=self.out_features, reduction=self.reduction)


class RGCNConv(GraphLayer):
    """A kernel for each relation of a graph (relations, targets, sources), as `jsparse.nn.rgcn_conv` computes it.

    Schlichtkrull et al., 2018.

        >>> graph, x = jsparse.random(jax.random.key(0), (3, 6, 6), density=0.3), jnp.ones((6, 4))
        >>> layer = jsparse.linen.RGCNConv(2, 3)
        >>> variables = layer.init(jax.random.key(1), graph, x)
        >>> layer.apply(variables, graph, x).shape
        (6, 2)

    Attributes:
        out_features: of the result.
        num_relations: of the graph.
        num_bases: if given, kernels are combinations of so many.
        num_blocks: if given, kernels are block-diagonal, with so many blocks.
        use_root: whether x R is added.
        use_bias: whether there is a bias.
        normalize: whether neighbours of a relation are averaged.
        dtype, param_dtype, kernel_init, attention_init, bias_init: as layers of Flax have them.

    Calls raise ShapeError for shapes that do not fit, and DTypeError for a dense graph.
    """

    out_features: int
    num_relations: int
    num_bases: int | None = None
    num_blocks: int | None = None
    use_root: bool = True
    use_bias: bool = True
    normalize: bool = True

    def definition(self, inputs: Any, edge_inputs: int | None) -> Definition:
        """The layer as a value."""
        return RGCN(
            inputs=inputs,
            out=self.out_features,
            relations=self.num_relations,
            bases=self.num_bases,
            blocks=self.num_blocks,
            use_root=self.use_root,
            use_bias=self.use_bias,
            normalize=self.normalize,
        )
