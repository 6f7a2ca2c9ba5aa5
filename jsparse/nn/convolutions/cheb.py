"""Spectral convolutions by polynomials of the graph's Laplacian."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jsparse.errors import ShapeError, short_repr, shorten
from jsparse.graph.graphs import Graph, indices_of
from jsparse.nn.convolutions.gcn import propagation, root_of_degrees
from jsparse.nn.layer import Arrays, Layer, Parameter, bias_of, check_sizes, chosen
from jsparse.nn.operands import Features, as_kernel, operands, plus_bias, product, round_to_operands, wide, wide_sums
from jsparse.tensor.sparse_tensor import SparseTensor, TensorLike


def cheb_conv(
    graph: Graph,
    x: Features,
    kernel: TensorLike,
    bias: ArrayLike | None = None,
    *,
    normalize: bool = True,
    lambda_max: float | None = None,
) -> jax.Array:
    """Compute Σ over k < K of T_k(L̂) x W[k], plus b, for the Chebyshev polynomials T_k.

        >>> A = jsparse.random(jax.random.key(0), (6, 6), density=0.5)
        >>> jsparse.nn.cheb_conv(A + A.T, jnp.ones((6, 4)), jnp.ones((3, 4, 2))).shape
        (6, 2)

    Defferrard et al., "Convolutional neural networks on graphs with fast localized spectral filtering", 2016. L̂ is
    2L / λ - 1 for the Laplacian L = 1 - D^-1/2 A D^-1/2, whose eigenvalues are in [0, 2]; L̂ is not built. It is
    applied K - 1 times, to arrays as wide as x or as the result, whichever is narrower. If x is sparse, they are always
    as wide as the result. A row of the result depends on nodes at most K - 1 edges away.

    Args:
        graph: a SparseTensor or a pattern (nodes, nodes), static or dynamic. The eigenvalues of L are in [0, 2] if
            the graph is symmetric and has no self-loops.
        x: features (nodes, in), sparse or dense.
        kernel: (K, in, out), sparse or dense.
        bias: (out,), or None.
        normalize: whether the Laplacian is normalized; otherwise it is L = D - A.
        lambda_max: λ, the Laplacian's largest eigenvalue, or an upper bound; by default 2 if it is normalized.

    Returns an array (nodes, out).

    Raises ShapeError for shapes that do not fit, and for D - A without `lambda_max`, DTypeError for a dense graph.
    """
    if isinstance(x, tuple | list):
        raise ShapeError("Expected one array of features in cheb_conv, whose sources are its targets, but got a pair.")
    graph, x, _ = operands(graph, x, "cheb_conv", square=True, sparse=True)
    kernel = as_kernel(kernel, "cheb_conv", "a kernel (K, in, out)")
    if kernel.ndim != 3 or not kernel.shape[0] or kernel.shape[1] != x.shape[1]:
        raise ShapeError(f"Expected a kernel (K, {x.shape[1]}, out) in cheb_conv, but got {shorten(kernel.shape)}.")
    _check_bound("cheb_conv", normalize, lambda_max)
    scale = root_of_degrees(graph, False, x.dtype) if normalize else None
    degrees = None if normalize else wide_sums(f"{indices_of(graph)}->i", graph)[:, None]
    factor = 2 / (2.0 if lambda_max is None else lambda_max)

    def apply_laplacian(z: jax.Array) -> jax.Array:
        """Compute L̂ z."""
        scaled = z if degrees is None else degrees * z
        return factor * (scaled - propagation(False)(graph, z, scale, None, None)) - z

    narrow = kernel.shape[1] <= kernel.shape[2] and not isinstance(x, SparseTensor)
    sums = (_forward if narrow else _clenshaw)(apply_laplacian, x, kernel)
    return round_to_operands(plus_bias(sums, bias, "cheb_conv"), graph, x, kernel, bias)


def _forward(shifted: Callable[[jax.Array], jax.Array], x: jax.Array, kernel: SparseTensor | jax.Array) -> jax.Array:
    """Compute Σ T_k(L̂) x W[k] by the recurrence T_k = 2 L̂ T_{k-1} - T_{k-2}."""
    before, z = None, wide(x)
    total = product(z, kernel[0])
    for of_order in (kernel[k] for k in range(1, kernel.shape[0])):
        before, z = z, shifted(z) if before is None else 2 * shifted(z) - before
        total = total + product(z, of_order)
    return total


def _clenshaw(
    shifted: Callable[[jax.Array], jax.Array], x: SparseTensor | jax.Array, kernel: SparseTensor | jax.Array
) -> jax.Array:
    """Compute Σ T_k(L̂) y_k for y_k = x W[k] by the recurrence s_k = y_k + 2 L̂ s_{k+1} - s_{k+2}.

    The result is y_0 + L̂ s_1 - s_2 (Clenshaw, A note on the summation of Chebyshev series, 1955).
    """
    order, inputs, out = kernel.shape
    columns = product(x, kernel.transpose((1, 0, 2)).reshape(inputs, order * out))
    first, *terms = jnp.split(columns, order, axis=1)
    after, s = None, None
    for term in reversed(terms):
        after, s = s, _recurrence(term, s, after, shifted, 2)
    return _recurrence(first, s, after, shifted, 1)


def _recurrence(
    term: jax.Array, s: jax.Array | None, after: jax.Array | None, shifted: Callable[[jax.Array], jax.Array], times: int
) -> jax.Array:
    total = term if s is None else term + times * shifted(s)
    return total if after is None else total - after


def _check_bound(layer: str, normalize: bool, lambda_max: float | None) -> None:
    if lambda_max is None and not normalize:
        raise ShapeError(
            f"Expected lambda_max=, the largest eigenvalue of D - A, or an upper bound, in {layer} with "
            "normalize=False. Twice the largest degree is such a bound."
        )
    if isinstance(lambda_max, int | float) and not lambda_max > 0:
        raise ShapeError(f"Expected a positive lambda_max in {layer}, but got {short_repr(lambda_max)}.")


@dataclass(frozen=True, slots=True)
class ChebConv(Layer):
    """Σ over k < K of T_k(L̂) x W[k], plus b, as `jsparse.nn.cheb_conv` computes it (Defferrard et al., 2016).

        >>> layer = jsparse.nn.ChebConv(4, 2, 3)
        >>> graph, x = jsparse.random(jax.random.key(0), (6, 6), density=0.5), jnp.ones((6, 4))
        >>> layer.apply(layer.init(jax.random.key(1)), graph, x).shape
        (6, 2)

    Args:
        in_features: the number of features of x.
        out_features: the number of features of the result.
        order: the number K of polynomials: nodes at most K - 1 edges away contribute.
        use_bias: whether there is a bias.
        normalize: whether the Laplacian is normalized; otherwise it is D - A.
        lambda_max: the Laplacian's largest eigenvalue, or an upper bound; by default 2 if it is normalized.

    Raises ShapeError for sizes that are not positive integers.
    """

    in_features: int
    out_features: int
    order: int
    _: KW_ONLY
    use_bias: bool = True
    normalize: bool = True
    lambda_max: float | None = None

    def __post_init__(self) -> None:
        check_sizes("ChebConv", in_features=self.in_features, out_features=self.out_features, order=self.order)
        _check_bound("ChebConv", self.normalize, self.lambda_max)

    def parameters(self) -> dict[str, Parameter]:
        return chosen(
            kernel=Parameter((self.order, self.in_features, self.out_features), batch=1),
            bias=bias_of(self.out_features, self.use_bias),
        )

    def _apply(self, p: Arrays, graph: Graph, x: Features) -> jax.Array:
        options: dict[str, Any] = {"normalize": self.normalize, "lambda_max": self.lambda_max}
        return cheb_conv(graph, x, p["kernel"], p.get("bias"), **options)
