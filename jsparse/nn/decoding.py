"""Decoding: causal attention from the next positions, one or a whole prompt, with a cache of keys and values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike, DTypeLike

from jsparse.errors import ShapeError
from jsparse.nn.attention import (
    Parameters,
    Projector,
    caster,
    from_heads,
    mask_pattern,
    multi_head_attention,
    projections_of,
    relative_bias,
    to_heads,
)
from jsparse.nn.operands import dense_array
from jsparse.ops.attention.decoding import check_causal, leading_part, rows_of
from jsparse.ops.attention.dot_product_attention import pattern_of_mask
from jsparse.ops.attention.fused import Extra, attend
from jsparse.tensor.sparse_tensor import PatternLike


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class KVCache:
    """The keys and values of the positions that a decoder has processed, and the number of these positions.

    >>> cache = jsparse.nn.KVCache.empty((2,), 128, 4, 8)
    >>> cache.key.shape, int(cache.index)
    ((2, 128, 4, 8), 0)

    Attributes:
        key: (..., length, kv_heads, dim), 0 where nothing is written yet.
        value: an array like `key`, with the values.
        index: the number of positions written, an integer of shape (). See `attention_step`.
    """

    key: jax.Array
    value: jax.Array
    index: jax.Array

    @staticmethod
    def empty(batch: Sequence[int], length: int, kv_heads: int, dim: int, dtype: DTypeLike = jnp.float32) -> KVCache:
        """Make an empty cache with room for `length` positions. See `KVCache`."""
        shape = (*batch, length, kv_heads, dim)
        return KVCache(jnp.zeros(shape, dtype), jnp.zeros(shape, dtype), jnp.zeros((), jnp.int32))


def attention_step(
    x: ArrayLike,
    cache: KVCache,
    mask: PatternLike,
    *,
    query: Projector,
    key: Projector,
    value: Projector,
    out: Projector,
    relative: ArrayLike | None = None,
) -> tuple[jax.Array, KVCache]:
    """Compute causal self-attention at the next positions, with a KV cache. The result is as in `multi_head_attention`.

        >>> rng = np.random.default_rng(0)
        >>> qkv = [jsparse.nn.Projection(rng.normal(size=(16, 4, 8)) / 4) for _ in range(3)]
        >>> out = jsparse.nn.Projection(rng.normal(size=(4, 8, 16)) / 4)
        >>> mask, cache = jsparse.pattern.causal(64, before=8), jsparse.nn.KVCache.empty((2,), 64, 4, 8)
        >>> x = jnp.ones((2, 1, 16))
        >>> y, cache = jsparse.nn.attention_step(x, cache, mask, query=qkv[0], key=qkv[1], value=qkv[2], out=out)
        >>> y.shape, int(cache.index)
        ((2, 1, 16), 1)

    A prompt is processed by one call, too: x of shape (2, 20, 16) adds 20 positions to the cache.

    Only the cached keys and values in the rows of the mask for these positions are read. The cache is written in place
    if a loop carries it, or if it is donated to the compiled step.

    Args:
        x: the next n positions, (..., n, in): one, or several such as a prompt.
        cache: the keys and values of the earlier positions. Its length is the length of the mask.
        mask: a causal Pattern or SparseTensor (n, n) or (heads, n, n), static or dynamic.
        query, key, value, out: projections as in `multi_head_attention`.
        relative: a table of biases by distance, (heads, 2 d + 1), as in `relative_bias`.

    Returns an array (..., n, out), and the cache with n more positions. If the cache has no room for them, the
    array is NaN if `cache.index` is traced, and ShapeError is raised if it is known.

    Raises ShapeError for shapes that do not fit, and PatternError for a mask in which a query sees a later key.
    """
    x, pattern = dense_array(x, "attention_step", "x (..., n, in)"), mask_pattern(mask)
    check_causal(pattern, "attention_step")
    # Queries, keys and values have the shape (..., length, heads, dim).
    q, k, v = (to_heads(x, projection, "attention_step") for projection in (query, key, value))
    length = pattern.shape[-1]
    if x.ndim < 2 or not 1 <= x.shape[-2] <= length:
        raise ShapeError(
            f"Expected x (..., n, in) with 1 to {length} positions in a step of a decoder, but got {x.shape}."
        )
    expected = (*k.shape[:-3], length, *k.shape[-2:])
    if cache.key.shape != expected or cache.value.shape != expected:
        raise ShapeError(
            f"Expected a KV cache of shape {expected} for x {x.shape} and a mask of shape {pattern.shape}, but got "
            f"keys {cache.key.shape} and values {cache.value.shape}."
        )
    if not isinstance(cache.index, jax.core.Tracer) and int(cache.index) + x.shape[-2] > length:
        raise ShapeError(
            f"Expected at most {length} steps for a KV cache of length {length}, but {int(cache.index)} positions are "
            f"written already, and x {x.shape} has {x.shape[-2]}. Begin with an empty cache, or make the mask and the "
            "cache longer."
        )
    keys, values = (
        jax.lax.dynamic_update_slice_in_dim(cached, new.astype(cached.dtype), cache.index, axis=-3)
        for cached, new in ((cache.key, k), (cache.value, v))
    )
    count = x.shape[-2]
    rows = rows_of(pattern, cache.index, count)
    added = []
    if relative is not None:
        bias = relative_bias(relative, rows, first=cache.index)
        added.append(Extra(bias, (*(False,) * (q.ndim - 3), True)))
    of_queries = keys, values
    if pattern.ndim == 3 and keys.shape[-2] != q.shape[-2]:  # each query head has its own pattern
        repeats = q.shape[-2] // keys.shape[-2]
        of_queries = jnp.repeat(keys, repeats, -2), jnp.repeat(values, repeats, -2)
    attended = attend(q, *of_queries, pattern_of_mask(rows, q, *of_queries), None, added, lengths_first=True)
    attended = jnp.where(cache.index + count <= pattern.shape[-1], attended, jnp.nan)
    return from_heads(attended, out), KVCache(keys, values, cache.index + count)


def apply_layer(
    parameters: Mapping[str, Parameters],
    relative: jax.Array | None,
    x: ArrayLike,
    context: ArrayLike | None,
    mask: PatternLike,
    cache: KVCache | None,
    dtype: DTypeLike | None,
    dropout_rate: float,
    dropout_key: jax.Array | None,
) -> tuple[jax.Array, KVCache | None]:
    """Attend with the parameters of a layer. Returns the result, and the cache with the positions of x if there is one.

    See `multi_head_attention`, and `attention_step` for a layer with a cache. For shorter sequences than the mask is
    made for, its leading part is the mask.

    Args:
        parameters: for each projection a "kernel" and, if it has one, a "bias"; or a function that computes it.
        relative: biases by relative position, or None.
        x: (..., n, in_features).
        context: (..., m, in_kv_features); None for x. With a cache it is not used.
        cache: the keys and values of earlier positions, if x has the next positions of a decoder.
        dtype: the dtype of the computation; None for the operands' dtype.
        dropout_rate, dropout_key: as in `multi_head_attention`. With a cache they are not used.
    """
    cast, projections = caster(dtype), projections_of(parameters, dtype)
    x = cast(dense_array(x, "SparseAttention", "x (..., n, in)"))
    table = None if relative is None else cast(relative)
    if cache is not None:
        return attention_step(x, cache, mask, **projections, relative=table)
    context = x if context is None else cast(dense_array(context, "SparseAttention", "context (..., m, in)"))
    pattern = mask_pattern(mask)
    if x.ndim > 1 and context.ndim > 1:
        pattern = leading_part(pattern, x.shape[-2], context.shape[-2])
    bias = None if table is None else relative_bias(table, pattern)
    options: dict[str, Any] = {**projections, "bias": bias, "dropout_rate": dropout_rate, "dropout_key": dropout_key}
    return multi_head_attention(x, context, pattern, **options), None
