"""Relational graph convolutions: a kernel for each kind of edge."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from jsparse.compiler.dtypes import unrounded
from jsparse.errors import ShapeError, shortened
from jsparse.graph.degrees import inverse
from jsparse.graph.graphs import is_pattern
from jsparse.nn.operands import Features, dense_sums, own_part, plus_bias, rounded, sides, sparse_graph, unrounded_sums
from jsparse.ops.einsum import einsum
from jsparse.planning.dtypes import wide_float

__all__ = ["basis_kernel", "rgcn_conv"]


def rgcn_conv(
    graph: Any, x: Features, kernel: Any, root: Any = None, bias: Any = None, *, normalize: bool = True
) -> jax.Array:
    """Compute Σ over relations r and neighbours j of A[r, i, j] x[j] W[r], plus x[i] R + b.

        >>> A = jsparse.random(jax.random.key(0), (3, 6, 6), density=0.2)
        >>> jsparse.nn.rgcn_conv(A, jnp.ones((6, 4)), jnp.ones((3, 4, 2)), jnp.ones((4, 2))).shape
        (6, 2)

    Schlichtkrull et al., "Modeling relational data with graph convolutional networks", 2018. It is one einsum,
    `rij,jc,rcf->if`: no array has an element for each entry and feature.

    Args:
        graph: a SparseTensor or a pattern (relations, targets, sources), static or dynamic.
        x: features (nodes, in), or a pair (sources, in), (targets, target_in), sparse or dense.
        kernel: (relations, in, out), such as `basis_kernel` gives; for block-diagonal kernels (relations, blocks,
            in / blocks, out / blocks).
        root: (target_in, out), or None.
        bias: (out,), or None.
        normalize: whether the weights of each row and relation are divided by their sum: a mean over neighbours, as
            in `aggregate`.

    Returns an array (targets, out).

    Raises ShapeError for shapes that do not fit, DTypeError for a dense graph.
    """
    source, target = sides(x, "rgcn_conv", sparse=True)
    graph = sparse_graph(graph, source, "rgcn_conv")
    kernel = jnp.asarray(kernel)
    _check(graph, source, target, kernel)
    weights = _means(graph, source.dtype) if normalize else graph
    if kernel.ndim == 3:
        found = unrounded_sums("rij,jc,rcf->if", weights, source, kernel)
    else:
        blocks = source.reshape(source.shape[0], *kernel.shape[1:3])
        found = unrounded_sums("rij,jbc,rbcf->ibf", weights, blocks, kernel)
        found = found.reshape(found.shape[0], -1)
    found = found if root is None else found + own_part(target, root, found.shape[1], "rgcn_conv")
    found = plus_bias(found, bias, "rgcn_conv")
    return rounded(found, graph, source, kernel, None if root is None else target, root, bias)


def basis_kernel(coefficients: Any, bases: Any) -> jax.Array:
    """The kernels of relations as combinations of few bases: W[r] = Σ over b of c[r, b] B[b].

        >>> jsparse.nn.basis_kernel(jnp.ones((5, 2)), jnp.ones((2, 4, 3))).shape
        (5, 4, 3)

    Args:
        coefficients: (relations, bases).
        bases: (bases, in, out).

    Returns an array (relations, in, out). Raises ShapeError for shapes that do not fit.
    """
    coefficients, bases = jnp.asarray(coefficients), jnp.asarray(bases)
    if coefficients.ndim != 2 or bases.ndim != 3 or coefficients.shape[1] != bases.shape[0]:
        raise ShapeError(
            f"Expected coefficients (relations, bases) and bases (bases, in, out) in basis_kernel, but got "
            f"{shortened(coefficients.shape)} and {shortened(bases.shape)}."
        )
    return jnp.einsum("rb,bcf->rcf", coefficients, bases)


def _means(graph: Any, dtype: Any) -> Any:
    """The graph whose rows add up to 1 for each relation, if they have entries, in float32 or wider.

    Its cotangents by the weights and by their sums nearly cancel, so weights are widened before both.
    """
    graph = graph if is_pattern(graph) else graph.astype(unrounded(graph.dtype.name))
    sums = dense_sums("rij->ri", graph)
    sums = sums.astype(wide_float(sums.dtype, dtype))
    return einsum("rij,ri->rij", graph, inverse(sums))


def _check(graph: Any, source: Any, target: Any, kernel: jax.Array) -> None:
    blocks = kernel.shape[1] if kernel.ndim == 4 else 1
    inputs = kernel.shape[-2] * blocks if kernel.ndim in (3, 4) else -1
    nodes = (*target.shape[:1], *source.shape[:1])
    if source.ndim != 2 or target.ndim != 2 or graph.shape != (*kernel.shape[:1], *nodes) or inputs != source.shape[1]:
        raise ShapeError(
            f"Expected a graph (relations, targets, sources), features (sources, in) and (targets, target_in), and "
            f"kernels (relations, in, out) or (relations, blocks, in / blocks, out / blocks) in rgcn_conv, but got "
            f"{shortened(graph.shape)}, {shortened(source.shape)}, {shortened(target.shape)} and "
            f"{shortened(kernel.shape)}."
        )
