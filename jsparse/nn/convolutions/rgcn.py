"""Relational graph convolutions: a kernel for each kind of edge."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike, DTypeLike

from jsparse.compiler.dtypes import arithmetic_dtype
from jsparse.errors import ShapeError, shorten
from jsparse.graph.degrees import inverse
from jsparse.graph.graphs import Graph, is_pattern
from jsparse.nn.layer import Arrays, Layer, Parameter, bias_of, check_sizes, chosen, pair
from jsparse.nn.operands import (
    Features,
    as_kernel,
    dense_sums,
    own_part,
    plus_bias,
    round_to_operands,
    sides,
    sparse_graph,
    wide_sums,
)
from jsparse.ops.einsum import contract
from jsparse.planning.dtypes import wide_float
from jsparse.tensor.sparse_tensor import TensorLike


def rgcn_conv(
    graph: Graph,
    x: Features,
    kernel: TensorLike,
    root: TensorLike | None = None,
    bias: ArrayLike | None = None,
    *,
    normalize: bool = True,
) -> jax.Array:
    """Compute Σ over relations r and neighbours j of A[r, i, j] x[j] W[r], plus x[i] R + b.

        >>> A = jsparse.random(jax.random.key(0), (3, 6, 6), density=0.2)
        >>> jsparse.nn.rgcn_conv(A, jnp.ones((6, 4)), jnp.ones((3, 4, 2)), jnp.ones((4, 2))).shape
        (6, 2)

    Schlichtkrull et al., "Modeling relational data with graph convolutional networks", 2018. The sum is one
    einsum, `rij,jc,rcf->if`: no array has an element for each edge and feature.

    Args:
        graph: a SparseTensor or a pattern (relations, targets, sources), static or dynamic.
        x: features (nodes, in), or a pair (sources, in), (targets, target_in), sparse or dense.
        kernel: (relations, in, out), such as `basis_kernel` gives; for block-diagonal kernels (relations, blocks,
            in / blocks, out / blocks). It may be sparse.
        root: (target_in, out), sparse or dense, or None.
        bias: (out,), or None.
        normalize: whether the weights of each row are divided by their sum, in each relation. Then the sum over
            neighbours is a mean, as in `aggregate`.

    Returns an array (targets, out).

    Raises ShapeError for shapes that do not fit, DTypeError for a dense graph.
    """
    source, target = sides(x, "rgcn_conv", sparse=True)
    graph = sparse_graph(graph, source, "rgcn_conv")
    kernel = as_kernel(kernel, "rgcn_conv", "kernels (relations, ...)")
    blocks = kernel.shape[1] if kernel.ndim == 4 else 1
    inputs = kernel.shape[-2] * blocks if kernel.ndim in (3, 4) else -1
    nodes = (*target.shape[:1], *source.shape[:1])
    if source.ndim != 2 or target.ndim != 2 or graph.shape != (*kernel.shape[:1], *nodes) or inputs != source.shape[1]:
        raise ShapeError(
            f"Expected a graph (relations, targets, sources), features (sources, in) and (targets, target_in), and "
            f"kernels (relations, in, out) or (relations, blocks, in / blocks, out / blocks) in rgcn_conv, but got "
            f"{shorten(graph.shape)}, {shorten(source.shape)}, {shorten(target.shape)} and "
            f"{shorten(kernel.shape)}."
        )
    weights = _means(graph, source.dtype) if normalize else graph
    if kernel.ndim == 3:
        sums = wide_sums("rij,jc,rcf->if", weights, source, kernel)
    else:
        sums = wide_sums("rij,jbc,rbcf->ibf", weights, source.reshape(source.shape[0], *kernel.shape[1:3]), kernel)
        sums = sums.reshape(len(sums), -1)
    sums = sums if root is None else sums + own_part(target, root, sums.shape[1], "rgcn_conv")
    sums = plus_bias(sums, bias, "rgcn_conv")
    return round_to_operands(sums, graph, source, kernel, None if root is None else target, root, bias)


def basis_kernel(coefficients: ArrayLike, bases: TensorLike) -> jax.Array:
    """Compute the kernels of relations as combinations of a few bases: W[r] = Σ over b of c[r, b] B[b].

        >>> jsparse.nn.basis_kernel(jnp.ones((5, 2)), jnp.ones((2, 4, 3))).shape
        (5, 4, 3)

    Args:
        coefficients: (relations, bases).
        bases: (bases, in, out), sparse or dense.

    Returns an array (relations, in, out). Raises ShapeError for shapes that do not fit.
    """
    coefficients, bases = jnp.asarray(coefficients), as_kernel(bases, "basis_kernel", "bases (bases, in, out)")
    if coefficients.ndim != 2 or bases.ndim != 3 or coefficients.shape[1] != bases.shape[0]:
        raise ShapeError(
            f"Expected coefficients (relations, bases) and bases (bases, in, out) in basis_kernel, but got "
            f"{shorten(coefficients.shape)} and {shorten(bases.shape)}."
        )
    return dense_sums("rb,bcf->rcf", coefficients, bases)


def _means(graph: Any, dtype: DTypeLike) -> Any:
    """Scale a graph, in float32 or wider, so that in each relation each row with entries adds up to 1.

    A weight is both scaled and part of a row's sum. The two cotangents that it gets nearly cancel. So weights are
    converted to float32 first, and the cotangents are added in float32.
    """
    graph = graph if is_pattern(graph) else graph.astype(arithmetic_dtype(graph.dtype.name))
    sums = dense_sums("rij->ri", graph)
    sums = sums.astype(wide_float(sums.dtype, dtype))
    return contract("rij,ri->rij", graph, inverse(sums))


@dataclass(frozen=True, slots=True)
class RGCNConv(Layer):
    """A convolution with a kernel for each relation of a graph, as `jsparse.nn.rgcn_conv` computes it.

    Schlichtkrull et al., 2018.

        >>> layer = jsparse.nn.RGCNConv(4, 2, 3)
        >>> graph, x = jsparse.random(jax.random.key(0), (3, 6, 6), density=0.3), jnp.ones((6, 4))
        >>> layer.apply(layer.init(jax.random.key(1)), graph, x).shape
        (6, 2)

    Args:
        in_features: the number of features of x; a pair for sources and targets.
        out_features: the number of features of the result.
        num_relations: the number of relations of the graph.
        num_bases: if given, kernels are linear combinations of this many matrices.
        num_blocks: if given, kernels are block-diagonal, with this many blocks.
        use_root: whether x R is added.
        use_bias: whether there is a bias.
        normalize: whether neighbours of a relation are averaged.

    Raises ShapeError for sizes that are not positive integers.
    """

    in_features: int | tuple[int, int]
    out_features: int
    num_relations: int
    _: KW_ONLY
    num_bases: int | None = None
    num_blocks: int | None = None
    use_root: bool = True
    use_bias: bool = True
    normalize: bool = True

    def __post_init__(self) -> None:
        names = ("in_features", "out_features", "num_relations", "num_bases", "num_blocks")
        sizes = {name: getattr(self, name) for name in names}
        check_sizes("RGCNConv", pairs=names[:1], optional=names[3:], **sizes)
        source, _ = pair(self.in_features)
        if self.num_bases is not None and self.num_blocks is not None:
            raise ShapeError("Expected num_bases or num_blocks in RGCNConv, but got both.")
        if self.num_blocks is not None and (source % self.num_blocks or self.out_features % self.num_blocks):
            raise ShapeError(
                f"Expected num_blocks to divide in_features and out_features in RGCNConv, but got {self.num_blocks}, "
                f"{source} and {self.out_features}."
            )

    def parameters(self) -> dict[str, Parameter]:
        source, target = pair(self.in_features)
        relations, blocks, out = self.num_relations, self.num_blocks, self.out_features
        kernel = Parameter((relations if self.num_bases is None else self.num_bases, source, out), batch=1)
        if blocks is not None:
            kernel = Parameter((relations, blocks, source // blocks, out // blocks), batch=2)
        coefficients = None if self.num_bases is None else Parameter((relations, self.num_bases), "attention")
        root = Parameter((target, out)) if self.use_root else None
        return chosen(kernel=kernel, coefficients=coefficients, root=root, bias=bias_of(out, self.use_bias))

    def _apply(self, p: Arrays, graph: Graph, x: Features) -> jax.Array:
        kernel = p["kernel"] if self.num_bases is None else basis_kernel(p["coefficients"], p["kernel"])
        return rgcn_conv(graph, x, kernel, p.get("root"), p.get("bias"), normalize=self.normalize)
