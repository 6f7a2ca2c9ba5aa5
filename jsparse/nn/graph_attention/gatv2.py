"""Graph attention networks whose scores depend on both ends together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jsparse.errors import ShapeError, shorten
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
from jsparse.nn.operands import Features, at_edges, check_kernel, operands, plus_bias, round_to_operands, wide_sums
from jsparse.ops.attention.dropout import dropout_factors
from jsparse.ops.einsum import contract
from jsparse.ops.elementwise import functions
from jsparse.ops.fuse import fuse
from jsparse.planning.dtypes import wide_float
from jsparse.tensor.dynamic_pattern import DynamicPattern
from jsparse.tensor.sparse_tensor import SparseTensor, TensorLike


def gatv2_conv(
    graph: Graph,
    x: Features,
    kernel_source: TensorLike,
    kernel_target: TensorLike,
    attention: ArrayLike,
    bias: ArrayLike | None = None,
    *,
    bias_source: ArrayLike | None = None,
    bias_target: ArrayLike | None = None,
    edge_features: SparseTensor | ArrayLike | None = None,
    edge_kernel: TensorLike | None = None,
    concat: bool = True,
    negative_slope: float = 0.2,
    self_loops: bool = True,
    dropout_rate: float = 0.0,
    dropout_key: jax.Array | None = None,
) -> jax.Array:
    """Compute Σ over neighbours j of w[i, j, h] (x[j] S[h]), where w is a softmax over j of scores.

        score[i, j, h] = a[h] · leaky_relu(x[j] S[h] + x[i] T[h])

        >>> P = jsparse.random(jax.random.key(0), (6, 6), density=0.5).pattern
        >>> kernel = jnp.ones((4, 2, 3))
        >>> jsparse.nn.gatv2_conv(P, jnp.ones((6, 4)), kernel, kernel, jnp.ones((2, 3))).shape
        (6, 6)

    Brody et al., "How attentive are graph attention networks?", 2022. Scores, softmax and sums are
    fused (see `jsparse.fuse`).

    Args:
        graph: as in `gat_conv`.
        x: features (nodes, in), or a pair (sources, in), (targets, target_in), sparse or dense.
        kernel_source, kernel_target: S (in, heads, dim) and T (target_in, heads, dim), sparse or dense. Both may
            be one kernel.
        attention: a, (heads, dim).
        bias: (heads · dim,), or (dim,) without `concat`; or None.
        bias_source, bias_target: (heads, dim), added to x S and to x T; or None.
        edge_features, edge_kernel: features (nse, edge_in) and their kernel (edge_in, heads, dim), whose product is
            added inside of leaky_relu. Self-loops have the mean of the features of the edges that end at the node.
        concat, negative_slope, self_loops, dropout_rate, dropout_key: as in `gat_conv`.

    Returns an array (targets, heads · dim), or (targets, dim). Rows of nodes without neighbours are the bias.

    Raises ShapeError for shapes that do not fit, DTypeError for a dense graph.
    """
    graph, source, target = operands(graph, x, "gatv2_conv", sparse=True)
    kernel_source = check_kernel(kernel_source, source.shape[1], 3, "gatv2_conv", "kernel_source")
    kernel_target = check_kernel(kernel_target, target.shape[1], 3, "gatv2_conv", "kernel_target")
    pattern, features = edges_to_attend(graph, edge_features, self_loops, "gatv2_conv")
    sent = plus_bias(per_head(source, kernel_source), bias_source, "gatv2_conv", "bias_source")
    sent = round_to_operands(sent, source, kernel_source, bias_source)
    received = plus_bias(per_head(target, kernel_target), bias_target, "gatv2_conv", "bias_target")
    received = round_to_operands(received, target, kernel_target, bias_target)
    (attention,) = check_vectors("gatv2_conv", (sent.shape[1], sent.shape[2]), attention=attention)
    if received.shape[1:] != sent.shape[1:]:
        raise ShapeError(
            f"Expected kernel_target with the heads of kernel_source {kernel_source.shape} in gatv2_conv, but got "
            f"{shorten(kernel_target.shape)}."
        )
    kernel = check_edge_kernel(features, edge_kernel, sent, "gatv2_conv")
    factors = dropout_factors((pattern.nse, sent.shape[1]), dropout_rate, dropout_key, "gatv2_conv")
    sums = _attention(float(negative_slope))(pattern, received, sent, attention, features, kernel, factors)
    arrays = sent, received, attention, edge_features, edge_kernel, bias
    return round_to_operands(join_heads(sums, concat, bias, "gatv2_conv"), *arrays)


@cache
def _attention(negative_slope: float) -> Callable[..., jax.Array]:
    @fuse
    def attend(
        pattern: Pattern | DynamicPattern,
        target: jax.Array,
        source: jax.Array,
        attention: jax.Array,
        features: SparseTensor | None,
        kernel: SparseTensor | jax.Array | None,
        factors: jax.Array | None,
    ) -> jax.Array:
        heads = pattern.extended([target.shape[1]])
        wide, dtype = pattern.extended(list(target.shape[1:])), wide_float(source.dtype)
        at = indices_of(pattern)
        both = at_edges("ihd,jhd->ijhd", target, jnp.ones_like(source), like=wide, dtype=dtype)
        both = both + at_edges("ihd,jhd->ijhd", jnp.ones_like(target), source, like=wide, dtype=dtype)
        if features is not None and kernel is not None:
            of_edges = contract(f"{at}e,ehd->{at}hd", features, kernel, out_format=wide, preferred_element_type=dtype)
            both = both + of_edges
        scores = contract(f"{at}hd,hd->{at}h", functions.leaky_relu(both, negative_slope), attention, out_format=heads)
        weights = over_neighbors(scores, factors)
        return wide_sums(f"{at}h,jhd->ihd", weights, source)

    return attend


@dataclass(frozen=True, slots=True, kw_only=True)
class GATv2Conv(AttentionLayer):
    """Graph attention whose scores depend on both ends together, as `jsparse.nn.gatv2_conv` computes it.

    Brody et al., 2022.

        >>> layer = jsparse.nn.GATv2Conv(4, 3, heads=2)
        >>> graph, x = jsparse.random(jax.random.key(0), (6, 6), density=0.5), jnp.ones((6, 4))
        >>> layer.apply(layer.init(jax.random.key(1)), graph, x).shape
        (6, 6)

    Args:
        in_features: the number of features of x; a pair for sources and targets.
        out_features: the number of features of one head.
        heads: the number of heads.
        concat: whether heads are side by side; otherwise their mean is the result.
        share_weights: whether sources and targets have one kernel.
        edge_features: the number of features of edges; None without them.
        use_bias: whether there are biases.
        negative_slope: the slope of leaky_relu for negative scores.
        self_loops: whether each node is its own neighbour.
        dropout_rate: the share of weights that is dropped in training.

    Raises ShapeError for sizes that are not positive integers.
    """

    share_weights: bool = False
    negative_slope: float = 0.2
    self_loops: bool = True

    def parameters(self) -> dict[str, Parameter]:
        source, target = pair(self.in_features)
        heads = self.heads, self.out_features
        bias = Parameter(heads, "bias") if self.use_bias else None
        return chosen(
            kernel_source=Parameter((source, *heads)),
            bias_source=bias,
            kernel_target=None if self.share_weights else Parameter((target, *heads)),
            bias_target=None if self.share_weights else bias,
            attention=Parameter(heads, "attention"),
            edge_kernel=None if self.edge_features is None else Parameter((self.edge_features, *heads)),
            bias=bias_of(self.width, self.use_bias),
        )

    def _convolve(self, p: Arrays, graph: Graph, x: Features, edge_features: EdgeFeatures, **options: Any) -> jax.Array:
        weights = dict(p)
        if self.share_weights:
            weights |= {"kernel_target": p["kernel_source"], "bias_target": p.get("bias_source")}
        options |= {"negative_slope": self.negative_slope, "self_loops": self.self_loops}
        return gatv2_conv(graph, x, **weights, edge_features=edge_features, **options)
