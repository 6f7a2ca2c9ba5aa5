"""Graph isomorphism networks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jsparse.errors import ShapeError, shortened
from jsparse.graph.graphs import Graph
from jsparse.nn.aggregation import reduced
from jsparse.nn.operands import Features, check_same_features, operands, rounded, wide

__all__ = ["gin_conv"]


def gin_conv(graph: Graph, x: Features, mlp: Callable[[jax.Array], jax.Array], eps: Any = 0.0) -> jax.Array:
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

    Returns what the function gives.

    Raises ShapeError for shapes that do not fit, DTypeError for a dense graph.
    """
    graph, source, target = operands(graph, x, "gin_conv")
    check_same_features(source, target, "gin_conv")
    if jnp.ndim(eps):
        raise ShapeError(f"Expected eps as a number in gin_conv, but got shape {shortened(jnp.shape(eps))}.")
    own = (1 + wide(jnp.asarray(eps, target.dtype))) * wide(target)
    return mlp(rounded(own + reduced(graph, source, "sum"), graph, source, target))
