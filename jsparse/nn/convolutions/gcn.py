"""The graph convolution of Kipf and Welling."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import cache, partial
from typing import Any

import jax
from jax.typing import ArrayLike, DTypeLike

from jsparse.errors import ShapeError
from jsparse.graph.degrees import inverse
from jsparse.graph.graphs import Graph, indices_of
from jsparse.nn.layer import Arrays, Layer, Parameter, bias_of, check_sizes, chosen, pair
from jsparse.nn.operands import (
    Features,
    check_bias,
    check_kernel,
    operands,
    product,
    round_to_operands,
    wide,
    wide_sums,
)
from jsparse.ops.fuse import fuse
from jsparse.planning.dtypes import wide_float
from jsparse.tensor.sparse_tensor import SparseTensor, TensorLike


def gcn_conv(
    graph: Graph,
    x: Features,
    kernel: TensorLike,
    bias: ArrayLike | None = None,
    *,
    self_loops: bool = True,
    normalize: bool = True,
) -> jax.Array:
    """Compute D^-1/2 (A + I) D^-1/2 x W + b, with the degrees D of A + I.

        >>> A = jsparse.random(jax.random.key(0), (6, 6), density=0.5)
        >>> jsparse.nn.gcn_conv(A, jnp.ones((6, 4)), jnp.ones((4, 2)), jnp.zeros(2)).shape
        (6, 2)

    Kipf and Welling, "Semi-supervised classification with graph convolutional networks", 2017. A + I is not built: with
    s = D^-1/2 each row is s[i] (Σ A[i, j] s[j] x[j] + s[i] x[i]). The sums are over x or x W, whichever is narrower;
    over x W if x is sparse.

    Args:
        graph: a SparseTensor or a pattern (nodes, nodes), static or dynamic. The result is differentiable in its
            weights.
        x: features (nodes, in), sparse or dense.
        kernel: (in, out), sparse or dense.
        bias: (out,), or None.
        self_loops: whether I is added. An existing self-loop adds to it.
        normalize: whether the factors D^-1/2 are applied. They are 0 for a degree of 0, and NaN for a negative one.

    Returns an array (nodes, out).

    Raises ShapeError for shapes that do not fit, DTypeError for a dense graph.
    """
    if isinstance(x, tuple | list):
        raise ShapeError("Expected one array of features in gcn_conv, whose sources are its targets, but got a pair.")
    graph, x, _ = operands(graph, x, "gcn_conv", square=True, sparse=True)
    kernel = check_kernel(kernel, x.shape[1], 2, "gcn_conv")
    bias = check_bias(bias, kernel.shape[1:], "gcn_conv")
    return _convolve(graph, x, kernel, bias, self_loops=self_loops, normalize=normalize)


@partial(jax.jit, static_argnames=("self_loops", "normalize"))  # one program takes less time than its parts
def _convolve(
    graph: Graph,
    x: SparseTensor | jax.Array,
    kernel: SparseTensor | jax.Array,
    bias: jax.Array | None,
    self_loops: bool,
    normalize: bool,
) -> jax.Array:
    scale = root_of_degrees(graph, self_loops, x.dtype) if normalize else None
    narrow = kernel.shape[0] <= kernel.shape[1] and not isinstance(x, SparseTensor)
    sent = x if narrow else product(x, kernel)
    sums = propagation(self_loops)(graph, sent, scale, kernel if narrow else None, bias)
    return round_to_operands(sums, graph, x, kernel, bias)


def root_of_degrees(graph: Graph, self_loops: bool, dtype: DTypeLike) -> jax.Array:
    """Return d^-1/2 for the degree d of each node, or 0 for d = 0: an array (nodes, 1) in float32 or wider."""
    degrees = wide_sums(f"{indices_of(graph)}->i", graph)
    degrees = degrees.astype(wide_float(degrees.dtype, dtype)) + (1 if self_loops else 0)
    return inverse(degrees, root=True)[:, None]


@cache
def propagation(self_loops: bool) -> Callable[..., jax.Array]:
    """Return the function (graph, x, s, W, b) → s (A + I) (s x) W + b, which `jsparse.fuse` compiles.

    A is the graph's matrix, and s scales each node. s, W and b may each be None. Without `self_loops`, I is left out.
    The result is in float32 if the operands are narrow floats.
    """

    @fuse
    def propagate(
        graph: Graph, x: jax.Array, scale: Any, kernel: SparseTensor | jax.Array | None, bias: jax.Array | None
    ) -> jax.Array:
        at, scaled = indices_of(graph), x if scale is None else x.astype(scale.dtype) * scale
        if scaled.dtype == x.dtype:
            sums = wide_sums(f"{at},jf->if", graph, scaled)
        else:  # narrow features are scaled where they are read, which takes half the bytes
            sums = wide_sums(f"{at},j,jf->if", graph, scale[:, 0], x)
        sums = sums + scaled if self_loops else sums
        sums = sums if scale is None else sums * scale
        sums = sums if kernel is None else product(sums, kernel)
        return sums if bias is None else sums + wide(bias)

    return propagate


@dataclass(frozen=True, slots=True)
class GCNConv(Layer):
    """D^-1/2 (A + I) D^-1/2 x W + b, as `jsparse.nn.gcn_conv` computes it (Kipf and Welling, 2017).

        >>> layer = jsparse.nn.GCNConv(4, 2)
        >>> graph, x = jsparse.random(jax.random.key(0), (6, 6), density=0.5), jnp.ones((6, 4))
        >>> layer.apply(layer.init(jax.random.key(1)), graph, x).shape
        (6, 2)

    Args:
        in_features: the number of features of x.
        out_features: the number of features of the result.
        use_bias: whether there is a bias.
        self_loops: whether I is added; an existing self-loop adds to it.
        normalize: whether the factors D^-1/2 are applied.

    Raises ShapeError for sizes that are not positive integers.
    """

    in_features: int | tuple[int, int]
    out_features: int
    _: KW_ONLY
    use_bias: bool = True
    self_loops: bool = True
    normalize: bool = True

    def __post_init__(self) -> None:
        if isinstance(self.in_features, tuple):
            raise ShapeError(
                "Expected one array of features in GCNConv, whose sources are its targets, but got a pair."
            )
        check_sizes("GCNConv", in_features=self.in_features, out_features=self.out_features)

    def parameters(self) -> dict[str, Parameter]:
        source, _ = pair(self.in_features)
        return chosen(kernel=Parameter((source, self.out_features)), bias=bias_of(self.out_features, self.use_bias))

    def _apply(self, p: Arrays, graph: Graph, x: Features) -> jax.Array:
        return gcn_conv(graph, x, p["kernel"], p.get("bias"), self_loops=self.self_loops, normalize=self.normalize)
