"""Mixtures of experts, and activations that keep few elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jsparse.convert.coordinate_creation import from_coords
from jsparse.errors import DTypeError, ShapeError, short_repr, shorten
from jsparse.graph.graphs import one_of
from jsparse.nn.operands import dense_array, id_array
from jsparse.ops.evaluate import evaluate
from jsparse.tensor.sparse_tensor import SparseTensor, TensorLike


class Routing(NamedTuple):
    """The experts of each token, integers (tokens, k), and their weights (tokens, k)."""

    experts: Any
    weights: Any


def route(logits: ArrayLike, k: int, *, softmax_over: str | None = None) -> Routing:
    """Choose the k experts with the largest logits for each token. Their weights are a softmax of logits.

        >>> jsparse.nn.route(jnp.array([[1.0, 3.0, 2.0, 0.0]]), 2).experts
        Array([[1, 2]], dtype=int32)

    Args:
        logits: (tokens, experts).
        k: the number of experts of a token.
        softmax_over: "chosen" for a softmax of the chosen logits, so that the weights add up to 1 (Shazeer et al.,
            "Outrageously large neural networks: the sparsely-gated mixture-of-experts layer", 2017), or "all" for a
            softmax of all logits before the choice (Fedus et al., "Switch transformers", 2022). The default is
            "chosen", but "all" for k = 1: the softmax of a single logit is always 1, so that nothing would be learned.

    Raises ShapeError for other shapes and names, and if k is not from 1 to the number of experts.
    """
    logits = dense_array(logits, "route", "logits (tokens, experts)")
    if logits.ndim != 2 or not isinstance(k, int) or not 0 < k <= logits.shape[1]:
        raise ShapeError(
            "Expected logits (tokens, experts) and k from 1 to the number of experts in route, but got "
            f"{shorten(logits.shape)} and k={k}."
        )
    over = ("all" if k == 1 else "chosen") if softmax_over is None else softmax_over
    one_of(over, ("chosen", "all"), "softmax_over= of route")
    chosen, experts = jax.lax.top_k(logits, k)
    if over == "chosen":
        return Routing(experts, jax.nn.softmax(chosen, axis=1))
    return Routing(experts, jnp.take_along_axis(jax.nn.softmax(logits, axis=1), experts, axis=1))


def mixture_of_experts(
    x: ArrayLike,
    routing: Routing,
    up: ArrayLike,
    down: ArrayLike,
    activation: Callable[[jax.Array], jax.Array] = jax.nn.gelu,
) -> jax.Array:
    """Compute Σ w[e] · activation(x U[e]) D[e] over the experts e of each token x. No token is dropped.

        >>> x, up, down = jnp.ones((6, 4)), jnp.ones((3, 4, 8)), jnp.ones((3, 8, 4))
        >>> routing = jsparse.nn.route(jnp.ones((6, 3)), 2)
        >>> jsparse.nn.mixture_of_experts(x, routing, up, down).shape
        (6, 4)

    Both products are indirect einsums over the pairs of tokens and experts, sorted by expert, so that the kernels of an
    expert are read once for all of its tokens. There are no capacities and no padding (Gale et al., "MegaBlocks",
    2023).

    Args:
        x: (tokens, in).
        routing: experts and weights, such as `route` gives. Experts out of range add nothing.
        up, down: kernels (experts, in, hidden) and (experts, hidden, out).
        activation: an elementwise function.

    Returns an array (tokens, out).

    Raises ShapeError for shapes that do not fit.
    """
    if not isinstance(routing, Routing):
        raise DTypeError(
            f"Expected a Routing in mixture_of_experts, as route returns it, but got {short_repr(routing)}."
        )
    layer = "mixture_of_experts"
    x, up = dense_array(x, layer, "x (tokens, in)"), dense_array(up, layer, "up (experts, ...)")
    experts = id_array(routing.experts, layer, "experts (tokens, k)", len(up) if up.ndim else 0)
    down = dense_array(down, layer, "down (experts, ...)")
    weights = dense_array(routing.weights, layer, "weights (tokens, k)")
    fits = x.ndim == 2 and up.ndim == down.ndim == 3 and up.shape[1] == x.shape[1]
    if (
        not fits
        or up.shape[::2] != down.shape[:2]
        or experts.shape != weights.shape
        or experts.shape[:1] != x.shape[:1]
    ):
        raise ShapeError(
            f"Expected tokens (tokens, in), experts and weights (tokens, k), and kernels (experts, in, hidden) and "
            f"(experts, hidden, out) in mixture_of_experts, but got {shorten(x.shape)}, {shorten(experts.shape)}, "
            f"{shorten(weights.shape)}, {shorten(up.shape)} and {shorten(down.shape)}."
        )
    order = jnp.argsort(experts.reshape(-1), stable=True)
    chosen, token = experts.reshape(-1)[order], order // experts.shape[1]
    hidden = activation(_dense("h[p,m] = x[t[p],c] * up[e[p],c,m]", x=x, up=up, t=token, e=chosen))
    return _dense(
        "y[t[p],f] += w[p] * h[p,m] * down[e[p],m,f]",
        w=weights.reshape(-1)[order],
        h=hidden,
        down=down,
        t=token,
        e=chosen,
        shape=(x.shape[0], down.shape[2]),
    )


def _dense(text: str, **arguments: Any) -> jax.Array:
    result = evaluate(text, **arguments)
    assert not isinstance(result, SparseTensor)
    return result


def top_k_activations(x: TensorLike, k: int) -> SparseTensor:
    """Keep the k largest elements of each row in a SparseTensor, so that later layers multiply only these elements.

        >>> jsparse.nn.top_k_activations(jnp.array([[1.0, 3.0, 2.0], [0.0, -1.0, 5.0]]), 1).todense()
        Array([[0., 3., 0.],
               [0., 0., 5.]], dtype=float32)

    Makhzani and Frey, "k-sparse autoencoders", 2014. The result is differentiable in the kept elements.

    Args:
        x: (rows, features).
        k: the number of elements to keep in each row; of equal elements, the first are kept.

    Returns a dynamic SparseTensor (rows, features) in csr with rows · k entries, so that one program serves
    all values of x. Raises ShapeError for other shapes, and if k is not from 1 to the number of features.
    """
    x = dense_array(x, "top_k_activations", "x (rows, features)")
    if x.ndim != 2 or not isinstance(k, int) or not 0 < k <= x.shape[1]:
        raise ShapeError(
            "Expected an array (rows, features) and k from 1 to the number of features in top_k_activations, but got "
            f"{shorten(x.shape)} and k={k}."
        )
    columns = jnp.sort(jax.lax.top_k(x, k)[1], axis=1)
    values = jnp.take_along_axis(x, columns, axis=1).reshape(-1)
    rows = jnp.repeat(jnp.arange(x.shape[0], dtype=columns.dtype), k)
    return from_coords(jnp.stack([rows, columns.reshape(-1)]), values, x.shape, "csr", nse=x.shape[0] * k)
