"""Attention with the arguments and the layout of `jax.nn.dot_product_attention`: lengths come before heads."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jsparse.base.arrays import Array
from jsparse.convert.creation import as_sparse_operand
from jsparse.errors import ShapeError
from jsparse.formats import Pattern
from jsparse.ops.attention.fused import Extra, attend
from jsparse.planning.dtypes import wide_float
from jsparse.planning.signature import is_sparse, pattern_of
from jsparse.tensor.dynamic_pattern import DynamicPattern, same_entries
from jsparse.tensor.sparse_tensor import PatternLike, SparseTensor, TensorLike


def dot_product_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    bias: TensorLike | None = None,
    mask: TensorLike | PatternLike | None = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
) -> jax.Array:
    """Attention with the arguments of `jax.nn.dot_product_attention`, where the mask may be sparse.

    With a sparse mask, this is `jsparse.sparse_attention` in the layout of jax.nn: one kernel forward and one backward.
    The result is then 0 for a query that sees no key. Without a sparse mask, `jax.nn.dot_product_attention` is called,
    whose result for a query that sees no key is a mean.

    Args:
        query: (..., T, heads, dim).
        key: (..., S, kv_heads, dim), where `kv_heads` divides `heads`.
        value: (..., S, kv_heads, dim of values).
        bias: added to the scores: an array that broadcasts to (..., heads, T, S), or a SparseTensor on the mask's
            pattern.
        mask: a Pattern, or a SparseTensor, whose values are ignored, of shape (T, S) or (heads, T, S), static or
            dynamic; or a mask that jax.nn accepts.
        scale: the factor of the scores; by default dim ** -0.5.
        is_causal: whether query i sees only the keys 0 to i. For n queries and n keys,
            `mask & jsparse.pattern.causal(n)` has the same effect, with fewer entries.

    Returns an array (..., T, heads, dim of values) of the query's dtype. Narrow floats are computed in float32.

    Raises ShapeError for shapes that do not match.

        >>> mask = jsparse.pattern.window(256, 16) | jsparse.pattern.global_(256, 1)
        >>> q, k, v = jax.random.normal(jax.random.key(0), (3, 4, 256, 8, 32))
        >>> jsparse.dot_product_attention(q, k, v, mask=mask).shape
        (4, 256, 8, 32)
    """
    added, where = (as_sparse_operand(x, "jsparse.dot_product_attention") for x in (bias, mask))
    if not is_sparse(where):
        if is_sparse(added):
            raise ShapeError(
                f"Expected a sparse mask with the sparse bias {added!r}, which is added to the scores at the entries "
                f"of the mask, but got mask={type(where).__name__}. Pass mask=bias.pattern too, or bias.todense()."
            )
        return jax.nn.dot_product_attention(query, key, value, added, where, scale=scale, is_causal=is_causal)
    q, k, v = map(jnp.asarray, (query, key, value))
    return over_lengths(q, k, v, pattern_of_mask(where, q, k, v), added, scale=scale, is_causal=is_causal)


def pattern_of_mask(mask: PatternLike, query: Array, key: Array, value: Array) -> Pattern | DynamicPattern:
    """Return the pattern of a sparse mask. Raises ShapeError if shapes do not fit."""
    pattern = pattern_of(mask)
    shapes = f"query {query.shape}, key {key.shape}, value {value.shape} and a mask of shape {tuple(mask.shape)}"
    if min(query.ndim, key.ndim, value.ndim) < 3 or len({x.shape[:-3] for x in (query, key, value)}) > 1:
        raise ShapeError(f"Expected arrays (..., length, heads, dim) with equal leading axes, but got {shapes}.")
    if query.shape[-1] != key.shape[-1] or key.shape[:-1] != value.shape[:-1]:
        raise ShapeError(f"Expected the key to match the query, and the value to match the key, but got {shapes}.")
    heads, shared = query.shape[-2], key.shape[-2]
    if not shared or heads % shared:
        raise ShapeError(f"Expected the number of key heads to divide the number of query heads, but got {shapes}.")
    whole = (heads, query.shape[-3], key.shape[-3])
    if pattern is None or tuple(mask.shape) not in (whole, whole[1:]):
        raise ShapeError(
            f"Expected a mask of shape {whole[1:]}, or {whole} with a mask for each head, but got {shapes}."
        )
    if len(mask.shape) == 3 and heads != shared:
        raise ShapeError(f"Expected a head of keys for each pattern of the mask, but got {shapes}.")
    return pattern


def over_lengths(
    query: Any,
    key: Any,
    value: Any,
    pattern: Pattern | DynamicPattern,
    bias: SparseTensor | ArrayLike | None = None,
    dense_mask: ArrayLike | None = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    kept: Extra | None = None,
) -> jax.Array:
    """Compute attention of arrays (..., length, heads, dim) on a pattern.

    Args:
        bias: an array that broadcasts to (..., heads, T, S), or a SparseTensor on the pattern.
        dense_mask: an array that broadcasts to (..., heads, T, S), False for entries of the pattern that are left out.
        kept: the factors by which the weights are multiplied.
    """
    shape = (*query.shape[:-3], query.shape[-2], query.shape[-3], key.shape[-3])
    added = []
    if isinstance(bias, SparseTensor):
        if not same_entries(bias.pattern, pattern):
            raise ShapeError(
                f"Expected a bias on the mask's pattern {pattern!r}, but got {bias!r}. Use B.restrict(mask)."
            )
        added.append(Extra(bias.values, (False,) * (query.ndim - 2)))
    elif bias is not None:
        added.append(Extra.of_dense(jnp.asarray(bias), shape, "bias"))
    if dense_mask is not None:
        out = jnp.where(jnp.asarray(dense_mask) != 0, 0, jnp.asarray(-jnp.inf, wide_float(query.dtype)))
        added.append(Extra.of_dense(out, shape, "mask"))
    return attend(query, key, value, pattern, scale, added, kept, lengths_first=True, is_causal=is_causal)
