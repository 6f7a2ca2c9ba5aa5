"""Graph isomorphism networks, and a pair of linear layers that convolutions apply to messages or to their sum."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jsparse.errors import ShapeError, shorten
from jsparse.graph.graphs import Graph
from jsparse.nn.aggregation import reduce_neighbours
from jsparse.nn.layer import Arrays, Layer, Parameter, bias_of, check_sizes, chosen, pair
from jsparse.nn.operands import (
    Features,
    check_kernel,
    check_same_features,
    dense_sums,
    operands,
    round_to_operands,
    sparse_graph,
    wide,
)
from jsparse.tensor.sparse_tensor import SparseTensor


def gin_conv(graph: Graph, x: Features, mlp: Callable[[jax.Array], jax.Array], eps: ArrayLike = 0.0) -> jax.Array:
    """Compute mlp((1 + ε) x[i] + Σ A[i, j] x[j]).

        >>> A = jsparse.random(jax.random.key(0), (6, 6), density=0.5)
        >>> jsparse.nn.gin_conv(A.pattern, jnp.ones((6, 4)), jnp.tanh).shape
        (6, 4)

    Xu et al., "How powerful are graph neural networks?", 2019.

    Args:
        graph: a SparseTensor or a pattern (targets, sources), static or dynamic.
        x: features (nodes, in), or a pair (sources, in), (targets, in).
        mlp: a function of arrays (targets, in).
        eps: ε, a number.

    Returns the result of `mlp`.

    Raises ShapeError for shapes that do not fit, DTypeError for a dense graph.
    """
    graph, source, target = operands(graph, x, "gin_conv")
    check_same_features(source, target, "gin_conv")
    if jnp.ndim(eps):
        raise ShapeError(f"Expected eps as a number in gin_conv, but got shape {shorten(jnp.shape(eps))}.")
    of_target = (1 + wide(jnp.asarray(eps, target.dtype))) * wide(target)
    return mlp(round_to_operands(of_target + reduce_neighbours(graph, source, "sum"), graph, source, target))


@dataclass(frozen=True, slots=True)
class GINConv(Layer):
    """mlp((1 + ε) x + Σ over neighbours), as `jsparse.nn.gin_conv` computes it (Xu et al., 2019).

    `mlp` has two linear layers, and relu between them.

        >>> layer = jsparse.nn.GINConv(4, 2)
        >>> graph, x = jsparse.random(jax.random.key(0), (6, 6), density=0.5), jnp.ones((6, 4))
        >>> layer.apply(layer.init(jax.random.key(1)), graph, x).shape
        (6, 2)

    Args:
        in_features: the number of features of x.
        hidden_features: the number of features between the layers; by default out_features.
        out_features: the number of features of the result.
        eps: ε.
        train_eps: whether ε is a parameter.

    Raises ShapeError for sizes that are not positive integers.
    """

    in_features: int | tuple[int, int]
    hidden_features: int | None = None
    out_features: int | None = None
    _: KW_ONLY
    eps: float = 0.0
    train_eps: bool = False

    def __post_init__(self) -> None:
        check_widths("GINConv", self.in_features, self.hidden_features, self.out_features)

    def parameters(self) -> dict[str, Parameter]:
        eps = {"eps": Parameter((), float(self.eps))} if self.train_eps else {}
        return two_layers(pair(self.in_features)[0], self.hidden_features, self.out_features) | eps

    def _apply(self, p: Arrays, graph: Graph, x: Features) -> jax.Array:
        eps, sides = p.get("eps", self.eps), x if isinstance(x, tuple) else (x,)
        if not any(isinstance(one, SparseTensor) for one in sides):
            return gin_conv(graph, x, lambda x: rest(p, first(p, x, "GINConv")), eps)
        graph = sparse_graph(graph, sides[0], "GINConv")
        # The sums are linear, so they may follow the first layer, whose results are dense and narrow.
        after = tuple(first(p, one, "GINConv") for one in sides)
        return gin_conv(graph, after if isinstance(x, tuple) else after[0], lambda x: rest(p, x), eps)


def two_layers(inputs: int, hidden: int | None, out: int | None) -> dict[str, Parameter]:
    """Return the parameters of two linear layers. If only one width is given, both layers have this width."""
    hidden, out = _widths(hidden, out)
    return chosen(
        up=Parameter((inputs, hidden)),
        up_bias=bias_of(hidden, True),
        down=Parameter((hidden, out)),
        down_bias=bias_of(out, True),
    )


def check_widths(layer: str, inputs: Any, hidden: int | None, out: int | None) -> None:
    """Raise ShapeError unless the widths of two linear layers are positive integers, and at least one is given."""
    hidden, out = _widths(hidden, out)
    check_sizes(layer, pairs=["in_features"], in_features=inputs, out_features=out, hidden_features=hidden)


def first(p: Arrays, x: jax.Array, layer: str) -> jax.Array:
    """Multiply x by the kernel of the first of two linear layers."""
    return dense_sums("ij,jk->ik", x, check_kernel(p["up"], x.shape[1], 2, layer, "kernel 'up'"))


def rest(p: Arrays, x: jax.Array) -> jax.Array:
    """Complete two linear layers: add a bias to x, the result of `first`, and apply relu and the second layer."""
    return jax.nn.relu(x + p["up_bias"]) @ p["down"] + p["down_bias"]


def _widths(hidden: int | None, out: int | None) -> tuple[Any, Any]:
    return out if hidden is None else hidden, hidden if out is None else out
