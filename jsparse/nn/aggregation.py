"""Reductions of messages over the neighbours of each node."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from jsparse.errors import ShapeError, short_repr
from jsparse.graph.degrees import inverse
from jsparse.graph.graphs import Graph, indices_of, is_pattern, one_of
from jsparse.nn.operands import (
    Features,
    at_edges,
    dense_sums,
    operands,
    pattern_of_graph,
    round_to_operands,
    sides,
    wide,
    wide_sums,
)
from jsparse.ops.einsum import contract
from jsparse.ops.fuse import fuse

REDUCTIONS = ("sum", "mean", "max", "min", "std")


def aggregate(graph: Graph, x: Features, reductions: str | Sequence[str] = "sum") -> jax.Array:
    """Reduce the messages A[i, j] x[j] that the neighbours j of each node i send.

        "sum"           Σ A[i, j] x[j]
        "mean"          μ = Σ A[i, j] x[j] / Σ A[i, j]
        "std"           the root of Σ A[i, j] (x[j] - μ)² / Σ A[i, j]
        "max", "min"    the greatest and the least A[i, j] x[j]

        >>> P = jsparse.random(jax.random.key(0), (6, 6), density=0.5).pattern
        >>> jsparse.nn.aggregate(P, jnp.ones((6, 4)), ("mean", "max", "std")).shape
        (6, 3, 4)

    Several reductions in one call are from Corso et al., "Principal neighbourhood aggregation for graph nets", 2020.
    In a sum, a mean and a standard deviation, a weight of n has the effect of n repeated edges. For a pattern, the mean
    and the standard deviation divide by the number of neighbours.

    Args:
        graph: a SparseTensor, or a pattern, whose weights are all one. The shape is (targets, sources), or (targets,
            sources, edges) if repeated edges are kept.
        x: features (sources, features), or a pair whose first element is such an array.
        reductions: one of the names above, or a list of them. Each reduces over the stored entries of a row. The
            derivative of a maximum is divided among equal messages, and a standard deviation of 0 has the derivative 0.

    Returns an array (targets, features) for one name, and (targets, number of names, features) for several. The
    result is 0 where a node has no neighbours. A mean is also 0 where its weights add up to 0, and a standard deviation
    is NaN where weights of both signs give a negative variance.

    Raises ShapeError for other names and shapes, DTypeError for a dense graph.
    """
    if isinstance(x, tuple | list):
        graph, source, _ = operands(graph, x, "aggregate")
    else:
        source, _ = sides(x, "aggregate")
        targets = jnp.zeros((graph.shape[0], 0)) if graph.ndim in (2, 3) else source
        graph, source, _ = operands(graph, (source, targets), "aggregate")
    if isinstance(reductions, str):
        return round_to_operands(reduce_neighbours(graph, source, reductions), graph, source)
    if not isinstance(reductions, tuple | list) or not reductions:
        raise ShapeError(f"Expected names of reductions in aggregate, but got {short_repr(reductions)}.")
    reduced = [round_to_operands(reduce_neighbours(graph, source, name), graph, source) for name in reductions]
    return jnp.stack(reduced, axis=1)


def reduce_neighbours(graph: Graph, x: jax.Array, reduction: str) -> jax.Array:
    """Compute one reduction over neighbours, an array (targets, features), in float32 if features are narrow floats."""
    one_of(reduction, REDUCTIONS, "a reduction of messages")
    match reduction:
        case "sum":
            return wide_sums(f"{indices_of(graph)},jf->if", graph, x)
        case "max":
            return _greatest(graph, x)
        case "min":
            return -_greatest(graph, -x)
    # The cotangents of weights by both sums nearly cancel, so weights are widened before.
    graph, x = graph if is_pattern(graph) else wide(graph), wide(x) if reduction == "std" else x
    sums = wide_sums(f"{indices_of(graph)},jf->if", graph, x)
    scale = inverse(wide_sums(f"{indices_of(graph)}->i", graph).astype(sums.dtype))[:, None]
    mean = sums * scale
    if reduction == "mean":
        return mean
    variance = _sum_squared_deviations(graph, x, mean) * scale
    none = variance == 0
    return jnp.where(none, 0, jnp.sqrt(jnp.where(none, 1, variance)))


@fuse
def _sum_squared_deviations(graph: Graph, x: jax.Array, mean: jax.Array) -> jax.Array:
    """Sum A[i, j] (x[j] - mean[i])² over neighbours j. It is fused, so no array has an element per edge and feature."""
    pattern, at = pattern_of_graph(graph), indices_of(graph)
    features = pattern.extended([x.shape[1]])
    deviations = contract(f"{at},jf->{at}f", pattern, x, out_format=features)
    deviations = deviations - at_edges("if,jf->ijf", mean, jnp.ones_like(x), like=features)
    return dense_sums(f"{at}f->if", contract(f"{at},{at}f->{at}f", graph, deviations * deviations, out_format=features))


def counts(graph: Graph) -> jax.Array:
    """Return the number of edges that end at each target, as an int32 array (targets,)."""
    return dense_sums(f"{indices_of(graph)}->i", pattern_of_graph(graph))


def _greatest(graph: Graph, x: jax.Array) -> jax.Array:
    """Compute the maximum of the messages to each target, or 0 if the target gets no message."""
    greatest = wide_sums(f"{indices_of(graph)},jf->if", graph, x, semiring="max_times")
    # Rows without a message are 0, but after an overflow their messages are only missing.
    return pattern_of_graph(graph).poison(jnp.where(counts(graph)[:, None] > 0, greatest, 0))
