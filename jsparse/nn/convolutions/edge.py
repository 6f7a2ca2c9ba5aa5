"""Edge convolutions, which apply a network to the features at both ends of each edge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.convert.creation import of_ones
from jsparse.errors import ShapeError, shorten
from jsparse.formats import Pattern
from jsparse.graph.graphs import Graph, indices_of, one_of
from jsparse.nn.aggregation import counts
from jsparse.nn.convolutions.gin import check_widths, first, rest, two_layers
from jsparse.nn.layer import Arrays, Layer, Parameter, pair
from jsparse.nn.operands import Features, check_same_features, operands, pattern_of_graph, sparse_graph, wide_sums
from jsparse.ops.einsum import contract
from jsparse.ops.indexing.at_coords import coords
from jsparse.primitives.map_values import NEUTRAL
from jsparse.tensor.dynamic_pattern import DynamicPattern
from jsparse.tensor.sparse_tensor import SparseTensor

EDGE_REDUCTIONS = ("max", "mean", "sum")


def edge_conv(graph: Graph, x: Features, mlp: Callable[[jax.Array], jax.Array], *, reduction: str = "max") -> jax.Array:
    """Reduce mlp([x[i], x[j] - x[i]]) over the neighbours j of each node i.

        >>> points = jax.random.normal(jax.random.key(0), (20, 3))
        >>> P = jsparse.graph.knn_graph(points, 4).pattern
        >>> jsparse.nn.edge_conv(P, points, jnp.tanh).shape
        (20, 6)

    Wang et al., "Dynamic graph CNN for learning on point clouds", 2019. Because `mlp` may be any function, it is called
    once, with an array (nse, 2 · features) for all edges. So the memory grows with the number of edges times features.

    Args:
        graph: a SparseTensor, whose weights are ignored, or a pattern (targets, sources), static or dynamic. Repeated
            edges count once if their weights were added, and as often as they occur if they were kept.
        x: features (nodes, features), or a pair (sources, features), (targets, features).
        mlp: a function from an array (edges, 2 · features) to an array (edges, out). It treats all rows alike. For the
            padding of a dynamic pattern, `mlp` gets the first edge again, and these results are not used.
        reduction: "max", "mean" or "sum".

    Returns an array (targets, out), 0 for nodes without neighbours.

    Raises ShapeError for shapes that do not fit and other reductions, DTypeError for a dense graph.
    """
    graph, source, target = operands(graph, x, "edge_conv")
    one_of(reduction, EDGE_REDUCTIONS, "the reduction of edge_conv")
    pattern = pattern_of_graph(graph)
    check_same_features(source, target, "edge_conv")
    at_target, at_source = _at_one_end("i", pattern, target), _at_one_end("j", pattern, source)
    features, is_edge = jnp.concatenate([at_target, at_source - at_target], axis=1), None
    if not isinstance(pattern, Pattern):
        ends = jnp.asarray(coords(of_ones(pattern)))  # out of range in padding
        is_edge = (ends < np.array(pattern.shape, ends.dtype)[:, None]).all(0)[:, None]
    if is_edge is not None and len(features):
        # The features of padding are 0. There a network or its derivative may be infinite, as the derivative of √x is,
        # and 0 times infinity is NaN. A network that is finite at all edges is finite at the first edge.
        stand_in = jnp.where(is_edge.any(), features[jnp.argmax(is_edge)], NEUTRAL)
        features = jnp.where(is_edge, features, jax.lax.stop_gradient(stand_in))
    messages = mlp(features)
    if jnp.ndim(messages) != 2 or len(messages) != pattern.nse:
        raise ShapeError(
            f"Expected the mlp of edge_conv to return ({pattern.nse}, out), a row for each edge, but got "
            f"{shorten(jnp.shape(messages))}."
        )
    messages = messages if is_edge is None else jnp.where(is_edge, messages, 0)
    at_edges = SparseTensor(messages.reshape(-1), pattern.extended([messages.shape[1]]))
    number = counts(pattern)[:, None]
    if reduction == "max":
        return jnp.where(number > 0, at_edges.max(tuple(range(1, pattern.ndim)), stored=True), 0)
    sums = wide_sums(f"{indices_of(pattern)}f->if", at_edges)
    sums = sums if reduction == "sum" else sums / jnp.maximum(number, 1).astype(sums.dtype)
    return sums.astype(messages.dtype)


def _at_one_end(side: str, pattern: Pattern | DynamicPattern, x: jax.Array) -> jax.Array:
    """Return the features (nse, features) at one end of each edge, 0 in padding. Cotangents are summed in float32."""
    at = indices_of(pattern)
    features: Any = contract(f"{at},{side}f->{at}f", pattern, x)
    return features.values.reshape(pattern.nse, x.shape[1])


@dataclass(frozen=True, slots=True)
class EdgeConv(Layer):
    """A reduction of mlp([x[i], x[j] - x[i]]) over neighbours j, as `jsparse.nn.edge_conv` computes it.

    Wang et al., 2019. `mlp` has two linear layers, and relu between them.

        >>> layer = jsparse.nn.EdgeConv(4, 2)
        >>> graph, x = jsparse.random(jax.random.key(0), (6, 6), density=0.5), jnp.ones((6, 4))
        >>> layer.apply(layer.init(jax.random.key(1)), graph, x).shape
        (6, 2)

    Args:
        in_features: the number of features of x.
        hidden_features: the number of features between the layers; by default out_features.
        out_features: the number of features of the result.
        reduction: "max", "mean" or "sum".

    Raises ShapeError for sizes that are not positive integers.
    """

    in_features: int | tuple[int, int]
    hidden_features: int | None = None
    out_features: int | None = None
    _: KW_ONLY
    reduction: str = "max"

    def __post_init__(self) -> None:
        check_widths("EdgeConv", self.in_features, self.hidden_features, self.out_features)
        one_of(self.reduction, EDGE_REDUCTIONS, "the reduction of EdgeConv")

    def parameters(self) -> dict[str, Parameter]:
        return two_layers(2 * pair(self.in_features)[0], self.hidden_features, self.out_features)

    def _apply(self, p: Arrays, graph: Graph, x: Features) -> jax.Array:
        sides = x if isinstance(x, tuple) else (x, x)
        if not any(isinstance(one, SparseTensor) for one in sides):
            return edge_conv(graph, x, lambda both: rest(p, first(p, both, "EdgeConv")), reduction=self.reduction)
        graph = sparse_graph(graph, sides[0], "EdgeConv")
        # [x[i], x[j] - x[i]] [U, V] = x[i] (U - V) + x[j] V, whose products are dense and narrow.
        of_target, of_source = p["up"][: p["up"].shape[0] // 2], p["up"][p["up"].shape[0] // 2 :]
        source, target = (
            first({"up": kernel}, one, "EdgeConv")
            for kernel, one in zip((of_source, of_target - of_source), sides, strict=True)
        )

        def mlp(both: jax.Array) -> jax.Array:
            at_target, difference = jnp.split(both, 2, axis=1)
            return rest(p, 2 * at_target + difference)

        return edge_conv(graph, (source, target), mlp, reduction=self.reduction)
