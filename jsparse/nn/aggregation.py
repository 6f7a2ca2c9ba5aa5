"""Reductions of messages over the neighbours of each node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from jsparse.errors import ShapeError, represented
from jsparse.graph.graphs import Graph, one_of
from jsparse.nn.operands import (
    Features,
    dense_sums,
    operands,
    pattern_of_graph,
    rounded,
    sides,
    unrounded_sums,
    wide,
)
from jsparse.ops.einsum import einsum
from jsparse.ops.fuse import fuse

__all__ = ["REDUCTIONS", "aggregate", "counts", "reduced"]

REDUCTIONS = ("sum", "mean", "max", "min", "std")


def aggregate(graph: Graph, x: Features, reductions: str | Sequence[str] = "sum") -> jax.Array:
    """Reduce the messages A[i, j] · x[j] that reach each node i.

        >>> P = jsparse.random(jax.random.key(0), (6, 6), density=0.5).pattern
        >>> jsparse.nn.aggregate(P, jnp.ones((6, 4)), ("mean", "max", "std")).shape
        (6, 3, 4)

    Several reductions at a time are those of Corso et al., "Principal neighbourhood aggregation for graph nets", 2020.

    Args:
        graph: a SparseTensor, or a pattern, whose weights are one; (targets, sources).
        x: features (sources, features), or a pair whose first part they are.
        reductions: one or several of "sum", "mean", "max", "min" and "std", over the stored entries of a row. The
            derivative of a maximum is divided among equal messages, and that of a standard deviation of 0 is 0.

    Returns an array (targets, features) for one name, and (targets, number of names, features) for several. It is 0
    where a node has no neighbours.

    Raises ShapeError for other names and shapes, DTypeError for a dense graph.
    """
    if isinstance(x, tuple | list):
        graph, source, _ = operands(graph, x, "aggregate")
    else:
        source, _ = sides(x, "aggregate")
        targets = jnp.zeros((graph.shape[0], 0)) if graph.ndim == 2 else source
        graph, source, _ = operands(graph, (source, targets), "aggregate")
    if isinstance(reductions, str):
        return rounded(reduced(graph, source, reductions), graph, source)
    if not isinstance(reductions, tuple | list) or not reductions:
        raise ShapeError(f"Expected names of reductions in aggregate, but got {represented(reductions)}.")
    found = (rounded(reduced(graph, source, name), graph, source) for name in reductions)
    return jnp.stack(list(found), axis=1)


def reduced(graph: Graph, x: jax.Array, reduction: str) -> jax.Array:
    """One reduction of the messages, (targets, features), in float32 where they are narrow floats."""
    one_of(reduction, REDUCTIONS, "a reduction of messages")
    match reduction:
        case "sum":
            return unrounded_sums("ij,jf->if", graph, x)
        case "mean":
            sums = unrounded_sums("ij,jf->if", graph, x)
            return sums * _inverse_counts(graph, sums.dtype)
        case "max":
            return _greatest(graph, x)
        case "min":
            return -_greatest(graph, -x)
    x = wide(x)
    mean = reduced(graph, x, "mean")
    variance = _squared_deviations(graph, x, mean) * _inverse_counts(graph, mean.dtype)
    spread = variance > 0
    return jnp.where(spread, jnp.sqrt(jnp.where(spread, variance, 1)), 0)


@fuse
def _squared_deviations(graph: Graph, x: jax.Array, mean: jax.Array) -> jax.Array:
    """The sums over neighbours of (A[i, j] x[j] - mean[i])², without an array of all edges and features."""
    pattern = pattern_of_graph(graph).extended([x.shape[1]])
    messages = einsum("ij,jf->ijf", graph, x, out_format=pattern)
    both = messages - einsum("if,jf->ijf", mean, jnp.ones_like(x), out_format=pattern)
    return dense_sums("ijf->if", both * both)


def counts(graph: Graph) -> jax.Array:
    """The number of neighbours of each target, int32 (targets,)."""
    return dense_sums("ij->i", pattern_of_graph(graph))


def _inverse_counts(graph: Graph, dtype: Any) -> jax.Array:
    return (1 / jnp.maximum(counts(graph), 1)).astype(dtype)[:, None]


def _greatest(graph: Graph, x: jax.Array) -> jax.Array:
    """Maxima of messages, and 0 where there are none."""
    found = unrounded_sums("ij,jf->if", graph, x, semiring="max_times")
    return jnp.where(counts(graph)[:, None] > 0, found, 0)
