"""GraphSAGE: a node's own features plus a reduction of its neighbours' features."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import jax
from jax.typing import ArrayLike

from jsparse.errors import DTypeError, ShapeError
from jsparse.graph.degrees import inverse
from jsparse.graph.graphs import Graph, one_of
from jsparse.nn.aggregation import reduce_neighbours
from jsparse.nn.layer import Arrays, Layer, Parameter, bias_of, check_sizes, chosen, pair
from jsparse.nn.operands import Features, check_kernel, operands, own_part, plus_bias, product, round_to_operands
from jsparse.tensor.sparse_tensor import SparseTensor, TensorLike

SAGE_REDUCTIONS = ("mean", "sum", "max", "pool")


def sage_conv(
    graph: Graph,
    x: Features,
    kernel: TensorLike,
    root: TensorLike | None = None,
    bias: ArrayLike | None = None,
    *,
    reduction: str = "mean",
    pool: tuple[TensorLike, ArrayLike] | None = None,
    normalize: bool = False,
) -> jax.Array:
    """Compute (reduction over neighbours j of A[i, j] x[j]) W + x[i] R + b.

        >>> A = jsparse.random(jax.random.key(0), (6, 6), density=0.5)
        >>> jsparse.nn.sage_conv(A.pattern, jnp.ones((6, 4)), jnp.ones((4, 2)), jnp.ones((4, 2))).shape
        (6, 2)

    Hamilton et al., "Inductive representation learning on large graphs", 2017.

    Args:
        graph: a SparseTensor or a pattern (targets, sources), static or dynamic.
        x: features (nodes, in), or a pair (sources, in), (targets, target_in), sparse or dense.
        kernel: (in, out), or (pooled, out) for "pool"; sparse or dense, as all kernels here.
        root: (target_in, out), or None.
        bias: (out,), or None.
        reduction: "mean", "sum" or "max"; "pool" for maxima of relu(x P + p).
        pool: for "pool" the kernel P (in, pooled) and the bias p (pooled,).
        normalize: whether results are divided by their Euclidean norms.

    Returns an array (targets, out). Rows of nodes without neighbours are x[i] R + b.

    Raises ShapeError for shapes that do not fit and other reductions, DTypeError for a dense graph.
    """
    graph, source, target = operands(graph, x, "sage_conv", sparse=True)
    arrays = [graph, source, None if root is None else target, root, bias]
    one_of(reduction, SAGE_REDUCTIONS, "the reduction of sage_conv")
    if reduction == "max" and isinstance(source, SparseTensor):
        raise DTypeError(
            "Expected dense features for the reduction 'max' of sage_conv, because elements that are not stored count "
            "in the maxima, but got a SparseTensor. Pass x.todense(), or use the reduction 'pool'."
        )
    if reduction == "pool":
        if not isinstance(pool, tuple | list) or len(pool) != 2:
            raise ShapeError("Expected pool=, a kernel (in, pooled) and a bias (pooled,), for the reduction 'pool'.")
        into = check_kernel(pool[0], source.shape[1], 2, "sage_conv", "pool kernel")
        arrays += pool
        source = jax.nn.relu(plus_bias(product(source, into), pool[1], "sage_conv", "pool bias"))
    kernel = check_kernel(kernel, source.shape[1], 2, "sage_conv")
    linear = reduction in ("mean", "sum")
    if linear and (kernel.shape[0] > kernel.shape[1] or isinstance(source, SparseTensor)):
        result = reduce_neighbours(graph, product(source, kernel), reduction)
    else:
        result = product(reduce_neighbours(graph, source, reduction if linear else "max"), kernel)
    result = result if root is None else result + own_part(target, root, result.shape[1], "sage_conv")
    result = plus_bias(result, bias, "sage_conv")
    if normalize:
        result = result * inverse((result * result).sum(1, keepdims=True), root=True)
    return round_to_operands(result, kernel, *arrays)


@dataclass(frozen=True, slots=True)
class SAGEConv(Layer):
    """(reduction over neighbours) W + x R + b, as `jsparse.nn.sage_conv` computes it (Hamilton et al., 2017).

        >>> layer = jsparse.nn.SAGEConv(4, 2)
        >>> graph, x = jsparse.random(jax.random.key(0), (6, 6), density=0.5), jnp.ones((6, 4))
        >>> layer.apply(layer.init(jax.random.key(1)), graph, x).shape
        (6, 2)

    Args:
        in_features: the number of features of x; a pair for sources and targets.
        out_features: the number of features of the result.
        reduction: "mean", "sum", "max", or "pool" for maxima of relu(x P + p).
        pool_features: the number of columns of P; by default in_features.
        use_root: whether x R is added.
        use_bias: whether there is a bias.
        normalize: whether results are divided by their Euclidean norms.

    Raises ShapeError for sizes that are not positive integers.
    """

    in_features: int | tuple[int, int]
    out_features: int
    _: KW_ONLY
    reduction: str = "mean"
    pool_features: int | None = None
    use_root: bool = True
    use_bias: bool = True
    normalize: bool = False

    def __post_init__(self) -> None:
        names = ("in_features", "out_features", "pool_features")
        check_sizes("SAGEConv", pairs=names[:1], optional=names[2:], **{name: getattr(self, name) for name in names})
        one_of(self.reduction, SAGE_REDUCTIONS, "the reduction of SAGEConv")

    def parameters(self) -> dict[str, Parameter]:
        source, target = pair(self.in_features)
        pooled = source if self.pool_features is None else self.pool_features
        is_pool = self.reduction == "pool"
        return chosen(
            pool_kernel=Parameter((source, pooled)) if is_pool else None,
            pool_bias=bias_of(pooled, is_pool),
            kernel=Parameter((pooled if is_pool else source, self.out_features)),
            root=Parameter((target, self.out_features)) if self.use_root else None,
            bias=bias_of(self.out_features, self.use_bias),
        )

    def _apply(self, p: Arrays, graph: Graph, x: Features) -> jax.Array:
        pool = (p["pool_kernel"], p["pool_bias"]) if self.reduction == "pool" else None
        options: dict[str, Any] = {"reduction": self.reduction, "pool": pool, "normalize": self.normalize}
        return sage_conv(graph, x, p["kernel"], p.get("root"), p.get("bias"), **options)
