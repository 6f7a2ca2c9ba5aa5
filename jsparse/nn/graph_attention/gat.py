"""Graph attention networks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jsparse.errors import DTypeError, ShapeError, short_repr, shorten
from jsparse.formats import Pattern
from jsparse.graph.graphs import Graph, indices_of
from jsparse.nn.graph_attention.edges import (
    AttentionLayer,
    EdgeFeatures,
    check_edge_kernel,
    check_vectors,
    edges_to_attend,
    join_heads,
    over_neighbors,
    per_head,
)
from jsparse.nn.layer import Arrays, Parameter, bias_of, chosen, pair
from jsparse.nn.operands import (
    Features,
    at_edges,
    check_kernel,
    dense_sums,
    operands,
    product,
    round_to_operands,
    wide,
    wide_sums,
)
from jsparse.ops.attention.dropout import dropout_factors
from jsparse.ops.einsum import contract
from jsparse.ops.elementwise import functions
from jsparse.ops.fuse import fuse
from jsparse.tensor.dynamic_pattern import DynamicPattern
from jsparse.tensor.sparse_tensor import SparseTensor, TensorLike


class EdgeAttention(NamedTuple):
    """Features of edges (nse, edge_in), their kernel (edge_in, heads, dim), and attention vectors (heads, dim)."""

    features: Any
    kernel: Any
    attention: Any


def gat_conv(
    graph: Graph,
    x: Features,
    kernel: TensorLike,
    attention_source: ArrayLike,
    attention_target: ArrayLike,
    bias: ArrayLike | None = None,
    *,
    kernel_target: TensorLike | None = None,
    edges: EdgeAttention | None = None,
    concat: bool = True,
    negative_slope: float = 0.2,
    self_loops: bool = True,
    dropout_rate: float = 0.0,
    dropout_key: jax.Array | None = None,
) -> jax.Array:
    """Compute Σ over neighbours j of w[i, j, h] (x[j] W[h]), where w is a softmax over j of scores.

        score[i, j, h] = leaky_relu(s[h] · (x[j] W[h]) + t[h] · (x[i] W[h]))

        >>> P = jsparse.random(jax.random.key(0), (6, 6), density=0.5).pattern
        >>> vectors = jnp.ones((2, 3))
        >>> jsparse.nn.gat_conv(P, jnp.ones((6, 4)), jnp.ones((4, 2, 3)), vectors, vectors).shape
        (6, 6)

    Veličković et al., "Graph attention networks", 2018. Scores, softmax and sums are fused, forward and backward
    (see `jsparse.fuse`): on CPU, no array has an element for each edge and feature.

    Args:
        graph: a SparseTensor, whose weights are ignored, or a pattern (targets, sources), static or dynamic. Repeated
            edges share one score if their weights were added, and have separate scores if the edges were kept.
        x: features (nodes, in), or a pair (sources, in), (targets, target_in), sparse or dense.
        kernel: W, (in, heads, dim), sparse or dense, as all kernels here.
        attention_source, attention_target: s and t, (heads, dim).
        bias: (heads · dim,), or (dim,) without `concat`; or None.
        kernel_target: the kernel of the targets, (target_in, heads, dim), if it differs from `kernel`.
        edges: features f of edges, their kernel E and vectors e, which add e[h] · (f[i, j] E[h]) to the score.
            Self-loops have the mean of the features of the edges that end at the node.
        concat: whether the heads are side by side; otherwise their mean is the result.
        negative_slope: the slope of leaky_relu for negative scores.
        self_loops: whether each node is its own neighbour. In a graph with more sources than targets, the first
            sources are the targets, as in samples of neighbours.
        dropout_rate, dropout_key: the dropout rate of the weights w, and a key of random numbers.

    Returns an array (targets, heads · dim), or (targets, dim). Rows of nodes without neighbours are the bias.

    Raises ShapeError for shapes that do not fit, DTypeError for a dense graph.
    """
    if edges is not None and not isinstance(edges, EdgeAttention):
        raise DTypeError(f"Expected an EdgeAttention as edges= of gat_conv, but got {short_repr(edges)}.")
    graph, source, target = operands(graph, x, "gat_conv", sparse=True)
    kernel = check_kernel(kernel, source.shape[1], 3, "gat_conv")
    of_targets = check_kernel(
        kernel if kernel_target is None else kernel_target, target.shape[1], 3, "gat_conv", "kernel_target"
    )
    if of_targets.shape[1:] != kernel.shape[1:]:
        raise ShapeError(
            f"Expected kernel_target with the heads of the kernel {kernel.shape} in gat_conv, but got "
            f"{shorten(of_targets.shape)}."
        )
    heads = kernel.shape[1], kernel.shape[2]
    attention_source, attention_target = check_vectors(
        "gat_conv", heads, attention_source=attention_source, attention_target=attention_target
    )
    pattern, features = edges_to_attend(graph, None if edges is None else edges.features, self_loops, "gat_conv")
    sent = round_to_operands(per_head(source, kernel), source, kernel)
    of_source = product(source, _score_kernel(kernel, attention_source))  # and not s · sent: W s is small
    of_target = product(target, _score_kernel(of_targets, attention_target))
    of_edges = None
    if edges is not None:
        edge_kernel = check_edge_kernel(features, edges.kernel, sent, "gat_conv")
        (attention,) = check_vectors("gat_conv", heads, attention=edges.attention)
        of_edges = None if edge_kernel is None else _score_kernel(edge_kernel, attention)
    factors = dropout_factors((pattern.nse, kernel.shape[1]), dropout_rate, dropout_key, "gat_conv")
    sums = _attention(float(negative_slope))(pattern, of_target, of_source, sent, features, of_edges, factors)
    arrays = source, target, kernel, of_targets, attention_source, attention_target, *(edges or ()), bias
    return round_to_operands(join_heads(sums, concat, bias, "gat_conv"), *arrays)


def _score_kernel(kernel: SparseTensor | jax.Array, attention: jax.Array) -> jax.Array:
    """Compute W[h] s[h], the kernel that gives the scores of head h: an array (in, heads), in float32 or wider."""
    return dense_sums("fhd,hd->fh", wide(kernel), wide(attention))


@cache
def _attention(negative_slope: float) -> Callable[..., jax.Array]:
    @fuse
    def attend(
        pattern: Pattern | DynamicPattern,
        target: jax.Array,
        source: jax.Array,
        sent: jax.Array,
        features: SparseTensor | None,
        of_edges: jax.Array | None,
        factors: jax.Array | None,
    ) -> jax.Array:
        heads = pattern.extended([target.shape[1]])
        at = indices_of(pattern)
        scores = at_edges("ih,jh->ijh", target, jnp.ones_like(source), like=heads)
        scores = scores + at_edges("ih,jh->ijh", jnp.ones_like(target), source, like=heads)
        if features is not None and of_edges is not None:
            scores = scores + contract(f"{at}e,eh->{at}h", features, of_edges, out_format=heads)
        weights = over_neighbors(functions.leaky_relu(scores, negative_slope), factors)
        return wide_sums(f"{at}h,jhd->ihd", weights, sent)

    return attend


@dataclass(frozen=True, slots=True, kw_only=True)
class GATConv(AttentionLayer):
    """Graph attention with heads, as `jsparse.nn.gat_conv` computes it (Veličković et al., 2018).

        >>> layer = jsparse.nn.GATConv(4, 3, heads=2)
        >>> graph, x = jsparse.random(jax.random.key(0), (6, 6), density=0.5), jnp.ones((6, 4))
        >>> layer.apply(layer.init(jax.random.key(1)), graph, x).shape
        (6, 6)

    Args:
        in_features: the number of features of x; a pair for sources and targets.
        out_features: the number of features of one head.
        heads: the number of heads.
        concat: whether heads are side by side; otherwise their mean is the result.
        edge_features: the number of features of edges; None without them.
        use_bias: whether there are biases.
        negative_slope: the slope of leaky_relu for negative scores.
        self_loops: whether each node is its own neighbour.
        dropout_rate: the share of weights that is dropped in training.

    Raises ShapeError for sizes that are not positive integers.
    """

    negative_slope: float = 0.2
    self_loops: bool = True

    def parameters(self) -> dict[str, Parameter]:
        source, target = pair(self.in_features)
        heads, edges = (self.heads, self.out_features), self.edge_features
        vector = Parameter(heads, "attention")
        return chosen(
            kernel=Parameter((source, *heads)),
            kernel_target=Parameter((target, *heads)) if isinstance(self.in_features, tuple) else None,
            attention_source=vector,
            attention_target=vector,
            edge_kernel=None if edges is None else Parameter((edges, *heads)),
            attention_edge=None if edges is None else vector,
            bias=bias_of(self.width, self.use_bias),
        )

    def _convolve(self, p: Arrays, graph: Graph, x: Features, edge_features: EdgeFeatures, **options: Any) -> jax.Array:
        weights, edges = dict(p), None
        edge_kernel, attention_edge = weights.pop("edge_kernel", None), weights.pop("attention_edge", None)
        if edge_features is not None:
            edges = EdgeAttention(edge_features, edge_kernel, attention_edge)
        options |= {"negative_slope": self.negative_slope, "self_loops": self.self_loops}
        return gat_conv(graph, x, **weights, edges=edges, **options)
