"""Transformer convolutions on graphs: attention by products of queries and keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jsparse.errors import DTypeError, ShapeError, short_repr
from jsparse.formats import Pattern
from jsparse.graph.graphs import Graph, indices_of
from jsparse.nn.attention import Projection
from jsparse.nn.graph_attention.edges import (
    AttentionLayer,
    EdgeFeatures,
    check_edge_kernel,
    edges_to_attend,
    join_heads,
    over_neighbors,
    per_head,
)
from jsparse.nn.layer import Arrays, Parameter, bias_of, chosen, pair
from jsparse.nn.operands import (
    Features,
    as_kernel,
    at_edges,
    check_kernel,
    dense_sums,
    operands,
    own_part,
    plus_bias,
    round_to_operands,
    wide,
    wide_sums,
)
from jsparse.ops.attention.dropout import dropout_factors
from jsparse.ops.einsum import contract
from jsparse.ops.fuse import fuse
from jsparse.planning.dtypes import wide_float
from jsparse.tensor.dynamic_pattern import DynamicPattern
from jsparse.tensor.sparse_tensor import SparseTensor, TensorLike


def transformer_conv(
    graph: Graph,
    x: Features,
    query: Projection,
    key: Projection,
    value: Projection,
    root: Projection | None = None,
    *,
    gate: TensorLike | None = None,
    edge_features: SparseTensor | ArrayLike | None = None,
    edge_kernel: TensorLike | None = None,
    concat: bool = True,
    dropout_rate: float = 0.0,
    dropout_key: jax.Array | None = None,
) -> jax.Array:
    """Compute Σ over neighbours j of w[i, j, h] (value[j] + e[i, j]), plus x[i] R.

        w[i, j, h] = softmax over j of query[i] · (key[j] + e[i, j]) / √dim,   e[i, j] = features[i, j] E[h]

        >>> P = jsparse.random(jax.random.key(0), (6, 6), density=0.5).pattern
        >>> projections = [jsparse.nn.Projection(jnp.ones((4, 2, 3))) for _ in range(3)]
        >>> jsparse.nn.transformer_conv(P, jnp.ones((6, 4)), *projections).shape
        (6, 6)

    Shi et al., "Masked label prediction: unified message passing model for semi-supervised classification", 2021.
    Scores, softmax and sums are fused (see `jsparse.fuse`).

    Args:
        graph: as in `gat_conv`.
        x: features (nodes, in), or a pair (sources, in), (targets, target_in), sparse or dense.
        query, key, value: kernels (in, heads, dim), (target_in, heads, dim) for the query, with biases (heads, dim) or
            None. All kernels, and the gate, may be sparse.
        root: a kernel (target_in, out) with a bias (out,) or None; out is heads · dim, or dim without `concat`.
        gate: an array (3 · out,), or None. With m the sum over neighbours and r = x R, the result is m + r without a
            gate, and (1 - β) m + β r with a gate, where β = sigmoid([m, r, m - r] · gate).
        edge_features, edge_kernel: features (nse, edge_in) and their kernel E (edge_in, heads, dim).
        concat: whether the heads are side by side; otherwise their mean is the result.
        dropout_rate, dropout_key: the dropout rate of the weights w, and a key of random numbers.

    Returns an array (targets, heads · dim), or (targets, dim).

    Raises ShapeError for shapes that do not fit and a gate without a root, DTypeError for a dense graph.
    """
    graph, source, target = operands(graph, x, "transformer_conv", sparse=True)
    q = _project(target, query, "query")
    k, v = _project(source, key, "key"), _project(source, value, "value")
    pattern, features = edges_to_attend(graph, edge_features, False, "transformer_conv")
    kernel = check_edge_kernel(features, edge_kernel, q, "transformer_conv")
    factors = dropout_factors((pattern.nse, q.shape[1]), dropout_rate, dropout_key, "transformer_conv")
    q = q * q.shape[2] ** -0.5
    of_edges = None if kernel is None else dense_sums("ihd,ehd->ihe", q, kernel)
    of_heads, gathered = _attend(pattern, q, k, v, features, of_edges, factors)
    if gathered is not None and kernel is not None:
        of_heads = of_heads + dense_sums("ihe,ehd->ihd", gathered, wide(kernel))
    sums = join_heads(of_heads, concat, None, "transformer_conv")
    arrays = q, k, v, features, edge_kernel, *(() if root is None else (target, *root)), gate
    return round_to_operands(_beside(sums, target, root, gate), *arrays)


def _beside(sums: jax.Array, target: jax.Array, root: Projection | None, gate: TensorLike | None) -> jax.Array:
    """Return the sums over neighbours plus x R, or a mix of both by the gate, for x = `target` and R = `root`.

    Without a root, return the sums. The result is in float32 if the operands are narrow floats.
    """
    if root is None:
        if gate is not None:
            raise ShapeError("Expected root= in transformer_conv, because a gate chooses between the sums and x R.")
        return sums
    of_node = own_part(target, root.kernel, sums.shape[1], "transformer_conv")
    of_node = plus_bias(of_node, root.bias, "transformer_conv", "root bias")
    if gate is None:
        return sums + of_node
    vector = as_kernel(gate, "transformer_conv", f"a gate ({3 * sums.shape[1]},)")
    if vector.shape != (3 * sums.shape[1],):
        raise ShapeError(f"Expected a gate ({3 * sums.shape[1]},) in transformer_conv, but got {vector.shape}.")
    share = jax.nn.sigmoid(jnp.concatenate([sums, of_node, sums - of_node], axis=1) @ wide(vector))[:, None]
    return (1 - share) * sums + share * of_node


def _project(x: jax.Array, projection: Projection, name: str) -> jax.Array:
    if not isinstance(projection, Projection):
        raise DTypeError(
            f"Expected a Projection(kernel, bias) as the {name} of transformer_conv, but got {short_repr(projection)}."
        )
    kernel = check_kernel(projection.kernel, x.shape[1], 3, "transformer_conv", f"{name} kernel")
    product = plus_bias(per_head(x, kernel), projection.bias, "transformer_conv", f"{name} bias")
    return round_to_operands(product, x, kernel, projection.bias)


@fuse
def _attend(
    pattern: Pattern | DynamicPattern,
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    features: SparseTensor | None,
    of_edges: jax.Array | None,
    factors: jax.Array | None,
) -> tuple[jax.Array, jax.Array | None]:
    """Return the weighted sums of values, and the weighted sums of edge features (None without edge features)."""
    heads = pattern.extended([q.shape[1]])
    at, dtype = indices_of(pattern), wide_float(q.dtype)
    scores = at_edges("ihd,jhd->ijh", q, k, like=heads, dtype=dtype)
    if features is not None and of_edges is not None:
        of_features = contract(f"{at}e,ihe->{at}h", features, of_edges, out_format=heads, preferred_element_type=dtype)
        scores = scores + of_features
    weights = over_neighbors(scores, factors)
    sums = wide_sums(f"{at}h,jhd->ihd", weights, v)
    return sums, None if features is None else wide_sums(f"{at}h,{at}e->ihe", weights, features)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformerConv(AttentionLayer):
    """Attention by products of queries and keys, plus x R, as `jsparse.nn.transformer_conv` computes it.

    Shi et al., 2021.

        >>> layer = jsparse.nn.TransformerConv(4, 3, heads=2)
        >>> graph, x = jsparse.random(jax.random.key(0), (6, 6), density=0.5), jnp.ones((6, 4))
        >>> layer.apply(layer.init(jax.random.key(1)), graph, x).shape
        (6, 6)

    Args:
        in_features: the number of features of x; a pair for sources and targets.
        out_features: the number of features of one head.
        heads: the number of heads.
        concat: whether heads are side by side; otherwise their mean is the result.
        beta: whether a gate weighs the sum over neighbours against x R.
        use_root: whether x R is added.
        edge_features: the number of features of edges; None without them.
        use_bias: whether there are biases.
        dropout_rate: the share of weights that is dropped in training.

    Raises ShapeError for sizes that are not positive integers.
    """

    beta: bool = False
    use_root: bool = True

    def parameters(self) -> dict[str, Parameter]:
        source, target = pair(self.in_features)
        heads, out = (self.heads, self.out_features), self.width
        bias = Parameter(heads, "bias") if self.use_bias else None
        return chosen(
            query=Parameter((target, *heads)),
            query_bias=bias,
            key=Parameter((source, *heads)),
            key_bias=bias,
            value=Parameter((source, *heads)),
            value_bias=bias,
            root=Parameter((target, out)) if self.use_root else None,
            root_bias=bias_of(out, self.use_root and self.use_bias),
            gate=Parameter((3 * out, 1)) if self.use_root and self.beta else None,
            edge_kernel=None if self.edge_features is None else Parameter((self.edge_features, *heads)),
        )

    def _convolve(self, p: Arrays, graph: Graph, x: Features, edge_features: EdgeFeatures, **options: Any) -> jax.Array:
        names = ("query", "key", "value", "root")
        options |= {name: Projection(p[name], p.get(f"{name}_bias")) for name in names if name in p}
        options |= {"gate": p["gate"][:, 0] if "gate" in p else None, "edge_kernel": p.get("edge_kernel")}
        return transformer_conv(graph, x, edge_features=edge_features, **options)
